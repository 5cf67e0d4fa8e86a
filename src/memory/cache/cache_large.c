#include "memory/cache/cache_large.h"

#include <string.h>

#include "memory/cache/cache.h"
#include "memory/cache/cache_share.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"

static struct cushim_mem_heap *heap_of(const struct cushim_mem_cache *cache) {
    return atomic_load_explicit(&cache->pool, memory_order_relaxed);
}

static struct cushim_mem_extent *take_out(struct cushim_mem_cache *cache, unsigned i) {
    struct cushim_mem_large *large = &cache->large;
    struct cushim_mem_large_block block = large->blocks[i];
    large->n--;
    memmove(&large->blocks[i], &large->blocks[i + 1], (large->n - i) * sizeof block);
    large->cached_bytes -= block.block_bytes;
    return block.extent;
}

static void count_out(struct cushim_mem_heap *heap, size_t n_bytes) {
    atomic_fetch_sub_explicit(&heap->cached_large_bytes, n_bytes, memory_order_relaxed);
}

static void put_in(struct cushim_mem_cache *cache, unsigned i, struct cushim_mem_extent *extent,
                   uint64_t tag) {
    struct cushim_mem_large *large = &cache->large;
    struct cushim_mem_heap *heap = heap_of(cache);
    memmove(&large->blocks[i + 1], &large->blocks[i], (large->n - i) * sizeof large->blocks[i]);
    large->blocks[i] = (struct cushim_mem_large_block){extent, extent->block_bytes, tag};
    large->n++;
    large->cached_bytes += extent->block_bytes;
    atomic_fetch_add_explicit(&heap->cached_large_bytes, extent->block_bytes, memory_order_relaxed);
    cushim_mem_heap_note_slack(heap);
}

struct cushim_mem_extent *cushim_mem_large_pop(struct cushim_mem_cache *cache, size_t block_bytes,
                                               uint64_t done) {
    const struct cushim_mem_large *large = &cache->large;
    for (unsigned i = large->n; i-- > 0;) {
        if (large->blocks[i].block_bytes == block_bytes && large->blocks[i].tag <= done) {
            count_out(heap_of(cache), block_bytes);
            return take_out(cache, i);
        }
    }
    return NULL;
}

uint64_t cushim_mem_large_tag_of(const struct cushim_mem_cache *cache, size_t block_bytes) {
    const struct cushim_mem_large *large = &cache->large;
    for (unsigned i = 0; i < large->n; i++) {
        if (large->blocks[i].block_bytes == block_bytes)
            return large->blocks[i].tag;
    }
    return 0;
}

bool cushim_mem_large_push(struct cushim_mem_cache *cache, struct cushim_mem_extent *extent,
                           uint64_t tag) {
    if (!cushim_mem_large_fits(&cache->large, extent->block_bytes))
        return false;
    put_in(cache, cache->large.n, extent, tag);
    return true;
}

void cushim_mem_large_forget(struct cushim_mem_cache *cache) {
    count_out(heap_of(cache), cache->large.cached_bytes);
    cache->large = (struct cushim_mem_large){0};
}

bool cushim_mem_large_give(struct cushim_mem_cache *cache, size_t keep_bytes, uint64_t done) {
    struct cushim_mem_heap *heap = heap_of(cache);
    while (cache->large.n && cache->large.cached_bytes > keep_bytes) {
        uint64_t tag = cache->large.blocks[0].tag;
        struct cushim_mem_extent *extent = take_out(cache, 0);
        struct cushim_mem_blockref place = {extent, 0};
        size_t block_bytes = extent->block_bytes;
        if (tag <= done) {
            cushim_mem_free_lists_give(heap, extent->segment, &place);
        } else if (!cushim_mem_deferred_add(&heap->deferred, &heap->meta, extent->segment, &place,
                                            tag)) {
            put_in(cache, 0, extent, tag);
            count_out(heap, block_bytes);
            return false;
        }
        count_out(heap, block_bytes); /* behind that: at no moment it seems to be live */
    }
    return true;
}

bool cushim_mem_large_push_over(struct cushim_mem_cache *cache, struct cushim_mem_extent *extent,
                                uint64_t tag, uint64_t done) {
    struct cushim_mem_heap *heap = heap_of(cache);
    struct cushim_mem_large *large = &cache->large;
    pthread_mutex_lock(&heap->lock);
    cushim_mem_cache_share_take(cache, heap);
    if (extent->block_bytes <= large->limit_bytes) {
        size_t keep_bytes = large->limit_bytes - extent->block_bytes;
        cushim_mem_large_give(
            cache, keep_bytes < large->limit_bytes / 2 ? keep_bytes : large->limit_bytes / 2, done);
    }
    pthread_mutex_unlock(&heap->lock);
    return cushim_mem_large_push(cache, extent, tag);
}
