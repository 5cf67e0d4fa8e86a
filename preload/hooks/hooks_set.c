/*
 * Hooks of sets, with their per-thread variants (interposition.md C10): one end, checked like a
 * copy's.
 */
#include "cuda/table.h"
#include "preload/entry/copy_check.h"

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

/* The rest of a hook for one run of bytes; the last argument, in parentheses, has the driver's
 * arguments. */
#define LINE(abi, bytes, stream, arguments)                                                        \
    size_t n_bytes = bytes;                                                                        \
    if (cushim_copy_is_plain(to, to, n_bytes, true))                                               \
        return cuda->abi arguments;                                                                \
    struct cushim_copy set = describe(to, n_bytes, n_bytes, stream);                               \
    CUSHIM_COPY(&set, cuda->abi arguments)

/* The same for rows. */
#define ROWS(abi, element_bytes, stream, arguments)                                                \
    struct cushim_copy set = describe_rows(to, pitch_bytes, element_bytes, width, height, stream); \
    CUSHIM_COPY(&set, cuda->abi arguments)

CUSHIM_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n) {
    CUSHIM_ENTER(cuMemsetD8_v2)
    LINE(cuMemsetD8_v2, n, NULL, (to, value, n));
}

CUSHIM_EXPORT CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t n) {
    CUSHIM_ENTER(cuMemsetD8_v2_ptds)
    LINE(cuMemsetD8_v2_ptds, n, CU_STREAM_PER_THREAD, (to, value, n));
}

CUSHIM_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n,
                                       CUstream stream) {
    CUSHIM_ENTER(cuMemsetD8Async)
    LINE(cuMemsetD8Async, n, stream, (to, value, n, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t n,
                                            CUstream stream) {
    CUSHIM_ENTER(cuMemsetD8Async_ptsz)
    LINE(cuMemsetD8Async_ptsz, n, cushim_per_thread(stream), (to, value, n, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t n) {
    CUSHIM_ENTER(cuMemsetD16_v2)
    LINE(cuMemsetD16_v2, bytes_of(n, 2), NULL, (to, value, n));
}

CUSHIM_EXPORT CUresult cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t n) {
    CUSHIM_ENTER(cuMemsetD16_v2_ptds)
    LINE(cuMemsetD16_v2_ptds, bytes_of(n, 2), CU_STREAM_PER_THREAD, (to, value, n));
}

CUSHIM_EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n,
                                        CUstream stream) {
    CUSHIM_ENTER(cuMemsetD16Async)
    LINE(cuMemsetD16Async, bytes_of(n, 2), stream, (to, value, n, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t n,
                                             CUstream stream) {
    CUSHIM_ENTER(cuMemsetD16Async_ptsz)
    LINE(cuMemsetD16Async_ptsz, bytes_of(n, 2), cushim_per_thread(stream), (to, value, n, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n) {
    CUSHIM_ENTER(cuMemsetD32_v2)
    LINE(cuMemsetD32_v2, bytes_of(n, 4), NULL, (to, value, n));
}

CUSHIM_EXPORT CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned value, size_t n) {
    CUSHIM_ENTER(cuMemsetD32_v2_ptds)
    LINE(cuMemsetD32_v2_ptds, bytes_of(n, 4), CU_STREAM_PER_THREAD, (to, value, n));
}

CUSHIM_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream) {
    CUSHIM_ENTER(cuMemsetD32Async)
    LINE(cuMemsetD32Async, bytes_of(n, 4), stream, (to, value, n, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, size_t n,
                                             CUstream stream) {
    CUSHIM_ENTER(cuMemsetD32Async_ptsz)
    LINE(cuMemsetD32Async_ptsz, bytes_of(n, 4), cushim_per_thread(stream), (to, value, n, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch_bytes, unsigned char value,
                                       size_t width, size_t height) {
    CUSHIM_ENTER(cuMemsetD2D8_v2)
    ROWS(cuMemsetD2D8_v2, 1, NULL, (to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr to, size_t pitch_bytes, unsigned char value,
                                            size_t width, size_t height) {
    CUSHIM_ENTER(cuMemsetD2D8_v2_ptds)
    ROWS(cuMemsetD2D8_v2_ptds, 1, CU_STREAM_PER_THREAD, (to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch_bytes, unsigned char value,
                                         size_t width, size_t height, CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D8Async)
    ROWS(cuMemsetD2D8Async, 1, stream, (to, pitch_bytes, value, width, height, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr to, size_t pitch_bytes,
                                              unsigned char value, size_t width, size_t height,
                                              CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D8Async_ptsz)
    ROWS(cuMemsetD2D8Async_ptsz, 1, cushim_per_thread(stream),
         (to, pitch_bytes, value, width, height, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch_bytes, unsigned short value,
                                        size_t width, size_t height) {
    CUSHIM_ENTER(cuMemsetD2D16_v2)
    ROWS(cuMemsetD2D16_v2, 2, NULL, (to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr to, size_t pitch_bytes,
                                             unsigned short value, size_t width, size_t height) {
    CUSHIM_ENTER(cuMemsetD2D16_v2_ptds)
    ROWS(cuMemsetD2D16_v2_ptds, 2, CU_STREAM_PER_THREAD, (to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch_bytes, unsigned short value,
                                          size_t width, size_t height, CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D16Async)
    ROWS(cuMemsetD2D16Async, 2, stream, (to, pitch_bytes, value, width, height, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr to, size_t pitch_bytes,
                                               unsigned short value, size_t width, size_t height,
                                               CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D16Async_ptsz)
    ROWS(cuMemsetD2D16Async_ptsz, 2, cushim_per_thread(stream),
         (to, pitch_bytes, value, width, height, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch_bytes, unsigned value,
                                        size_t width, size_t height) {
    CUSHIM_ENTER(cuMemsetD2D32_v2)
    ROWS(cuMemsetD2D32_v2, 4, NULL, (to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr to, size_t pitch_bytes, unsigned value,
                                             size_t width, size_t height) {
    CUSHIM_ENTER(cuMemsetD2D32_v2_ptds)
    ROWS(cuMemsetD2D32_v2_ptds, 4, CU_STREAM_PER_THREAD, (to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch_bytes, unsigned value,
                                          size_t width, size_t height, CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D32Async)
    ROWS(cuMemsetD2D32Async, 4, stream, (to, pitch_bytes, value, width, height, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr to, size_t pitch_bytes, unsigned value,
                                               size_t width, size_t height, CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D32Async_ptsz)
    ROWS(cuMemsetD2D32Async_ptsz, 4, cushim_per_thread(stream),
         (to, pitch_bytes, value, width, height, stream));
}
