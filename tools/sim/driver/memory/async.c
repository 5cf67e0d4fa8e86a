/*
 * Stream-ordered allocation.
 *
 * The address is found at the call, and nothing else gets it before the turn of its free in its
 * stream, so the order of the stream holds by itself.  In a capture the memory is found at once,
 * too, and belongs to the graph and its copies together (graph_memory.h).
 */
#include "async.h"
#include "cuda/patchable.h"

#include "block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/graph/capture.h"
#include "tools/sim/driver/context/context.h"
#include "pool.h"
#include "tools/sim/driver/stream/stream.h"

void sim_async_retain(CUdeviceptr address) {
    struct sim_block *block = sim_block_find_any(address);
    if (block)
        block->n_owners++;
}

void sim_async_release(CUdeviceptr address) {
    struct sim_block *block = sim_block_find_any(address);
    if (block && --block->n_owners == 0)
        sim_block_release(block);
}

/* pool: NULL for the one that the device uses. */
static CUresult alloc(CUdeviceptr *out, size_t n_bytes, struct sim_pool *pool, CUstream handle,
                      CUstream default_stream) {
    struct sim_stream *stream;
    struct sim_block *block;
    if (!out || n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    struct sim_context *root = stream->context->root;
    if (!pool)
        pool = root->device->pool;
    if (pool->is_imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool->device != root->device)
        return CUDA_ERROR_NOT_SUPPORTED; /* memory of one device ordered on another's stream */
    bool is_captured = stream->capture != NULL;
    SIM_TRY(sim_block_obtain_async(root, is_captured ? NULL : pool, n_bytes, &block));
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)block->address;
    struct sim_work work = {.kind = is_captured ? SIM_WORK_ALLOC : SIM_WORK_EMPTY,
                            .as.address = address};
    CUresult result = sim_stream_enqueue(stream, &work, NULL);
    if (result != CUDA_SUCCESS) {
        if (!is_captured) /* otherwise the work owned it */
            sim_async_release(address);
        return result;
    }
    if (!is_captured)
        sim_pool_note_use(pool);
    *out = address;
    return CUDA_SUCCESS;
}

CUSHIM_PATCHABLE(cuMemAllocAsync)
SIM_BOTH(cuMemAllocAsync, _ptsz, TAKES(CUdeviceptr *dptr, size_t bytesize, CUstream hStream),
         alloc(dptr, bytesize, NULL, hStream, default_stream))

static CUresult alloc_from(CUdeviceptr *out, size_t n_bytes, CUmemoryPool handle, CUstream stream,
                           CUstream default_stream) {
    struct sim_pool *pool;
    SIM_TRY(sim_pool_of_handle(handle, &pool));
    return alloc(out, n_bytes, pool, stream, default_stream);
}

CUSHIM_PATCHABLE(cuMemAllocFromPoolAsync)
SIM_BOTH(cuMemAllocFromPoolAsync, _ptsz,
         TAKES(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
         alloc_from(dptr, bytesize, pool, hStream, default_stream))

static CUresult add_free_node(struct sim_stream *stream, CUdeviceptr address) {
    struct sim_work work = {.kind = SIM_WORK_FREE_NODE, .as.address = address};
    return sim_stream_enqueue(stream, &work, NULL);
}

/* This may also get memory of cuMemAlloc. */
static CUresult free_async(CUdeviceptr address, CUstream handle, CUstream default_stream) {
    struct sim_stream *stream;
    struct sim_block *block = sim_block_at(address);
    if (block && block->kind == SIM_BLOCK_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED;
    bool is_of_pool = block && block->kind == SIM_BLOCK_IMPORTED && block->pool;
    if (!block ||
        (block->kind != SIM_BLOCK_ASYNC && block->kind != SIM_BLOCK_DEVICE && !is_of_pool))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    bool is_of_graph = block->kind == SIM_BLOCK_ASYNC && !block->pool;
    if (stream->capture)
        return is_of_graph ? add_free_node(stream, address)
                           : sim_capture_refuse(stream, CUDA_ERROR_INVALID_VALUE);
    if (is_of_graph && !block->is_unfreed)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_work work = {.kind = SIM_WORK_FREE, .as.address = address};
    block->is_freed = !is_of_graph;
    CUresult result = sim_stream_enqueue(stream, &work, NULL);
    if (result != CUDA_SUCCESS)
        block->is_freed = false;
    else
        block->is_unfreed = false;
    return result;
}

CUSHIM_PATCHABLE(cuMemFreeAsync)
SIM_BOTH(cuMemFreeAsync, _ptsz, TAKES(CUdeviceptr dptr, CUstream hStream),
         free_async(dptr, hStream, default_stream))
