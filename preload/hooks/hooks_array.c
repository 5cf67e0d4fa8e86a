/*
 * Hooks of arrays: the driver serves them, and they are counted with the bytes of their elements.
 * What the driver adds to each row is not known, nor what an array of another format takes.
 */
#include "preload/entry/device_limit.h"
#include "preload/entry/entry.h"
#include "preload/hooks/hook.h"

static size_t element_bytes(CUarray_format format, unsigned n_channels) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return n_channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2 * (size_t)n_channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4 * (size_t)n_channels;
    default:
        return 0;
    }
}

static size_t level_of(size_t n, unsigned level) {
    return n >> level ? n >> level : 1;
}

/* 0: unknown, or it has no memory of its own. */
static size_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned level) {
    const unsigned without = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
    bool is_layered = shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    size_t n_bytes = shape->Flags & without ? 0 : element_bytes(shape->Format, shape->NumChannels);
    if (__builtin_mul_overflow(n_bytes, level_of(shape->Width, level), &n_bytes) ||
        __builtin_mul_overflow(n_bytes, level_of(shape->Height, level), &n_bytes) ||
        __builtin_mul_overflow(n_bytes, level_of(shape->Depth, is_layered ? 0 : level), &n_bytes))
        return 0; /* the driver refuses it */
    return n_bytes;
}

static size_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned n_levels) {
    enum { MOST_LEVELS = 32 };
    size_t n_bytes = 0;
    for (unsigned level = 0; shape && level < n_levels && level < MOST_LEVELS; level++) {
        if (__builtin_add_overflow(n_bytes, level_bytes(shape, level), &n_bytes))
            return 0;
    }
    return n_bytes;
}

static size_t bytes_of_flat(const CUDA_ARRAY_DESCRIPTOR *shape) {
    if (!shape)
        return 0;
    return level_bytes(&(CUDA_ARRAY3D_DESCRIPTOR){.Width = shape->Width,
                                                  .Height = shape->Height,
                                                  .Format = shape->Format,
                                                  .NumChannels = shape->NumChannels},
                       0);
}

/* What a hook does that makes an array of these bytes; `call` is the driver's. */
#define CREATE(bytes, call)                                                                        \
    size_t n_bytes = bytes;                                                                        \
    bool has_room = !n_bytes || cushim_device_limit_admits(cuda, n_bytes);                         \
    CUresult answer = has_room ? CUSHIM_ENTRY_RETRIED(call) : CUDA_ERROR_OUT_OF_MEMORY;            \
    if (!n_bytes)                                                                                  \
        return answer;                                                                             \
    return cushim_entry_note(cuda, CUSHIM_KIND_ARRAY, answer,                                      \
                             answer == CUDA_SUCCESS ? (uintptr_t)*array : 0, n_bytes)

HOOK(cuArrayCreate_v2, TAKES(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape),
     CREATE(bytes_of_flat(shape), REAL(array, shape)))
HOOK(cuArray3DCreate_v2, TAKES(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape),
     CREATE(bytes_of(shape, 1), REAL(array, shape)))
HOOK(cuMipmappedArrayCreate,
     TAKES(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned n_levels),
     CREATE(bytes_of(shape, n_levels), REAL(array, shape, n_levels)))

HOOK(cuArrayDestroy, TAKES(CUarray array), CUSHIM_ENTRY_DESTROY((uintptr_t)array, REAL(array)))
HOOK(cuMipmappedArrayDestroy, TAKES(CUmipmappedArray array),
     CUSHIM_ENTRY_DESTROY((uintptr_t)array, REAL(array)))
