/* Callbacks on a stream.  One gets the runtime's error type, so it is wrapped, and the wrapper ends
 * with its one call. */
#include "tools/sim/runtime/core/thread.h"

#include <stdlib.h>

struct callback {
    cudaStreamCallback_t function;
    void *data;
};

static void CUDA_CB run_callback(CUstream stream, CUresult status, void *cookie) {
    struct callback callback = *(struct callback *)cookie;
    free(cookie);
    callback.function(stream, simrt_from_cu(status), callback.data);
}

static cudaError_t add_callback(const struct simrt_driver *cu, cudaStream_t stream,
                                cudaStreamCallback_t function, void *data, unsigned flags) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !function)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return simrt_leave(error);
    struct callback *callback = malloc(sizeof *callback);
    if (!callback)
        return simrt_leave(cudaErrorMemoryAllocation);
    *callback = (struct callback){.function = function, .data = data};
    error = simrt_from_cu(cu->cuStreamAddCallback(stream, run_callback, callback, flags));
    if (error != cudaSuccess)
        free(callback);
    return simrt_leave(error);
}

SIMRT_BOTH(cudaStreamAddCallback, _ptsz,
           TAKES(cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
                 unsigned int flags),
           add_callback(cu, stream, callback, userData, flags))
