#include "companion/pool/pool_call.h"

#include <stdlib.h>

#include "base/log.h"

enum { PIECE_BYTES = 1 << 20 };

/* A block of ALL is filled on the legacy stream, while no other work is under way. */
static enum cushim_status poison(struct cushim_scope *scope,
                                 const struct cushim_mem_stream_cache *cache,
                                 const struct cushim_mem_stream_block *block) {
    bool is_all = cache->stream.handle == CUSHIM_MEM_STREAM_ALL;
    CUstream stream = is_all ? NULL : cache->stream.handle;
    if (is_all)
        CUSHIM_TRY(CUSHIM_CALL(scope, cuCtxSynchronize));
    CUSHIM_TRY(CUSHIM_CALL(scope, cuMemsetD8Async, cushim_mem_stream_block_address(block),
                           CUSHIM_POOL_POISON, block->bucket_bytes, stream));
    return is_all ? CUSHIM_CALL(scope, cuStreamSynchronize, stream) : CUSHIM_OK;
}

void cushim_pool_check_poison(const char *what, struct cushim_mem_stream_cache *cache,
                              struct cushim_mem_stream_block *block) {
    CUSHIM_SCOPE scope = {0};
    block->is_poisoned =
        cushim_call_begin_known(&scope, what, cushim_pool_context_of(cache)) == CUSHIM_OK &&
        poison(&scope, cache, block) == CUSHIM_OK;
}

/* ---- checking ---- */

static enum cushim_status look(struct cushim_scope *scope, const struct cushim_pool_call *call,
                               unsigned char *piece) {
    uint64_t address = cushim_mem_stream_block_address(call->block);
    CUstream stream = call->cache == call->heap->streams.all ? NULL : call->cache->stream.handle;
    for (size_t at = 0; at < call->block->bucket_bytes; at += PIECE_BYTES) {
        size_t n_bytes = cushim_least(call->block->bucket_bytes - at, PIECE_BYTES);
        CUSHIM_TRY(CUSHIM_CALL(scope, cuMemcpyDtoHAsync_v2, piece, address + at, n_bytes, stream));
        CUSHIM_TRY(CUSHIM_CALL(scope, cuStreamSynchronize, stream));
        size_t changed = 0;
        while (changed < n_bytes && piece[changed] == CUSHIM_POOL_POISON)
            changed++;
        if (changed == n_bytes)
            continue;
        atomic_fetch_add_explicit(&call->pool->n_damaged, 1, memory_order_relaxed);
        log_error("pool",
                  "the block of %zu bytes at 0x%lx was written after its free: 0x%x at offset %zu",
                  call->block->bucket_bytes, (unsigned long)address, piece[changed], at + changed);
        break;
    }
    return CUSHIM_OK;
}

void cushim_pool_check_look(struct cushim_pool_call *call) {
    struct cushim_scope scope;
    bool is_poisoned = call->block->is_poisoned;
    call->block->is_poisoned = false;
    if (!is_poisoned || call->is_captured)
        return;
    unsigned char *piece = malloc(PIECE_BYTES);
    if (piece && cushim_call_begin_known(&scope, call->what, cushim_pool_context_of(call->cache)) ==
                     CUSHIM_OK)
        cushim_call_end(&scope, look(&scope, call, piece));
    free(piece);
}
