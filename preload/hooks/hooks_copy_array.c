/*
 * Hooks of copies from and to arrays, in runs of bytes, with their per-thread variants.  An array
 * is the driver's own, so only the other end is checked.
 */
#include "cuda/table.h"
#include "preload/entry/copy_check.h"

CUSHIM_EXPORT CUresult cuMemcpyDtoA_v2(CUarray to, size_t to_offset, CUdeviceptr from, size_t n) {
    CUSHIM_ENTER(cuMemcpyDtoA_v2)
    struct cushim_copy copy = {CUSHIM_DEVICE_TO_DEVICE, .from = {from, n}, .n_bytes = n};
    CUSHIM_COPY(&copy, cuda->cuMemcpyDtoA_v2(to, to_offset, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyDtoA_v2_ptds(CUarray to, size_t to_offset, CUdeviceptr from,
                                            size_t n) {
    CUSHIM_ENTER(cuMemcpyDtoA_v2_ptds)
    struct cushim_copy copy = {CUSHIM_DEVICE_TO_DEVICE, .from = {from, n}, .n_bytes = n,
                               .stream = CU_STREAM_PER_THREAD};
    CUSHIM_COPY(&copy, cuda->cuMemcpyDtoA_v2_ptds(to, to_offset, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t from_offset, size_t n) {
    CUSHIM_ENTER(cuMemcpyAtoD_v2)
    struct cushim_copy copy = {CUSHIM_DEVICE_TO_DEVICE, .to = {to, n}, .n_bytes = n};
    CUSHIM_COPY(&copy, cuda->cuMemcpyAtoD_v2(to, from, from_offset, n));
}

CUSHIM_EXPORT CUresult cuMemcpyAtoD_v2_ptds(CUdeviceptr to, CUarray from, size_t from_offset,
                                            size_t n) {
    CUSHIM_ENTER(cuMemcpyAtoD_v2_ptds)
    struct cushim_copy copy = {CUSHIM_DEVICE_TO_DEVICE, .to = {to, n}, .n_bytes = n,
                               .stream = CU_STREAM_PER_THREAD};
    CUSHIM_COPY(&copy, cuda->cuMemcpyAtoD_v2_ptds(to, from, from_offset, n));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoA_v2(CUarray to, size_t to_offset, const void *from, size_t n) {
    CUSHIM_ENTER(cuMemcpyHtoA_v2)
    struct cushim_copy copy = {CUSHIM_HOST_TO_DEVICE, .from = {(uint64_t)(uintptr_t)from, n},
                               .n_bytes = n};
    CUSHIM_COPY(&copy, cuda->cuMemcpyHtoA_v2(to, to_offset, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoA_v2_ptds(CUarray to, size_t to_offset, const void *from,
                                            size_t n) {
    CUSHIM_ENTER(cuMemcpyHtoA_v2_ptds)
    struct cushim_copy copy = {CUSHIM_HOST_TO_DEVICE, .from = {(uint64_t)(uintptr_t)from, n},
                               .n_bytes = n, .stream = CU_STREAM_PER_THREAD};
    CUSHIM_COPY(&copy, cuda->cuMemcpyHtoA_v2_ptds(to, to_offset, from, n));
}

CUSHIM_EXPORT CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t from_offset, size_t n) {
    CUSHIM_ENTER(cuMemcpyAtoH_v2)
    struct cushim_copy copy = {CUSHIM_DEVICE_TO_HOST, .to = {(uint64_t)(uintptr_t)to, n},
                               .n_bytes = n};
    CUSHIM_COPY(&copy, cuda->cuMemcpyAtoH_v2(to, from, from_offset, n));
}

CUSHIM_EXPORT CUresult cuMemcpyAtoH_v2_ptds(void *to, CUarray from, size_t from_offset, size_t n) {
    CUSHIM_ENTER(cuMemcpyAtoH_v2_ptds)
    struct cushim_copy copy = {CUSHIM_DEVICE_TO_HOST, .to = {(uint64_t)(uintptr_t)to, n},
                               .n_bytes = n, .stream = CU_STREAM_PER_THREAD};
    CUSHIM_COPY(&copy, cuda->cuMemcpyAtoH_v2_ptds(to, from, from_offset, n));
}

CUSHIM_EXPORT CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from,
                                       size_t from_offset, size_t n) {
    CUSHIM_ENTER(cuMemcpyAtoA_v2)
    struct cushim_copy copy = {CUSHIM_DEVICE_TO_DEVICE, .n_bytes = n};
    CUSHIM_COPY(&copy, cuda->cuMemcpyAtoA_v2(to, to_offset, from, from_offset, n));
}

CUSHIM_EXPORT CUresult cuMemcpyAtoA_v2_ptds(CUarray to, size_t to_offset, CUarray from,
                                            size_t from_offset, size_t n) {
    CUSHIM_ENTER(cuMemcpyAtoA_v2_ptds)
    struct cushim_copy copy = {CUSHIM_DEVICE_TO_DEVICE, .n_bytes = n,
                               .stream = CU_STREAM_PER_THREAD};
    CUSHIM_COPY(&copy, cuda->cuMemcpyAtoA_v2_ptds(to, to_offset, from, from_offset, n));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t to_offset, const void *from,
                                            size_t n, CUstream stream) {
    CUSHIM_ENTER(cuMemcpyHtoAAsync_v2)
    struct cushim_copy copy = {CUSHIM_HOST_TO_DEVICE, .from = {(uint64_t)(uintptr_t)from, n},
                               .n_bytes = n, .stream = stream, .is_async = true};
    CUSHIM_COPY(&copy, cuda->cuMemcpyHtoAAsync_v2(to, to_offset, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyHtoAAsync_v2_ptsz(CUarray to, size_t to_offset, const void *from,
                                                 size_t n, CUstream stream) {
    CUSHIM_ENTER(cuMemcpyHtoAAsync_v2_ptsz)
    struct cushim_copy copy = {CUSHIM_HOST_TO_DEVICE, .from = {(uint64_t)(uintptr_t)from, n},
                               .n_bytes = n, .stream = cushim_per_thread(stream), .is_async = true};
    CUSHIM_COPY(&copy, cuda->cuMemcpyHtoAAsync_v2_ptsz(to, to_offset, from, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t from_offset, size_t n,
                                            CUstream stream) {
    CUSHIM_ENTER(cuMemcpyAtoHAsync_v2)
    struct cushim_copy copy = {CUSHIM_DEVICE_TO_HOST, .to = {(uint64_t)(uintptr_t)to, n},
                               .n_bytes = n, .stream = stream, .is_async = true};
    CUSHIM_COPY(&copy, cuda->cuMemcpyAtoHAsync_v2(to, from, from_offset, n, stream));
}

CUSHIM_EXPORT CUresult cuMemcpyAtoHAsync_v2_ptsz(void *to, CUarray from, size_t from_offset,
                                                 size_t n, CUstream stream) {
    CUSHIM_ENTER(cuMemcpyAtoHAsync_v2_ptsz)
    struct cushim_copy copy = {CUSHIM_DEVICE_TO_HOST, .to = {(uint64_t)(uintptr_t)to, n},
                               .n_bytes = n, .stream = cushim_per_thread(stream), .is_async = true};
    CUSHIM_COPY(&copy, cuda->cuMemcpyAtoHAsync_v2_ptsz(to, from, from_offset, n, stream));
}
