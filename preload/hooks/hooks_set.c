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
    if (!cushim_copy_begin(&set))                                                                  \
        return CUDA_ERROR_INVALID_VALUE;                                                           \
    return cushim_copy_end(cuda, &set, cuda->abi arguments)

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
    struct cushim_copy set = describe_rows(to, pitch_bytes, 1, width, height, NULL);
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &set,
                           cuda->cuMemsetD2D8_v2(to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr to, size_t pitch_bytes, unsigned char value,
                                            size_t width, size_t height) {
    CUSHIM_ENTER(cuMemsetD2D8_v2_ptds)
    struct cushim_copy set = describe_rows(to, pitch_bytes, 1, width, height, CU_STREAM_PER_THREAD);
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &set,
                           cuda->cuMemsetD2D8_v2_ptds(to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch_bytes, unsigned char value,
                                         size_t width, size_t height, CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D8Async)
    struct cushim_copy set = describe_rows(to, pitch_bytes, 1, width, height, stream);
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &set,
                           cuda->cuMemsetD2D8Async(to, pitch_bytes, value, width, height, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr to, size_t pitch_bytes,
                                              unsigned char value, size_t width, size_t height,
                                              CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D8Async_ptsz)
    struct cushim_copy set =
        describe_rows(to, pitch_bytes, 1, width, height, cushim_per_thread(stream));
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &set, cuda->cuMemsetD2D8Async_ptsz(to, pitch_bytes, value, width, height, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch_bytes, unsigned short value,
                                        size_t width, size_t height) {
    CUSHIM_ENTER(cuMemsetD2D16_v2)
    struct cushim_copy set = describe_rows(to, pitch_bytes, 2, width, height, NULL);
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &set,
                           cuda->cuMemsetD2D16_v2(to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr to, size_t pitch_bytes,
                                             unsigned short value, size_t width, size_t height) {
    CUSHIM_ENTER(cuMemsetD2D16_v2_ptds)
    struct cushim_copy set = describe_rows(to, pitch_bytes, 2, width, height, CU_STREAM_PER_THREAD);
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &set,
                           cuda->cuMemsetD2D16_v2_ptds(to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch_bytes, unsigned short value,
                                          size_t width, size_t height, CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D16Async)
    struct cushim_copy set = describe_rows(to, pitch_bytes, 2, width, height, stream);
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &set,
                           cuda->cuMemsetD2D16Async(to, pitch_bytes, value, width, height, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr to, size_t pitch_bytes,
                                               unsigned short value, size_t width, size_t height,
                                               CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D16Async_ptsz)
    struct cushim_copy set =
        describe_rows(to, pitch_bytes, 2, width, height, cushim_per_thread(stream));
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &set, cuda->cuMemsetD2D16Async_ptsz(to, pitch_bytes, value, width, height, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch_bytes, unsigned value,
                                        size_t width, size_t height) {
    CUSHIM_ENTER(cuMemsetD2D32_v2)
    struct cushim_copy set = describe_rows(to, pitch_bytes, 4, width, height, NULL);
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &set,
                           cuda->cuMemsetD2D32_v2(to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr to, size_t pitch_bytes, unsigned value,
                                             size_t width, size_t height) {
    CUSHIM_ENTER(cuMemsetD2D32_v2_ptds)
    struct cushim_copy set = describe_rows(to, pitch_bytes, 4, width, height, CU_STREAM_PER_THREAD);
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &set,
                           cuda->cuMemsetD2D32_v2_ptds(to, pitch_bytes, value, width, height));
}

CUSHIM_EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch_bytes, unsigned value,
                                          size_t width, size_t height, CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D32Async)
    struct cushim_copy set = describe_rows(to, pitch_bytes, 4, width, height, stream);
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(cuda, &set,
                           cuda->cuMemsetD2D32Async(to, pitch_bytes, value, width, height, stream));
}

CUSHIM_EXPORT CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr to, size_t pitch_bytes, unsigned value,
                                               size_t width, size_t height, CUstream stream) {
    CUSHIM_ENTER(cuMemsetD2D32Async_ptsz)
    struct cushim_copy set =
        describe_rows(to, pitch_bytes, 4, width, height, cushim_per_thread(stream));
    if (!cushim_copy_begin(&set))
        return CUDA_ERROR_INVALID_VALUE;
    return cushim_copy_end(
        cuda, &set, cuda->cuMemsetD2D32Async_ptsz(to, pitch_bytes, value, width, height, stream));
}
