/* Stream-ordered memory, and the driver's pools behind it. */
#include "tools/sim/runtime/core/thread.h"

static cudaError_t allocate(const struct simrt_driver *cu, void **address, size_t n_bytes,
                            cudaMemPool_t pool, cudaStream_t stream) {
    CUdeviceptr fresh = 0;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !address)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return simrt_leave(error);
    if (n_bytes == 0) {
        *address = NULL;
        return cudaSuccess;
    }
    if (pool)
        error = simrt_from_cu(cu->cuMemAllocFromPoolAsync(&fresh, n_bytes, pool, stream));
    else
        error = simrt_from_cu(cu->cuMemAllocAsync(&fresh, n_bytes, stream));
    if (error == cudaSuccess)
        *address = (void *)fresh;
    return simrt_leave(error);
}

static cudaError_t release(const struct simrt_driver *cu, void *address, cudaStream_t stream) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && address)
        error = simrt_from_cu(cu->cuMemFreeAsync((CUdeviceptr)address, stream));
    return simrt_leave(error);
}

SIMRT_BOTH(cudaMallocAsync, _ptsz, TAKES(void **devPtr, size_t size, cudaStream_t hStream),
           allocate(cu, devPtr, size, NULL, hStream))

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool,
                                    cudaStream_t stream) {
    if (!memPool)
        return simrt_leave(cudaErrorInvalidValue);
    return allocate(&simrt_legacy, ptr, size, memPool, stream);
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void **ptr, size_t size, cudaMemPool_t memPool,
                                         cudaStream_t stream) {
    if (!memPool)
        return simrt_leave(cudaErrorInvalidValue);
    return allocate(&simrt_per_thread, ptr, size, memPool, stream);
}

SIMRT_BOTH(cudaFreeAsync, _ptsz, TAKES(void *devPtr, cudaStream_t hStream),
           release(cu, devPtr, hStream))

cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !poolProps)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        CUmemPoolProps props = {
            .allocType = (CUmemAllocationType)poolProps->allocType,
            .handleTypes = (CUmemAllocationHandleType)poolProps->handleTypes,
            .location = {.type = (CUmemLocationType)poolProps->location.type,
                         .id = poolProps->location.id},
            .maxSize = poolProps->maxSize,
        };
        error = simrt_from_cu(simrt_legacy.cuMemPoolCreate(memPool, &props));
    }
    return simrt_leave(error);
}
