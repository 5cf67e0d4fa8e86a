/*
 * Captures.  The runtime's enums and edge data have the driver's numbers and layout, so values are
 * passed on by a cast.
 */
#include "tools/sim/runtime/core/thread.h"

static cudaError_t begin(const struct simrt_driver *cu, cudaStream_t stream,
                         enum cudaStreamCaptureMode mode) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode));
    return simrt_leave(error);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    return begin(&simrt_legacy, stream, mode);
}

cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    return begin(&simrt_per_thread, stream, mode);
}

static cudaError_t begin_to_graph(const struct simrt_driver *cu, cudaStream_t stream,
                                  cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                  const cudaGraphEdgeData *edges, size_t n_dependencies,
                                  enum cudaStreamCaptureMode mode) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuStreamBeginCaptureToGraph(
            stream, graph, dependencies, (const CUgraphEdgeData *)edges, n_dependencies,
            (CUstreamCaptureMode)mode));
    return simrt_leave(error);
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t *dependencies,
                                          const cudaGraphEdgeData *dependencyData,
                                          size_t numDependencies, enum cudaStreamCaptureMode mode) {
    return begin_to_graph(&simrt_legacy, stream, graph, dependencies, dependencyData,
                          numDependencies, mode);
}

cudaError_t cudaStreamBeginCaptureToGraph_ptsz(cudaStream_t stream, cudaGraph_t graph,
                                               const cudaGraphNode_t *dependencies,
                                               const cudaGraphEdgeData *dependencyData,
                                               size_t numDependencies,
                                               enum cudaStreamCaptureMode mode) {
    return begin_to_graph(&simrt_per_thread, stream, graph, dependencies, dependencyData,
                          numDependencies, mode);
}

static cudaError_t end(const struct simrt_driver *cu, cudaStream_t stream, cudaGraph_t *graph) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuStreamEndCapture(stream, graph));
    return simrt_leave(error);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph) {
    return end(&simrt_legacy, stream, pGraph);
}

cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t *pGraph) {
    return end(&simrt_per_thread, stream, pGraph);
}

static cudaError_t is_capturing(const struct simrt_driver *cu, cudaStream_t stream,
                                enum cudaStreamCaptureStatus *answer) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !answer)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuStreamIsCapturing(stream, &status));
    if (error == cudaSuccess)
        *answer = (enum cudaStreamCaptureStatus)status;
    return simrt_leave(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *pCaptureStatus) {
    return is_capturing(&simrt_legacy, stream, pCaptureStatus);
}

cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream,
                                       enum cudaStreamCaptureStatus *pCaptureStatus) {
    return is_capturing(&simrt_per_thread, stream, pCaptureStatus);
}

static cudaError_t get_info(const struct simrt_driver *cu, cudaStream_t stream,
                            enum cudaStreamCaptureStatus *answer, unsigned long long *id,
                            cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
                            const cudaGraphEdgeData **edges, size_t *n_dependencies) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t number = 0;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !answer)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = simrt_from_cu(
            cu->cuStreamGetCaptureInfo_v3(stream, &status, &number, graph, dependencies,
                                          (const CUgraphEdgeData **)edges, n_dependencies));
    if (error == cudaSuccess) {
        *answer = (enum cudaStreamCaptureStatus)status;
        if (id)
            *id = number;
    }
    return simrt_leave(error);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     enum cudaStreamCaptureStatus *captureStatus_out,
                                     unsigned long long *id_out, cudaGraph_t *graph_out,
                                     const cudaGraphNode_t **dependencies_out,
                                     const cudaGraphEdgeData **edgeData_out,
                                     size_t *numDependencies_out) {
    return get_info(&simrt_legacy, stream, captureStatus_out, id_out, graph_out, dependencies_out,
                    edgeData_out, numDependencies_out);
}

cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream,
                                          enum cudaStreamCaptureStatus *captureStatus_out,
                                          unsigned long long *id_out, cudaGraph_t *graph_out,
                                          const cudaGraphNode_t **dependencies_out,
                                          const cudaGraphEdgeData **edgeData_out,
                                          size_t *numDependencies_out) {
    return get_info(&simrt_per_thread, stream, captureStatus_out, id_out, graph_out,
                    dependencies_out, edgeData_out, numDependencies_out);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !mode)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        CUstreamCaptureMode exchanged = (CUstreamCaptureMode)*mode;
        error = simrt_from_cu(simrt_legacy.cuThreadExchangeStreamCaptureMode(&exchanged));
        *mode = (enum cudaStreamCaptureMode)exchanged;
    }
    return simrt_leave(error);
}
