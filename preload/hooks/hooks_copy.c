/*
 * Hooks of copies of one run of bytes, with their per-thread variants (interposition.md C9, C10).
 * Each describes its ends; preload/entry/copy_check.c checks and counts.
 */
#include "preload/entry/copy_stage.h"
#include "preload/hooks/hook.h"

/* What the hook of one run of bytes does; `call` is the driver's. */
#define COPY(direction, is_async, call)                                                            \
    const uint64_t to_address = (uintptr_t)to, from_address = (uintptr_t)from;                     \
    if (cushim_copy_is_plain(to_address, from_address, n, is_async))                               \
        return is_async ? call : cushim_copy_end_synchronous(call);                                \
    struct cushim_copy copy;                                                                       \
    cushim_copy_line(&copy, direction, to_address, from_address, n, ORDER, is_async);              \
    CUSHIM_COPY(&copy, cushim_copy_stage(cuda, &copy) ? CUDA_SUCCESS : call)

HOOKS_PTDS(cuMemcpy, TAKES(CUdeviceptr to, CUdeviceptr from, size_t n),
           COPY(CUSHIM_BY_ADDRESS, false, REAL(to, from, n)))
HOOKS_PTSZ(cuMemcpyAsync, TAKES(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream),
           COPY(CUSHIM_BY_ADDRESS, true, REAL(to, from, n, stream)))

HOOKS_PTDS(cuMemcpyPeer,
           TAKES(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                 size_t n),
           COPY(CUSHIM_DEVICE_TO_DEVICE, false, REAL(to, to_context, from, from_context, n)))
HOOKS_PTSZ(cuMemcpyPeerAsync,
           TAKES(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                 size_t n, CUstream stream),
           COPY(CUSHIM_DEVICE_TO_DEVICE, true, REAL(to, to_context, from, from_context, n, stream)))

HOOKS_PTDS(cuMemcpyHtoD_v2, TAKES(CUdeviceptr to, const void *from, size_t n),
           COPY(CUSHIM_HOST_TO_DEVICE, false, REAL(to, from, n)))
HOOKS_PTSZ(cuMemcpyHtoDAsync_v2, TAKES(CUdeviceptr to, const void *from, size_t n, CUstream stream),
           COPY(CUSHIM_HOST_TO_DEVICE, true, REAL(to, from, n, stream)))

HOOKS_PTDS(cuMemcpyDtoH_v2, TAKES(void *to, CUdeviceptr from, size_t n),
           COPY(CUSHIM_DEVICE_TO_HOST, false, REAL(to, from, n)))
HOOKS_PTSZ(cuMemcpyDtoHAsync_v2, TAKES(void *to, CUdeviceptr from, size_t n, CUstream stream),
           COPY(CUSHIM_DEVICE_TO_HOST, true, REAL(to, from, n, stream)))

HOOKS_PTDS(cuMemcpyDtoD_v2, TAKES(CUdeviceptr to, CUdeviceptr from, size_t n),
           COPY(CUSHIM_DEVICE_TO_DEVICE, false, REAL(to, from, n)))
HOOKS_PTSZ(cuMemcpyDtoDAsync_v2, TAKES(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream),
           COPY(CUSHIM_DEVICE_TO_DEVICE, true, REAL(to, from, n, stream)))
