/*
 * Copies of rows and boxes (2D and 3D) between pitched memory.  CUDA arrays are not supported:
 * cudaErrorNotSupported.
 */
#include "copy_box.h"

#include "tools/sim/runtime/core/primary.h"
#include "tools/sim/runtime/core/thread.h"

#include <stdbool.h>

static const cudaStream_t no_stream = NULL;

/* The memory types that a direction names; false if it names none. */
static bool ends_of(enum cudaMemcpyKind kind, CUmemorytype *src, CUmemorytype *dst) {
    switch (kind) {
    case cudaMemcpyHostToHost:
        *src = *dst = CU_MEMORYTYPE_HOST;
        return true;
    case cudaMemcpyHostToDevice:
        *src = CU_MEMORYTYPE_HOST;
        *dst = CU_MEMORYTYPE_DEVICE;
        return true;
    case cudaMemcpyDeviceToHost:
        *src = CU_MEMORYTYPE_DEVICE;
        *dst = CU_MEMORYTYPE_HOST;
        return true;
    case cudaMemcpyDeviceToDevice:
        *src = *dst = CU_MEMORYTYPE_DEVICE;
        return true;
    case cudaMemcpyDefault:
        *src = *dst = CU_MEMORYTYPE_UNIFIED;
        return true;
    default:
        return false;
    }
}

/* Everything but the sizes; an address is in the field from which its memory type is read. */
static cudaError_t describe_rows(CUDA_MEMCPY2D *rows, void *dst, size_t dpitch, const void *src,
                                 size_t spitch, enum cudaMemcpyKind kind) {
    if (!ends_of(kind, &rows->srcMemoryType, &rows->dstMemoryType))
        return cudaErrorInvalidMemcpyDirection;
    rows->srcHost = src;
    rows->srcDevice = (CUdeviceptr)src;
    rows->srcPitch = spitch;
    rows->dstHost = dst;
    rows->dstDevice = (CUdeviceptr)dst;
    rows->dstPitch = dpitch;
    return cudaSuccess;
}

static cudaError_t copy_rows(const struct simrt_driver *cu, void *dst, size_t dpitch,
                             const void *src, size_t spitch, size_t width, size_t height,
                             enum cudaMemcpyKind kind, bool queued, cudaStream_t stream) {
    CUDA_MEMCPY2D rows = {.WidthInBytes = width, .Height = height};
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = describe_rows(&rows, dst, dpitch, src, spitch, kind);
    if (error == cudaSuccess && (width > dpitch || width > spitch))
        error = cudaErrorInvalidPitchValue;
    if (error == cudaSuccess && width > 0 && height > 0)
        error = simrt_from_cu(queued ? cu->cuMemcpy2DAsync_v2(&rows, stream)
                                     : cu->cuMemcpy2DUnaligned_v2(&rows));
    return simrt_leave(error);
}

SIMRT_BOTH(cudaMemcpy2D, _ptds,
           TAKES(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                 size_t height, enum cudaMemcpyKind kind),
           copy_rows(cu, dst, dpitch, src, spitch, width, height, kind, false, no_stream))

SIMRT_BOTH(cudaMemcpy2DAsync, _ptsz,
           TAKES(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                 size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
           copy_rows(cu, dst, dpitch, src, spitch, width, height, kind, true, stream))

cudaError_t simrt_describe_box(CUDA_MEMCPY3D *box, const struct cudaMemcpy3DParms *p) {
    if (!p)
        return cudaErrorInvalidValue;
    if (p->srcArray || p->dstArray)
        return cudaErrorNotSupported;
    if (!ends_of(p->kind, &box->srcMemoryType, &box->dstMemoryType))
        return cudaErrorInvalidMemcpyDirection;
    box->srcXInBytes = p->srcPos.x;
    box->srcY = p->srcPos.y;
    box->srcZ = p->srcPos.z;
    box->srcHost = p->srcPtr.ptr;
    box->srcDevice = (CUdeviceptr)p->srcPtr.ptr;
    box->srcPitch = p->srcPtr.pitch;
    box->srcHeight = p->srcPtr.ysize;
    box->dstXInBytes = p->dstPos.x;
    box->dstY = p->dstPos.y;
    box->dstZ = p->dstPos.z;
    box->dstHost = p->dstPtr.ptr;
    box->dstDevice = (CUdeviceptr)p->dstPtr.ptr;
    box->dstPitch = p->dstPtr.pitch;
    box->dstHeight = p->dstPtr.ysize;
    box->WidthInBytes = p->extent.width;
    box->Height = p->extent.height;
    box->Depth = p->extent.depth;
    return cudaSuccess;
}

static cudaError_t copy_box(const struct simrt_driver *cu, const struct cudaMemcpy3DParms *p,
                            bool queued, cudaStream_t stream) {
    CUDA_MEMCPY3D box = {0};
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess)
        error = simrt_describe_box(&box, p);
    if (error == cudaSuccess && box.WidthInBytes > 0 && box.Height > 0 && box.Depth > 0)
        error =
            simrt_from_cu(queued ? cu->cuMemcpy3DAsync_v2(&box, stream) : cu->cuMemcpy3D_v2(&box));
    return simrt_leave(error);
}

SIMRT_BOTH(cudaMemcpy3D, _ptds, TAKES(const struct cudaMemcpy3DParms *p),
           copy_box(cu, p, false, no_stream))

SIMRT_BOTH(cudaMemcpy3DAsync, _ptsz, TAKES(const struct cudaMemcpy3DParms *p, cudaStream_t stream),
           copy_box(cu, p, true, stream))

static cudaError_t copy_box_of_peers(const struct simrt_driver *cu,
                                     const struct cudaMemcpy3DPeerParms *p, bool queued,
                                     cudaStream_t stream) {
    CUDA_MEMCPY3D_PEER box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE};
    cudaError_t error = simrt_enter();
    if (error == cudaSuccess && !p)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && (p->srcArray || p->dstArray))
        error = cudaErrorNotSupported;
    if (error == cudaSuccess)
        error = simrt_primary_get(p->srcDevice, &box.srcContext);
    if (error == cudaSuccess)
        error = simrt_primary_get(p->dstDevice, &box.dstContext);
    if (error != cudaSuccess)
        return simrt_leave(error);
    box.srcXInBytes = p->srcPos.x;
    box.srcY = p->srcPos.y;
    box.srcZ = p->srcPos.z;
    box.srcDevice = (CUdeviceptr)p->srcPtr.ptr;
    box.srcPitch = p->srcPtr.pitch;
    box.srcHeight = p->srcPtr.ysize;
    box.dstXInBytes = p->dstPos.x;
    box.dstY = p->dstPos.y;
    box.dstZ = p->dstPos.z;
    box.dstDevice = (CUdeviceptr)p->dstPtr.ptr;
    box.dstPitch = p->dstPtr.pitch;
    box.dstHeight = p->dstPtr.ysize;
    box.WidthInBytes = p->extent.width;
    box.Height = p->extent.height;
    box.Depth = p->extent.depth;
    if (box.WidthInBytes && box.Height && box.Depth)
        error = simrt_from_cu(queued ? cu->cuMemcpy3DPeerAsync(&box, stream)
                                     : cu->cuMemcpy3DPeer(&box));
    return simrt_leave(error);
}

SIMRT_BOTH(cudaMemcpy3DPeer, _ptds, TAKES(const struct cudaMemcpy3DPeerParms *p),
           copy_box_of_peers(cu, p, false, no_stream))

SIMRT_BOTH(cudaMemcpy3DPeerAsync, _ptsz,
           TAKES(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream),
           copy_box_of_peers(cu, p, true, stream))
