/*
 * Captures.  The runtime's enums and edge data have the driver's numbers and layout, so values are
 * passed on by a cast.
 */
#include "tools/sim/runtime/core/thread.h"

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

SIMRT_BOTH(cudaStreamIsCapturing, _ptsz,
           TAKES(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus),
           is_capturing(cu, stream, pCaptureStatus))

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

SIMRT_BOTH(cudaStreamGetCaptureInfo, _ptsz,
           TAKES(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
                 unsigned long long *id_out, cudaGraph_t *graph_out,
                 const cudaGraphNode_t **dependencies_out, const cudaGraphEdgeData **edgeData_out,
                 size_t *numDependencies_out),
           get_info(cu, stream, captureStatus_out, id_out, graph_out, dependencies_out,
                    edgeData_out, numDependencies_out))

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
