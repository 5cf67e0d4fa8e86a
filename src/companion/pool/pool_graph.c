#include "companion/pool/pool_graph.h"

#include <stdlib.h>

#include "companion/context/address_map.h"
#include "companion/pool/pool_request.h"
#include "memory/state/heap_state.h"

/* ---- lists ---- */

struct cushim_pool_graph_row *cushim_pool_graph_add(struct cushim_pool_graph *held) {
    if (held->n_rows == held->n_most) {
        size_t n_most = held->n_most ? 2 * held->n_most : 16;
        struct cushim_pool_graph_row *rows = realloc(held->rows, n_most * sizeof *rows);
        if (!rows)
            return NULL;
        held->rows = rows;
        held->n_most = n_most;
    }
    struct cushim_pool_graph_row *row = &held->rows[held->n_rows++];
    *row = (struct cushim_pool_graph_row){0};
    return row;
}

/* Under the pool's lock: the list holds a block from now on. */
struct cushim_pool_graph_row *cushim_pool_graph_add_block(struct cushim_pool_graph *held,
                                                          struct cushim_pool_block *block) {
    struct cushim_pool_heap *heap = block->heap;
    struct cushim_pool_graph_row *row = cushim_pool_graph_add(held);
    if (!row)
        return NULL;
    row->block = block;
    row->life = atomic_load(&cushim_pool_heap_core(heap)->generation);
    row->address = cushim_pool_block_address(block);
    row->bucket_bytes = block->bucket_bytes;
    held->bytes += block->bucket_bytes;
    pthread_mutex_lock(&heap->lock);
    if (!atomic_fetch_add(&block->n_holds, 1)) {
        atomic_fetch_add(&heap->graph_blocks, 1);
        atomic_fetch_add(&heap->graph_bytes, block->bucket_bytes);
    }
    pthread_mutex_unlock(&heap->lock);
    return row;
}

struct cushim_pool_graph_row *cushim_pool_graph_find(struct cushim_pool_graph *held,
                                                     const struct cushim_pool_block *block) {
    for (size_t i = 0; i < held->n_rows; i++) {
        if (held->rows[i].block == block)
            return &held->rows[i];
    }
    return NULL;
}

size_t cushim_pool_graph_bytes(const struct cushim_pool_graph *held) {
    return held ? held->bytes : 0;
}

/* A kept block was freed naming a cache, or (NULL) serves again. */
void cushim_pool_graph_defer(struct cushim_pool_block *block, struct cushim_pool_cache *cache) {
    pthread_mutex_lock(&block->heap->lock);
    block->is_deferred = cache != NULL;
    if (cache) {
        block->deferred_life = cache->life;
        atomic_store_explicit(&block->cache, cache, memory_order_relaxed);
    }
    pthread_mutex_unlock(&block->heap->lock);
}

/* One holder less; true: it was the last, and the block is to go back to a cache. */
static bool take_back(const struct cushim_pool_graph_row *row, bool is_graph_gone, bool *is_live) {
    struct cushim_pool_block *block = row->block;
    struct cushim_pool_heap *heap = block->heap;
    pthread_mutex_lock(&heap->lock);
    bool is_there = atomic_load(&cushim_pool_heap_core(heap)->generation) == row->life &&
                    !atomic_load(&heap->is_lost) && block->is_used;
    bool is_last = is_there && atomic_fetch_sub(&block->n_holds, 1) == 1;
    bool is_deferred = is_last && block->is_deferred;
    if (is_last) {
        block->is_deferred = false;
        atomic_fetch_sub(&heap->graph_blocks, 1);
        atomic_fetch_sub(&heap->graph_bytes, block->bucket_bytes);
    }
    pthread_mutex_unlock(&heap->lock);
    /* One that is neither is being freed at this moment, by who finds that nobody holds it. */
    *is_live = is_last && !is_deferred && is_graph_gone &&
               cushim_pool_block_take(block, cushim_pool_block_address(block));
    return is_deferred || *is_live;
}

static void let_go(const struct cushim_pool_graph_row *row, bool is_graph_gone) {
    struct cushim_pool_block *block = row->block;
    struct cushim_pool_heap *heap = block->heap;
    bool is_live;
    if (!take_back(row, is_graph_gone, &is_live))
        return;
    if (!heap->pool) {
        cushim_pool_heap_give(heap, block);
        cushim_pool_heap_count_off(heap);
        return;
    }
    struct cushim_pool_cache *cache = atomic_load_explicit(&block->cache, memory_order_relaxed);
    if (is_live) { /* nobody named a stream for it, so it waits for all */
        size_t asked_bytes = atomic_load(&block->asked_bytes);
        cushim_pool_cache_lock(cache);
        cache->counts.n_not_live++;
        cache->counts.live_bytes -= (int64_t)block->bucket_bytes;
        cache->counts.asked_bytes -= (int64_t)asked_bytes;
        cushim_pool_cache_unlock(cache);
        cache = heap->all;
    }
    cushim_pool_cache_put(cache, is_live ? cache->life : block->deferred_life, block);
}

void cushim_pool_graph_drop(struct cushim_pool_graph *held, bool is_graph_gone) {
    for (size_t i = 0; i < held->n_rows; i++) {
        struct cushim_pool_graph_row *row = &held->rows[i];
        struct cushim_address_map_row ledger_row;
        if (row->block)
            let_go(row, is_graph_gone);
        else if (!row->is_over && cushim_address_map_erase(row->address, &ledger_row) == CUSHIM_OK)
            cushim_address_map_drop(&ledger_row);
    }
    free(held->rows);
    free(held);
}

void cushim_pool_graph_release(struct cushim_pool_graph *held) {
    if (held)
        cushim_pool_graph_drop(held, true);
}
