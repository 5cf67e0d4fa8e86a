/*
 * Device and managed memory that the host allocates and frees.
 *
 * This file, and not the driver, handles a size of 0: it is a success that gives NULL for device
 * memory, and an error for managed memory.
 */
#include "tools/sim/runtime/core/thread.h"

cudaError_t cudaMalloc(void **devPtr, size_t size) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !devPtr)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && size == 0) {
        *devPtr = NULL;
    } else if (error == cudaSuccess) {
        CUdeviceptr address = 0;
        error = simrt_from_cu(simrt_legacy.cuMemAlloc_v2(&address, size));
        if (error == cudaSuccess)
            *devPtr = (void *)address;
    }
    return simrt_leave(error);
}

cudaError_t cudaFree(void *devPtr) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && devPtr)
        error = simrt_from_cu(simrt_legacy.cuMemFree_v2((CUdeviceptr)devPtr));
    return simrt_leave(error);
}

cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && (!devPtr || size == 0))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        CUdeviceptr address = 0;
        error = simrt_from_cu(simrt_legacy.cuMemAllocManaged(&address, size, flags));
        if (error == cudaSuccess)
            *devPtr = (void *)address;
    }
    return simrt_leave(error);
}

/* Rows of `width` bytes, `n_rows` of them. */
static cudaError_t allocate_rows(void **devPtr, size_t *pitch, size_t width, size_t n_rows) {
    enum { WIDEST_ELEMENT_BYTES = 16 };
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && (!devPtr || !pitch))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && (width == 0 || n_rows == 0)) {
        *devPtr = NULL;
        *pitch = 0;
    } else if (error == cudaSuccess) {
        CUdeviceptr address = 0;
        error = simrt_from_cu(
            simrt_legacy.cuMemAllocPitch_v2(&address, pitch, width, n_rows, WIDEST_ELEMENT_BYTES));
        if (error == cudaSuccess)
            *devPtr = (void *)address;
    }
    return simrt_leave(error);
}

cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height) {
    return allocate_rows(devPtr, pitch, width, height);
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent) {
    if (!pitchedDevPtr)
        return simrt_leave(cudaErrorInvalidValue);
    pitchedDevPtr->xsize = extent.width;
    pitchedDevPtr->ysize = extent.height;
    return allocate_rows(&pitchedDevPtr->ptr, &pitchedDevPtr->pitch, extent.width,
                         extent.height * extent.depth);
}

/* The driver's location has the runtime's layout. */
static CUmemLocation location_of(struct cudaMemLocation location) {
    return (CUmemLocation){.type = (CUmemLocationType)location.type, .id = location.id};
}

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(simrt_legacy.cuMemAdvise_v2(
            (CUdeviceptr)devPtr, count, (CUmem_advise)advice, location_of(location)));
    return simrt_leave(error);
}

static cudaError_t prefetch(const struct simrt_driver *cu, const void *address, size_t n_bytes,
                            struct cudaMemLocation location, unsigned flags, cudaStream_t stream) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_from_cu(cu->cuMemPrefetchAsync_v2((CUdeviceptr)address, n_bytes,
                                                        location_of(location), flags, stream));
    return simrt_leave(error);
}

SIMRT_BOTH(cudaMemPrefetchAsync, _ptsz,
           TAKES(const void *devPtr, size_t count, struct cudaMemLocation location,
                 unsigned int flags, cudaStream_t stream),
           prefetch(cu, devPtr, count, location, flags, stream))
