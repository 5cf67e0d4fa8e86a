/* Device memory as the program asks for it: cuMemAlloc and cuMemFree, pitch, sizes, ranges. */
#include "tools/sim/driver/core/abi.h"
#include "cuda/patchable.h"
#include "async.h"
#include "block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "memory.h"

/* Rows of a pitched allocation begin on these. */
enum { PITCH_BYTES = 512 };

static CUresult alloc(CUdeviceptr *out, size_t n_bytes) {
    struct sim_context *context;
    struct sim_block *block;
    SIM_TRY(sim_context_current(&context));
    if (!out || n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_block_obtain(context->root, n_bytes, &block));
    *out = (CUdeviceptr)(uintptr_t)block->address;
    return CUDA_SUCCESS;
}

CUSHIM_PATCHABLE(cuMemAlloc_v2)
CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    SIM_ENTER(cuMemAlloc_v2);
    return sim_leave(alloc(dptr, bytesize));
}

static CUresult alloc_pitch(CUdeviceptr *out, size_t *pitch, size_t width_bytes, size_t height,
                            unsigned element_bytes) {
    size_t n_bytes, row_bytes;
    if (!pitch || width_bytes == 0 || height == 0 ||
        (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_add_overflow(width_bytes, PITCH_BYTES - 1, &row_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    row_bytes -= row_bytes % PITCH_BYTES;
    if (__builtin_mul_overflow(row_bytes, height, &n_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(alloc(out, n_bytes));
    *pitch = row_bytes;
    return CUDA_SUCCESS;
}

CUSHIM_PATCHABLE(cuMemAllocPitch_v2)
CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes) {
    SIM_ENTER(cuMemAllocPitch_v2);
    return sim_leave(alloc_pitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
}

CUresult sim_memory_free(CUdeviceptr address, bool (*may_free)(const struct sim_block *)) {
    struct sim_block *block = sim_block_at(address);
    if (!block || !may_free(block))
        return CUDA_ERROR_INVALID_VALUE;
    unsigned long long id = block->buffer_id;
    SIM_TRY(sim_context_synchronize(block->context));
    /* While this thread waited, another one may have freed it, and obtained the address again. */
    block = sim_block_at(address);
    if (!block || block->buffer_id != id)
        return CUDA_ERROR_INVALID_VALUE;
    bool is_left = block->is_unfreed; /* by a graph, which may still own it */
    block->is_unfreed = false;
    if (is_left)
        sim_async_release(address);
    else
        sim_block_release(block);
    return CUDA_SUCCESS;
}

static bool is_free_of_device(const struct sim_block *block) {
    return block->kind == SIM_BLOCK_DEVICE || block->kind == SIM_BLOCK_MANAGED ||
           block->kind == SIM_BLOCK_EXTERNAL ||
           (block->kind == SIM_BLOCK_IMPORTED && block->pool) ||
           (block->kind == SIM_BLOCK_ASYNC && (block->pool || block->is_unfreed));
}

CUSHIM_PATCHABLE(cuMemFree_v2)
CUresult cuMemFree_v2(CUdeviceptr dptr) {
    SIM_ENTER(cuMemFree_v2);
    return sim_leave(dptr ? sim_memory_free(dptr, is_free_of_device) : CUDA_SUCCESS);
}

static CUresult get_info(size_t *n_free, size_t *n_total) {
    struct sim_context *context;
    SIM_TRY(sim_context_current(&context));
    if (!n_free || !n_total)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_device *device = context->device;
    *n_free = sim_device_pages_left(device) * SIM_PAGE_BYTES;
    *n_total = device->n_pages * SIM_PAGE_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    SIM_ENTER(cuMemGetInfo_v2);
    return sim_leave(get_info(free, total));
}

static CUresult get_range(CUdeviceptr *base, size_t *n_bytes, CUdeviceptr address) {
    const struct sim_block *block = sim_block_find(address);
    if (!block)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = (CUdeviceptr)(uintptr_t)block->address;
    if (n_bytes)
        *n_bytes = block->n_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
    SIM_ENTER(cuMemGetAddressRange_v2);
    return sim_leave(get_range(pbase, psize, dptr));
}
