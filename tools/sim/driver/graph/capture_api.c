/* Captures as the program uses them. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "capture.h"
#include "tools/sim/driver/stream/stream.h"
#include "tools/sim/driver/core/thread.h"

static CUresult begin(CUstream handle, CUstream default_stream, CUstreamCaptureMode mode,
                      struct sim_graph *graph, const struct sim_nodes *after) {
    struct sim_stream *stream;
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    return sim_capture_begin(stream, mode, graph, after);
}

static CUresult begin_new(CUstream handle, CUstream default_stream, CUstreamCaptureMode mode) {
    const struct sim_nodes none = {NULL, 0, 0};
    return begin(handle, default_stream, mode, NULL, &none);
}

SIM_BOTH(cuStreamBeginCapture, _ptsz, TAKES(CUstream hStream),
         begin_new(hStream, default_stream, CU_STREAM_CAPTURE_MODE_GLOBAL))

SIM_BOTH(cuStreamBeginCapture_v2, _ptsz, TAKES(CUstream hStream, CUstreamCaptureMode mode),
         begin_new(hStream, default_stream, mode))

static CUresult begin_into(CUstream handle, CUstream default_stream, CUgraph graph_handle,
                           const CUgraphNode *dependencies, size_t n, CUstreamCaptureMode mode) {
    struct sim_graph *graph;
    struct sim_nodes after;
    SIM_TRY(sim_graph_of_handle(graph_handle, &graph));
    if (graph->is_captured_into)
        return CUDA_ERROR_ILLEGAL_STATE;
    SIM_TRY(sim_nodes_of_handles(graph, dependencies, n, &after));
    CUresult result = begin(handle, default_stream, mode, graph, &after);
    sim_nodes_finish(&after);
    return result;
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                     const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode) {
    SIM_ENTER(cuStreamBeginCaptureToGraph);
    (void)dependencyData;
    return sim_leave(
        begin_into(hStream, CU_STREAM_LEGACY, hGraph, dependencies, numDependencies, mode));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
                                          const CUgraphNode *dependencies,
                                          const CUgraphEdgeData *dependencyData,
                                          size_t numDependencies, CUstreamCaptureMode mode) {
    SIM_ENTER(cuStreamBeginCaptureToGraph_ptsz);
    (void)dependencyData;
    return sim_leave(
        begin_into(hStream, CU_STREAM_PER_THREAD, hGraph, dependencies, numDependencies, mode));
}

static CUresult end(CUstream handle, CUstream default_stream, CUgraph *out) {
    struct sim_stream *stream;
    struct sim_graph *graph;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    CUresult result = sim_capture_end(stream, &graph);
    *out = (CUgraph)graph;
    return result;
}

SIM_BOTH(cuStreamEndCapture, _ptsz, TAKES(CUstream hStream, CUgraph *phGraph),
         end(hStream, default_stream, phGraph))

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    SIM_ENTER(cuThreadExchangeStreamCaptureMode);
    if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureMode old = sim_thread()->capture_mode;
    sim_thread()->capture_mode = *mode;
    *mode = old;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- questions ---- */

/* What a query of a stream's capture may ask for; every place but the status may be NULL. */
struct answer {
    CUstreamCaptureStatus *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **dependencies;
    const CUgraphEdgeData **edges;
    size_t *n_dependencies;
};

static void fill(const struct sim_stream *stream, const struct answer *answer) {
    const struct sim_capture *capture = stream->capture;
    *answer->status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!capture)
        return;
    *answer->status = capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                          : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (capture->is_invalid)
        return;
    if (answer->id)
        *answer->id = capture->id;
    if (answer->graph)
        *answer->graph = (CUgraph)capture->graph;
    if (answer->dependencies) /* a handle is the node's address, so the list is one of handles */
        *answer->dependencies = (const CUgraphNode *)stream->tips.nodes;
    if (answer->edges)
        *answer->edges = NULL;
    if (answer->n_dependencies)
        *answer->n_dependencies = stream->tips.n;
}

static CUresult get_info(CUstream handle, CUstream default_stream, const struct answer *answer) {
    struct sim_stream *stream;
    if (!answer->status)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    if (sim_capture_is_beside(stream))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    fill(stream, answer);
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus) {
    SIM_ENTER(cuStreamIsCapturing);
    struct answer answer = {.status = captureStatus};
    return sim_leave(get_info(hStream, CU_STREAM_LEGACY, &answer));
}

