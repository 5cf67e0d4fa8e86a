/*
 * Copies of one run of bytes: by direction, between devices, and with cudaMemcpyDefault.
 *
 * Each direction goes to the driver call of that direction, as in NVIDIA's runtime.  The default,
 * and host to host, go to the driver's copy between unified addresses.  0 bytes are a success.
 */
#include "tools/sim/runtime/core/primary.h"
#include "tools/sim/runtime/core/thread.h"

static CUresult copy_run(const struct simrt_driver *cu, void *dst, const void *src, size_t n_bytes,
                         enum cudaMemcpyKind kind) {
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return cu->cuMemcpyHtoD_v2((CUdeviceptr)dst, src, n_bytes);
    case cudaMemcpyDeviceToHost:
        return cu->cuMemcpyDtoH_v2(dst, (CUdeviceptr)src, n_bytes);
    case cudaMemcpyDeviceToDevice:
        return cu->cuMemcpyDtoD_v2((CUdeviceptr)dst, (CUdeviceptr)src, n_bytes);
    default:
        return cu->cuMemcpy((CUdeviceptr)dst, (CUdeviceptr)src, n_bytes);
    }
}

static CUresult queue_run(const struct simrt_driver *cu, void *dst, const void *src, size_t n_bytes,
                          enum cudaMemcpyKind kind, cudaStream_t stream) {
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return cu->cuMemcpyHtoDAsync_v2((CUdeviceptr)dst, src, n_bytes, stream);
    case cudaMemcpyDeviceToHost:
        return cu->cuMemcpyDtoHAsync_v2(dst, (CUdeviceptr)src, n_bytes, stream);
    case cudaMemcpyDeviceToDevice:
        return cu->cuMemcpyDtoDAsync_v2((CUdeviceptr)dst, (CUdeviceptr)src, n_bytes, stream);
    default:
        return cu->cuMemcpyAsync((CUdeviceptr)dst, (CUdeviceptr)src, n_bytes, stream);
    }
}

static cudaError_t check_kind(enum cudaMemcpyKind kind) {
    return (unsigned)kind <= cudaMemcpyDefault ? cudaSuccess : cudaErrorInvalidMemcpyDirection;
}

static cudaError_t copy(const struct simrt_driver *cu, void *dst, const void *src, size_t n_bytes,
                        enum cudaMemcpyKind kind) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = check_kind(kind);
    if (error == cudaSuccess && n_bytes > 0)
        error = simrt_from_cu(copy_run(cu, dst, src, n_bytes, kind));
    return simrt_leave(error);
}

static cudaError_t copy_async(const struct simrt_driver *cu, void *dst, const void *src,
                              size_t n_bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = check_kind(kind);
    if (error == cudaSuccess && n_bytes > 0)
        error = simrt_from_cu(queue_run(cu, dst, src, n_bytes, kind, stream));
    return simrt_leave(error);
}

SIMRT_BOTH(cudaMemcpy, _ptds,
           TAKES(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
           copy(cu, dst, src, count, kind))

SIMRT_BOTH(cudaMemcpyAsync, _ptsz,
           TAKES(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                 cudaStream_t stream),
           copy_async(cu, dst, src, count, kind, stream))

/* The contexts of both ends of a copy between devices. */
static cudaError_t peers(int dst_device, int src_device, CUcontext *dst, CUcontext *src) {
    cudaError_t error = simrt_primary_get(dst_device, dst);
    return error == cudaSuccess ? simrt_primary_get(src_device, src) : error;
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count) {
    CUcontext dst_context, src_context;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = peers(dstDevice, srcDevice, &dst_context, &src_context);
    if (error == cudaSuccess && count > 0)
        error = simrt_from_cu(simrt_legacy.cuMemcpyPeer((CUdeviceptr)dst, dst_context,
                                                        (CUdeviceptr)src, src_context, count));
    return simrt_leave(error);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                size_t count, cudaStream_t stream) {
    CUcontext dst_context, src_context;
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = peers(dstDevice, srcDevice, &dst_context, &src_context);
    if (error == cudaSuccess && count > 0)
        error = simrt_from_cu(simrt_legacy.cuMemcpyPeerAsync(
            (CUdeviceptr)dst, dst_context, (CUdeviceptr)src, src_context, count, stream));
    return simrt_leave(error);
}
