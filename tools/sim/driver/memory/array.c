#include "array.h"

#include "block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/core/handle.h"
#include "memory.h"

#include <stdlib.h>

enum { MAX_LEVELS = 32 };

struct mipmap {
    unsigned n_levels;
    CUarray levels[MAX_LEVELS];
};

CUresult sim_array_of_handle(CUarray handle, struct sim_array **out) {
    if (!sim_handle_is(handle, SIM_HANDLE_ARRAY))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct sim_array *)handle;
    return CUDA_SUCCESS;
}

size_t sim_array_element_bytes(CUarray_format format, unsigned n_channels) {
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

static size_t at_least_one(size_t n) {
    return n ? n : 1;
}

/* The sizes that follow from a descriptor; false: no such array. */
static bool measure(struct sim_array *array) {
    const CUDA_ARRAY3D_DESCRIPTOR *shape = &array->descriptor;
    size_t element = sim_array_element_bytes(shape->Format, shape->NumChannels);
    bool has_channels =
        shape->NumChannels == 1 || shape->NumChannels == 2 || shape->NumChannels == 4;
    return element && has_channels && shape->Width &&
           !__builtin_mul_overflow(shape->Width, element, &array->pitch_bytes) &&
           !__builtin_mul_overflow(array->pitch_bytes, at_least_one(shape->Height),
                                   &array->slice_bytes) &&
           !__builtin_mul_overflow(array->slice_bytes, at_least_one(shape->Depth), &array->n_bytes);
}

static CUresult create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
    struct sim_context *context;
    struct sim_block *block;
    SIM_TRY(sim_context_current(&context));
    if (!out || !descriptor)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_array *array = calloc(1, sizeof *array);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    array->descriptor = *descriptor;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!measure(array))
        goto error_array;
    result = sim_block_obtain(context->root, array->n_bytes, &block);
    if (result != CUDA_SUCCESS)
        goto error_array;
    array->address = (CUdeviceptr)(uintptr_t)block->address;
    if (!sim_handle_add(array, SIM_HANDLE_ARRAY)) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
        goto error_block;
    }
    *out = (CUarray)array;
    return CUDA_SUCCESS;

error_block:
    sim_block_release(block);
error_array:
    free(array);
    return result;
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
    SIM_ENTER(cuArray3DCreate_v2);
    return sim_leave(create(pHandle, pAllocateArray));
}

static CUresult create_flat(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *flat) {
    if (!flat)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {.Width = flat->Width,
                                          .Height = flat->Height,
                                          .Format = flat->Format,
                                          .NumChannels = flat->NumChannels};
    return create(out, &descriptor);
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
    SIM_ENTER(cuArrayCreate_v2);
    return sim_leave(create_flat(pHandle, pAllocateArray));
}

static bool is_any(const struct sim_block *block) {
    (void)block;
    return true;
}

/* The block may have gone with its context. */
static CUresult destroy(CUarray handle) {
    struct sim_array *array;
    SIM_TRY(sim_array_of_handle(handle, &array));
    sim_handle_remove(array);
    CUdeviceptr address = array->address;
    free(array);
    if (sim_block_at(address))
        return sim_memory_free(address, is_any);
    return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray hArray) {
    SIM_ENTER(cuArrayDestroy);
    return sim_leave(destroy(hArray));
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
    SIM_ENTER(cuArray3DGetDescriptor_v2);
    struct sim_array *array;
    CUresult result = sim_array_of_handle(hArray, &array);
    if (result == CUDA_SUCCESS && !pArrayDescriptor)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pArrayDescriptor = array->descriptor;
    return sim_leave(result);
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
    SIM_ENTER(cuArrayGetDescriptor_v2);
    struct sim_array *array;
    CUresult result = sim_array_of_handle(hArray, &array);
    if (result == CUDA_SUCCESS && !pArrayDescriptor)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pArrayDescriptor =
            (CUDA_ARRAY_DESCRIPTOR){array->descriptor.Width, array->descriptor.Height,
                                    array->descriptor.Format, array->descriptor.NumChannels};
    return sim_leave(result);
}

/* ---- mipmaps: an array for each level ---- */

static CUresult destroy_mipmap(CUmipmappedArray handle) {
    if (!sim_handle_is(handle, SIM_HANDLE_MIPMAP))
        return CUDA_ERROR_INVALID_HANDLE;
    struct mipmap *mipmap = (struct mipmap *)handle;
    sim_handle_remove(mipmap);
    CUresult result = CUDA_SUCCESS;
    while (mipmap->n_levels && result == CUDA_SUCCESS)
        result = destroy(mipmap->levels[--mipmap->n_levels]);
    free(mipmap);
    return result;
}

static CUresult create_mipmap(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                              unsigned n_levels) {
    if (!out || !descriptor || n_levels == 0 || n_levels > MAX_LEVELS)
        return CUDA_ERROR_INVALID_VALUE;
    struct mipmap *mipmap = calloc(1, sizeof *mipmap);
    if (!mipmap || !sim_handle_add(mipmap, SIM_HANDLE_MIPMAP)) {
        free(mipmap);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUDA_ARRAY3D_DESCRIPTOR level = *descriptor;
    for (unsigned i = 0; i < n_levels; i++) {
        CUresult result = create(&mipmap->levels[i], &level);
        if (result != CUDA_SUCCESS) {
            destroy_mipmap((CUmipmappedArray)mipmap);
            return result;
        }
        mipmap->n_levels++;
        level.Width = at_least_one(level.Width / 2);
        level.Height = level.Height ? at_least_one(level.Height / 2) : 0;
        level.Depth = level.Depth ? at_least_one(level.Depth / 2) : 0;
    }
    *out = (CUmipmappedArray)mipmap;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                unsigned int numMipmapLevels) {
    SIM_ENTER(cuMipmappedArrayCreate);
    return sim_leave(create_mipmap(pHandle, pMipmappedArrayDesc, numMipmapLevels));
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
    SIM_ENTER(cuMipmappedArrayDestroy);
    return sim_leave(destroy_mipmap(hMipmappedArray));
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
                                  unsigned int level) {
    SIM_ENTER(cuMipmappedArrayGetLevel);
    if (!pLevelArray || !sim_handle_is(hMipmappedArray, SIM_HANDLE_MIPMAP))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    const struct mipmap *mipmap = (const struct mipmap *)hMipmappedArray;
    if (level >= mipmap->n_levels)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *pLevelArray = mipmap->levels[level];
    return sim_leave(CUDA_SUCCESS);
}