CUresult cuStreamIsCapturing_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus) {
    SIM_ENTER(cuStreamIsCapturing_ptsz);
    struct answer answer = {.status = captureStatus};
    return sim_leave(get_info(hStream, CU_STREAM_PER_THREAD, &answer));
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                cuuint64_t *id_out) {
    SIM_ENTER(cuStreamGetCaptureInfo);
    struct answer answer = {.status = captureStatus_out, .id = id_out};
    return sim_leave(get_info(hStream, CU_STREAM_LEGACY, &answer));
}

CUresult cuStreamGetCaptureInfo_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                     cuuint64_t *id_out) {
    SIM_ENTER(cuStreamGetCaptureInfo_ptsz);
    struct answer answer = {.status = captureStatus_out, .id = id_out};
    return sim_leave(get_info(hStream, CU_STREAM_PER_THREAD, &answer));
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                   cuuint64_t *id_out, CUgraph *graph_out,
                                   const CUgraphNode **dependencies_out,
                                   size_t *numDependencies_out) {
    SIM_ENTER(cuStreamGetCaptureInfo_v2);
    struct answer answer = {captureStatus_out, id_out, graph_out,
                            dependencies_out,  NULL,   numDependencies_out};
    return sim_leave(get_info(hStream, CU_STREAM_LEGACY, &answer));
}

CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                        cuuint64_t *id_out, CUgraph *graph_out,
                                        const CUgraphNode **dependencies_out,
                                        size_t *numDependencies_out) {
    SIM_ENTER(cuStreamGetCaptureInfo_v2_ptsz);
    struct answer answer = {captureStatus_out, id_out, graph_out,
                            dependencies_out,  NULL,   numDependencies_out};
    return sim_leave(get_info(hStream, CU_STREAM_PER_THREAD, &answer));
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                   cuuint64_t *id_out, CUgraph *graph_out,
                                   const CUgraphNode **dependencies_out,
                                   const CUgraphEdgeData **edgeData_out,
                                   size_t *numDependencies_out) {
    SIM_ENTER(cuStreamGetCaptureInfo_v3);
    struct answer answer = {captureStatus_out, id_out,       graph_out,
                            dependencies_out,  edgeData_out, numDependencies_out};
    return sim_leave(get_info(hStream, CU_STREAM_LEGACY, &answer));
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                        cuuint64_t *id_out, CUgraph *graph_out,
                                        const CUgraphNode **dependencies_out,
                                        const CUgraphEdgeData **edgeData_out,
                                        size_t *numDependencies_out) {
    SIM_ENTER(cuStreamGetCaptureInfo_v3_ptsz);
    struct answer answer = {captureStatus_out, id_out,       graph_out,
                            dependencies_out,  edgeData_out, numDependencies_out};
    return sim_leave(get_info(hStream, CU_STREAM_PER_THREAD, &answer));
}

/* ---- changing the place at which a stream captures ---- */

static CUresult update(CUstream handle, CUstream default_stream, const CUgraphNode *dependencies,
                       size_t n, unsigned flags) {
    struct sim_stream *stream;
    struct sim_nodes tips;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    if (!stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES && flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_nodes_of_handles(stream->capture->graph, dependencies, n, &tips));
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        stream->tips.n = 0;
    bool is_whole = sim_nodes_copy(&stream->tips, &tips);
    sim_nodes_finish(&tips);
    return is_whole ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_BOTH(cuStreamUpdateCaptureDependencies, _ptsz,
         TAKES(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
               unsigned int flags),
         update(hStream, default_stream, dependencies, numDependencies, flags))

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                              const CUgraphEdgeData *dependencyData,
                                              size_t numDependencies, unsigned int flags) {
    SIM_ENTER(cuStreamUpdateCaptureDependencies_v2);
    (void)dependencyData;
    return sim_leave(update(hStream, CU_STREAM_LEGACY, dependencies, numDependencies, flags));
}

CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream hStream, CUgraphNode *dependencies,
                                                   const CUgraphEdgeData *dependencyData,
                                                   size_t numDependencies, unsigned int flags) {
    SIM_ENTER(cuStreamUpdateCaptureDependencies_v2_ptsz);
    (void)dependencyData;
    return sim_leave(update(hStream, CU_STREAM_PER_THREAD, dependencies, numDependencies, flags));
}
