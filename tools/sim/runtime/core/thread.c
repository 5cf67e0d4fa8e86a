#include "thread.h"

#include "primary.h"

_Thread_local struct simrt_thread simrt_thread;

cudaError_t simrt_enter(void) {
    cudaError_t error = simrt_driver_load();
    if (error != cudaSuccess)
        return error;
    CUcontext current = NULL;
    error = simrt_from_cu(simrt_legacy.cuCtxGetCurrent(&current));
    if (error != cudaSuccess)
        return error;
    int stale_device = simrt_primary_stale(current);
    if (current && stale_device < 0)
        return cudaSuccess;
    return simrt_primary_use(current ? stale_device : simrt_thread.device);
}

cudaError_t simrt_leave(cudaError_t error) {
    if (error != cudaSuccess)
        simrt_thread.last_error = error;
    return error;
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = simrt_thread.last_error;
    simrt_thread.last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    return simrt_thread.last_error;
}
