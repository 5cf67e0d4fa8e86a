/*
 * Hooks of copies of one run of bytes, with their per-thread variants (interposition.md C9, C10).
 * Each describes its ends; preload/entry/copy_check.c checks and counts.
 */
#include "cuda/table.h"
#include "preload/entry/copy_stage.h"

/* The rest of a hook for one run of bytes; the last argument, in parentheses, has the driver's
 * arguments. */
#define LINE(abi, direction, to, from, n_bytes, stream, is_async, arguments)                       \
    if (cushim_copy_is_plain(to, from, n_bytes, is_async))                                         \
        return is_async ? cuda->abi arguments : cushim_copy_end_synchronous(cuda->abi arguments);  \
    struct cushim_copy copy;                                                                       \
    cushim_copy_line(&copy, direction, to, from, n_bytes, stream, is_async);                       \
    CUSHIM_COPY(&copy, cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : cuda->abi arguments)

CUSHIM_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpy)
    LINE(cuMemcpy, CUSHIM_BY_ADDRESS, to, from, n, NULL, false, (to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpy_ptds)
    LINE(cuMemcpy_ptds, CUSHIM_BY_ADDRESS, to, from, n, CU_STREAM_PER_THREAD, false, (to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) {
    CUSHIM_ENTER(cuMemcpyAsync)
    LINE(cuMemcpyAsync, CUSHIM_BY_ADDRESS, to, from, n, stream, true, (to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t n,
                                          CUstream stream) {
    CUSHIM_ENTER(cuMemcpyAsync_ptsz)
    LINE(cuMemcpyAsync_ptsz, CUSHIM_BY_ADDRESS, to, from, n, cushim_per_thread(stream), true,
         (to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                    CUcontext from_context, size_t n) {
    CUSHIM_ENTER(cuMemcpyPeer)
    LINE(cuMemcpyPeer, CUSHIM_DEVICE_TO_DEVICE, to, from, n, NULL, false,
         (to, to_context, from, from_context, n));
}

CUSHIM_EXPORT CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                         CUcontext from_context, size_t n) {
    CUSHIM_ENTER(cuMemcpyPeer_ptds)
    LINE(cuMemcpyPeer_ptds, CUSHIM_DEVICE_TO_DEVICE, to, from, n, CU_STREAM_PER_THREAD, false,
         (to, to_context, from, from_context, n));
}

CUSHIM_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                         CUcontext from_context, size_t n, CUstream stream) {
    CUSHIM_ENTER(cuMemcpyPeerAsync)
    LINE(cuMemcpyPeerAsync, CUSHIM_DEVICE_TO_DEVICE, to, from, n, stream, true,
         (to, to_context, from, from_context, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context,
                                              CUdeviceptr from, CUcontext from_context, size_t n,
                                              CUstream stream) {
    CUSHIM_ENTER(cuMemcpyPeerAsync_ptsz)
    LINE(cuMemcpyPeerAsync_ptsz, CUSHIM_DEVICE_TO_DEVICE, to, from, n, cushim_per_thread(stream),
         true, (to, to_context, from, from_context, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n) {
    CUSHIM_ENTER(cuMemcpyHtoD_v2)
    LINE(cuMemcpyHtoD_v2, CUSHIM_HOST_TO_DEVICE, to, (uint64_t)(uintptr_t)from, n, NULL, false,
         (to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t n) {
    CUSHIM_ENTER(cuMemcpyHtoD_v2_ptds)
    LINE(cuMemcpyHtoD_v2_ptds, CUSHIM_HOST_TO_DEVICE, to, (uint64_t)(uintptr_t)from, n,
         CU_STREAM_PER_THREAD, false, (to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n,
                                            CUstream stream) {
    CUSHIM_ENTER(cuMemcpyHtoDAsync_v2)
    LINE(cuMemcpyHtoDAsync_v2, CUSHIM_HOST_TO_DEVICE, to, (uint64_t)(uintptr_t)from, n, stream,
         true, (to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t n,
                                                 CUstream stream) {
    CUSHIM_ENTER(cuMemcpyHtoDAsync_v2_ptsz)
    LINE(cuMemcpyHtoDAsync_v2_ptsz, CUSHIM_HOST_TO_DEVICE, to, (uint64_t)(uintptr_t)from, n,
         cushim_per_thread(stream), true, (to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpyDtoH_v2)
    LINE(cuMemcpyDtoH_v2, CUSHIM_DEVICE_TO_HOST, (uint64_t)(uintptr_t)to, from, n, NULL, false,
         (to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpyDtoH_v2_ptds)
    LINE(cuMemcpyDtoH_v2_ptds, CUSHIM_DEVICE_TO_HOST, (uint64_t)(uintptr_t)to, from, n,
         CU_STREAM_PER_THREAD, false, (to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream stream) {
    CUSHIM_ENTER(cuMemcpyDtoHAsync_v2)
    LINE(cuMemcpyDtoHAsync_v2, CUSHIM_DEVICE_TO_HOST, (uint64_t)(uintptr_t)to, from, n, stream,
         true, (to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t n,
                                                 CUstream stream) {
    CUSHIM_ENTER(cuMemcpyDtoHAsync_v2_ptsz)
    LINE(cuMemcpyDtoHAsync_v2_ptsz, CUSHIM_DEVICE_TO_HOST, (uint64_t)(uintptr_t)to, from, n,
         cushim_per_thread(stream), true, (to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpyDtoD_v2)
    LINE(cuMemcpyDtoD_v2, CUSHIM_DEVICE_TO_DEVICE, to, from, n, NULL, false, (to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpyDtoD_v2_ptds)
    LINE(cuMemcpyDtoD_v2_ptds, CUSHIM_DEVICE_TO_DEVICE, to, from, n, CU_STREAM_PER_THREAD, false,
         (to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n,
                                            CUstream stream) {
    CUSHIM_ENTER(cuMemcpyDtoDAsync_v2)
    LINE(cuMemcpyDtoDAsync_v2, CUSHIM_DEVICE_TO_DEVICE, to, from, n, stream, true,
         (to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t n,
                                                 CUstream stream) {
    CUSHIM_ENTER(cuMemcpyDtoDAsync_v2_ptsz)
    LINE(cuMemcpyDtoDAsync_v2_ptsz, CUSHIM_DEVICE_TO_DEVICE, to, from, n, cushim_per_thread(stream),
         true, (to, from, n, stream));
}
