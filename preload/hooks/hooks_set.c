/*
 * Hooks of sets, with their per-thread variants (interposition.md C10): one end, checked like a
 * copy's.
 */
#include "preload/entry/copy_check.h"
#include "preload/hooks/hook.h"

static size_t bytes_of(size_t n, size_t element_bytes) {
    size_t n_bytes;
    return __builtin_mul_overflow(n, element_bytes, &n_bytes) ? SIZE_MAX : n_bytes;
}

static struct cushim_copy describe(CUdeviceptr to, size_t span_bytes, size_t n_bytes,
                                   CUstream stream) {
    return (struct cushim_copy){CUSHIM_SET, .to = {to, span_bytes}, .n_bytes = n_bytes,
                                .stream = stream};
}

static struct cushim_copy describe_rows(CUdeviceptr to, size_t pitch_bytes, size_t element_bytes,
                                        size_t width, size_t height, CUstream stream) {
    size_t row_bytes = bytes_of(width, element_bytes);
    return describe(to, cushim_copy_span(row_bytes, height, 1, pitch_bytes, 0), row_bytes * height,
                    stream);
}

/* What the hook of one run of bytes does; `call` is the driver's. */
#define LINE(element_bytes, call)                                                                  \
    size_t n_bytes = bytes_of(n, element_bytes);                                                   \
    if (cushim_copy_is_plain(to, to, n_bytes, true))                                               \
        return call;                                                                               \
    struct cushim_copy set = describe(to, n_bytes, n_bytes, ORDER);                                \
    CUSHIM_COPY(&set, call)

/* The same for rows. */
#define ROWS(element_bytes, call)                                                                  \
    struct cushim_copy set = describe_rows(to, pitch_bytes, element_bytes, width, height, ORDER);  \
    CUSHIM_COPY(&set, call)

/* The eight hooks for values of one type. */
#define HOOKS(bits, type)                                                                          \
    HOOKS_PTDS(cuMemsetD##bits##_v2, TAKES(CUdeviceptr to, type value, size_t n),                  \
               LINE(sizeof value, REAL(to, value, n)))                                             \
    HOOKS_PTSZ(cuMemsetD##bits##Async,                                                             \
               TAKES(CUdeviceptr to, type value, size_t n, CUstream stream),                       \
               LINE(sizeof value, REAL(to, value, n, stream)))                                     \
    HOOKS_PTDS(cuMemsetD2D##bits##_v2,                                                             \
               TAKES(CUdeviceptr to, size_t pitch_bytes, type value, size_t width, size_t height), \
               ROWS(sizeof value, REAL(to, pitch_bytes, value, width, height)))                    \
    HOOKS_PTSZ(cuMemsetD2D##bits##Async,                                                           \
               TAKES(CUdeviceptr to, size_t pitch_bytes, type value, size_t width, size_t height,  \
                     CUstream stream),                                                             \
               ROWS(sizeof value, REAL(to, pitch_bytes, value, width, height, stream)))

HOOKS(8, unsigned char)
HOOKS(16, unsigned short)
HOOKS(32, unsigned)
