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

SIM_BOTH(cuStreamBeginCaptureToGraph, _ptsz,
         TAKES(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
               const CUgraphEdgeData *dependencyData, size_t numDependencies,
               CUstreamCaptureMode mode),
         ((void)dependencyData,
          begin_into(hStream, default_stream, hGraph, dependencies, numDependencies, mode)))

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

SIM_BOTH(cuStreamIsCapturing, _ptsz, TAKES(CUstream hStream, CUstreamCaptureStatus *captureStatus),
         get_info(hStream, default_stream, &(struct answer){.status = captureStatus}))

SIM_BOTH(cuStreamGetCaptureInfo, _ptsz,
         TAKES(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out),
         get_info(hStream, default_stream,
                  &(struct answer){.status = captureStatus_out, .id = id_out}))

SIM_BOTH(cuStreamGetCaptureInfo_v2, _ptsz,
         TAKES(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
               CUgraph *graph_out, const CUgraphNode **dependencies_out,
               size_t *numDependencies_out),
         get_info(hStream, default_stream,
                  &(struct answer){captureStatus_out, id_out, graph_out, dependencies_out, NULL,
                                   numDependencies_out}))

SIM_BOTH(cuStreamGetCaptureInfo_v3, _ptsz,
         TAKES(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
               CUgraph *graph_out, const CUgraphNode **dependencies_out,
               const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
         get_info(hStream, default_stream,
                  &(struct answer){captureStatus_out, id_out, graph_out, dependencies_out,
                                   edgeData_out, numDependencies_out}))

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

SIM_BOTH(cuStreamUpdateCaptureDependencies_v2, _ptsz,
         TAKES(CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
               size_t numDependencies, unsigned int flags),
         ((void)dependencyData,
          update(hStream, default_stream, dependencies, numDependencies, flags)))
