/*
 * Hooks of copies from and to arrays, in runs of bytes, with their per-thread variants.  An array
 * is the driver's own, so only the other end is checked.
 */
#include "preload/entry/copy_check.h"
#include "preload/hooks/hook.h"

/* The ends of a copy: an array, or n bytes at an address. */
static const struct cushim_end array;
#define AT(address)                                                                                \
    (struct cushim_end) {                                                                          \
        (uintptr_t)(address), n                                                                    \
    }

/* What a hook does; `call` is the driver's. */
#define COPY(way, to_end, from_end, may_be_late, call)                                             \
    struct cushim_copy copy = {way,          .to = to_end,    .from = from_end,                    \
                               .n_bytes = n, .stream = ORDER, .is_async = may_be_late};            \
    CUSHIM_COPY(&copy, call)

HOOKS_PTDS(cuMemcpyDtoA_v2, TAKES(CUarray to, size_t to_offset, CUdeviceptr from, size_t n),
           COPY(CUSHIM_DEVICE_TO_DEVICE, array, AT(from), false, REAL(to, to_offset, from, n)))
HOOKS_PTDS(cuMemcpyAtoD_v2, TAKES(CUdeviceptr to, CUarray from, size_t from_offset, size_t n),
           COPY(CUSHIM_DEVICE_TO_DEVICE, AT(to), array, false, REAL(to, from, from_offset, n)))
HOOKS_PTDS(cuMemcpyHtoA_v2, TAKES(CUarray to, size_t to_offset, const void *from, size_t n),
           COPY(CUSHIM_HOST_TO_DEVICE, array, AT(from), false, REAL(to, to_offset, from, n)))
HOOKS_PTDS(cuMemcpyAtoH_v2, TAKES(void *to, CUarray from, size_t from_offset, size_t n),
           COPY(CUSHIM_DEVICE_TO_HOST, AT(to), array, false, REAL(to, from, from_offset, n)))
HOOKS_PTDS(cuMemcpyAtoA_v2,
           TAKES(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t n),
           COPY(CUSHIM_DEVICE_TO_DEVICE, array, array, false,
                REAL(to, to_offset, from, from_offset, n)))
HOOKS_PTSZ(cuMemcpyHtoAAsync_v2,
           TAKES(CUarray to, size_t to_offset, const void *from, size_t n, CUstream stream),
           COPY(CUSHIM_HOST_TO_DEVICE, array, AT(from), true, REAL(to, to_offset, from, n, stream)))
HOOKS_PTSZ(cuMemcpyAtoHAsync_v2,
           TAKES(void *to, CUarray from, size_t from_offset, size_t n, CUstream stream),
           COPY(CUSHIM_DEVICE_TO_HOST, AT(to), array, true, REAL(to, from, from_offset, n, stream)))
