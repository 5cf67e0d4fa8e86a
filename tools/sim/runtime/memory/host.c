/*
 * Pinned host memory, allocated and freed.  Both allocators call cuMemHostAlloc, because
 * NVIDIA's runtime never asks for cuMemAllocHost.  A size of 0 is a success that gives NULL.
 */
#include "tools/sim/runtime/core/thread.h"

static cudaError_t allocate(void **address, size_t n_bytes, unsigned flags) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !address)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && n_bytes == 0)
        *address = NULL;
    else if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuMemHostAlloc(address, n_bytes, flags));
    return simrt_leave(error);
}

cudaError_t cudaMallocHost(void **ptr, size_t size) {
    return allocate(ptr, size, 0);
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags) {
    return allocate(pHost, size, flags);
}

cudaError_t cudaFreeHost(void *ptr) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && ptr)
        error = simrt_from_cu(simrt_legacy.cuMemFreeHost(ptr));
    return simrt_leave(error);
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags) {
    CUdeviceptr address = 0;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !pDevice)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuMemHostGetDevicePointer_v2(&address, pHost, flags));
    if (error == cudaSuccess)
        *pDevice = (void *)address;
    return simrt_leave(error);
}
