/*
 * Hooks of copies of one run of bytes, with their per-thread variants (interposition.md C9, C10).
 * Each describes its ends and leaves judging and counting to copy.c.
 */
#include "cuda/table.h"
#include "preload/entry/copy_stage.h"

CUSHIM_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpy)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_BY_ADDRESS, to, from, n, NULL, false);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &copy, cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : cuda->cuMemcpy(to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpy_ptds)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_BY_ADDRESS, to, from, n, CU_STREAM_PER_THREAD, false);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS
                                                          : cuda->cuMemcpy_ptds(to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) {
    CUSHIM_ENTER(cuMemcpyAsync)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_BY_ADDRESS, to, from, n, stream, true);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &copy,
        cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : cuda->cuMemcpyAsync(to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t n,
                                          CUstream stream) {
    CUSHIM_ENTER(cuMemcpyAsync_ptsz)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_BY_ADDRESS, to, from, n, cushim_per_thread(stream), true);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy)
                               ? CUDA_SUCCESS
                               : cuda->cuMemcpyAsync_ptsz(to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                    CUcontext from_context, size_t n) {
    CUSHIM_ENTER(cuMemcpyPeer)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_DEVICE, to, from, n, NULL, false);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy, cuda->cuMemcpyPeer(to, to_context, from, from_context, n));
}

CUSHIM_EXPORT CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                         CUcontext from_context, size_t n) {
    CUSHIM_ENTER(cuMemcpyPeer_ptds)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_DEVICE, to, from, n, CU_STREAM_PER_THREAD, false);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cuda->cuMemcpyPeer_ptds(to, to_context, from, from_context, n));
}

CUSHIM_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                         CUcontext from_context, size_t n, CUstream stream) {
    CUSHIM_ENTER(cuMemcpyPeerAsync)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_DEVICE, to, from, n, stream, true);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cuda->cuMemcpyPeerAsync(to, to_context, from, from_context, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context,
                                              CUdeviceptr from, CUcontext from_context, size_t n,
                                              CUstream stream) {
    CUSHIM_ENTER(cuMemcpyPeerAsync_ptsz)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_DEVICE, to, from, n, cushim_per_thread(stream), true);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &copy, cuda->cuMemcpyPeerAsync_ptsz(to, to_context, from, from_context, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n) {
    CUSHIM_ENTER(cuMemcpyHtoD_v2)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_HOST_TO_DEVICE, to, (uint64_t)(uintptr_t)from, n, NULL, false);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS
                                                          : cuda->cuMemcpyHtoD_v2(to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t n) {
    CUSHIM_ENTER(cuMemcpyHtoD_v2_ptds)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_HOST_TO_DEVICE, to, (uint64_t)(uintptr_t)from, n,
                     CU_STREAM_PER_THREAD, false);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &copy,
        cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : cuda->cuMemcpyHtoD_v2_ptds(to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n,
                                            CUstream stream) {
    CUSHIM_ENTER(cuMemcpyHtoDAsync_v2)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_HOST_TO_DEVICE, to, (uint64_t)(uintptr_t)from, n, stream, true);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy)
                               ? CUDA_SUCCESS
                               : cuda->cuMemcpyHtoDAsync_v2(to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t n,
                                                 CUstream stream) {
    CUSHIM_ENTER(cuMemcpyHtoDAsync_v2_ptsz)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_HOST_TO_DEVICE, to, (uint64_t)(uintptr_t)from, n,
                     cushim_per_thread(stream), true);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy)
                               ? CUDA_SUCCESS
                               : cuda->cuMemcpyHtoDAsync_v2_ptsz(to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpyDtoH_v2)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_HOST, (uint64_t)(uintptr_t)to, from, n, NULL, false);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS
                                                          : cuda->cuMemcpyDtoH_v2(to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpyDtoH_v2_ptds)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_HOST, (uint64_t)(uintptr_t)to, from, n,
                     CU_STREAM_PER_THREAD, false);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &copy,
        cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : cuda->cuMemcpyDtoH_v2_ptds(to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream stream) {
    CUSHIM_ENTER(cuMemcpyDtoHAsync_v2)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_HOST, (uint64_t)(uintptr_t)to, from, n, stream, true);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy)
                               ? CUDA_SUCCESS
                               : cuda->cuMemcpyDtoHAsync_v2(to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t n,
                                                 CUstream stream) {
    CUSHIM_ENTER(cuMemcpyDtoHAsync_v2_ptsz)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_HOST, (uint64_t)(uintptr_t)to, from, n,
                     cushim_per_thread(stream), true);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy,
                           cushim_copy_stage(cuda, &copy)
                               ? CUDA_SUCCESS
                               : cuda->cuMemcpyDtoHAsync_v2_ptsz(to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpyDtoD_v2)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_DEVICE, to, from, n, NULL, false);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy, cuda->cuMemcpyDtoD_v2(to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpyDtoD_v2_ptds)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_DEVICE, to, from, n, CU_STREAM_PER_THREAD, false);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy, cuda->cuMemcpyDtoD_v2_ptds(to, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n,
                                            CUstream stream) {
    CUSHIM_ENTER(cuMemcpyDtoDAsync_v2)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_DEVICE, to, from, n, stream, true);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy, cuda->cuMemcpyDtoDAsync_v2(to, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t n,
                                                 CUstream stream) {
    CUSHIM_ENTER(cuMemcpyDtoDAsync_v2_ptsz)
    struct cushim_copy copy;
    cushim_copy_line(&copy, CUSHIM_DEVICE_TO_DEVICE, to, from, n, cushim_per_thread(stream), true);
    if (!cushim_copy_begin(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &copy, cuda->cuMemcpyDtoDAsync_v2_ptsz(to, from, n, stream));
}
