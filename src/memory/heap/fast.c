#include "memory/heap/fast.h"

#include "base/clock.h"
#include "memory/cache/cache.h"
#include "memory/heap/reclaim.h"
#include "memory/heap/heap.h"

#define NOINLINE __attribute__((noinline))

/* Take the cache that the thread used last, where it is that of a heap. */
static inline bool take(struct cushim_mem_cache *cache, const struct cushim_mem_heap *heap,
                        uint64_t life) {
    return atomic_load_explicit(&cache->heap, memory_order_relaxed) == heap &&
           cushim_mem_cache_take_again(cache, life);
}

/* ---- requests ---- */

/* The cache being taken. */
static inline uint64_t obtain(struct cushim_mem_cache *cache, uint64_t done, size_t n_bytes) {
    unsigned class_index = cushim_mem_sizeclass_of(n_bytes);
    struct cushim_mem_slot *slot = cushim_mem_cache_pop(cache, class_index, done);
    if (!slot)
        return 0;
    atomic_store_explicit(&slot->meta->asked_bytes, n_bytes, memory_order_relaxed);
    atomic_store_explicit(&slot->meta->state, CUSHIM_MEM_LIVE, memory_order_release);
    cushim_mem_cache_count_obtain(cache, n_bytes, cache->buckets[class_index].block_bytes, true);
    return slot->address;
}

uint64_t cushim_mem_fast_obtain(struct cushim_mem_heap *heap, size_t n_bytes) {
    struct cushim_mem_cache *cache = cushim_mem_cache_recent;
    if (n_bytes >= atomic_load_explicit(&heap->policy->dedicated_bytes, memory_order_relaxed) ||
        !take(cache, heap, cushim_mem_heap_life(heap)))
        return 0;
    /* where frees wait no block has a tag */
    uint64_t address = obtain(cache, cushim_mem_fence_done(heap->fence), n_bytes);
    cushim_mem_cache_leave(cache);
    return address;
}

/* ---- frees ---- */

bool cushim_mem_fast_is_stale(const struct cushim_mem_heap *heap) {
    const uint64_t recent_ns = 1000000000;
    return atomic_load_explicit(&heap->has_slack, memory_order_relaxed) &&
           cushim_clock_coarse_ns() -
                   atomic_load_explicit(&heap->recent_since_ns, memory_order_relaxed) >=
               recent_ns;
}

static void NOINLINE shrink_if_stale(struct cushim_mem_heap *heap) {
    uint64_t life = cushim_mem_heap_life(heap);
    if (life && cushim_mem_fast_is_stale(heap))
        cushim_mem_reclaim_shrink(heap, life, cushim_mem_fence_tag(heap->fence), false);
}

static inline void end(struct cushim_mem_heap *heap) {
    if (atomic_load_explicit(&heap->has_slack, memory_order_relaxed))
        shrink_if_stale(heap);
}

/*
 * The slab that a block may begin in at an address.  The page map has those that have the page
 * alone.  Where a block of a page or more begins with the page it is no other's, so large blocks
 * are told at once; of the smaller ones few take the slow path for it.
 */
static inline struct cushim_mem_extent *slab_at(struct cushim_mem_blocks *blocks,
                                                uint64_t address) {
    struct cushim_mem_extent *slab = cushim_mem_pagemap_slab(&blocks->map, address);
    return slab || address % CUSHIM_MEM_PAGE_BYTES == 0 ? slab
                                                        : cushim_mem_blocks_slab(blocks, address);
}

/*
 * The block that starts at an address, where it is one of a slab, of a heap whose frees of that
 * entry are this simple: what the table of blocks says of it, in fewer steps.  Whether it is LIVE
 * the exchange will tell.
 */
static inline bool find(struct cushim_mem_blocks *blocks, uint64_t address,
                        enum cushim_mem_free_entry entry, struct cushim_mem_lookup *lookup) {
    struct cushim_mem_extent *slab = slab_at(blocks, address);
    if (!slab || atomic_load_explicit(&slab->kind, memory_order_acquire) != CUSHIM_MEM_EXTENT_SLAB)
        return false;
    lookup->segment = slab->segment;
    const struct cushim_mem_heap *heap = lookup->segment->heap;
    return cushim_mem_blocks_find_in_slab(lookup->segment, slab, address, lookup) &&
           lookup->base == address && heap->quick_entry == entry &&
           !cushim_mem_heap_has_unheld(heap);
}

/*
 * The cache being taken: the block goes there, if there is room and no fence is due.  LIVE ->
 * DEFERRED as in free.c: of several threads that free it one gets it, and the epoch is read
 * behind that exchange.  Where a fence was made since the look, the block is counted for the epoch
 * before.
 */
static inline bool give(struct cushim_mem_cache *cache, const struct cushim_mem_fence *fence,
                        const struct cushim_mem_lookup *lookup) {
    struct cushim_mem_cache_bucket *bucket = &cache->buckets[lookup->ref.extent->class_index];
    struct cushim_mem_unfenced *unfenced = &cache->unfenced;
    size_t asked_bytes = atomic_load_explicit(&lookup->meta->asked_bytes, memory_order_relaxed);
    uint32_t live = CUSHIM_MEM_LIVE;
    cushim_mem_deferred_batch_turn(unfenced, cushim_mem_fence_tag(fence), cache->limit_bytes);
    size_t unfenced_bytes =
        unfenced->n_bytes + cushim_mem_deferred_batch_weight(asked_bytes, cache->limit_bytes);
    if (unfenced_bytes >= unfenced->due_bytes || !cushim_mem_cache_has_room(cache, bucket) ||
        !atomic_compare_exchange_strong(&lookup->meta->state, &live, CUSHIM_MEM_DEFERRED))
        return false;
    unfenced->n_bytes = unfenced_bytes;
    cushim_mem_cache_put(cache, bucket, lookup->meta, lookup->base, cushim_mem_fence_tag(fence));
    /* as it is now: the block need not be the one looked up */
    asked_bytes = atomic_load_explicit(&lookup->meta->asked_bytes, memory_order_relaxed);
    cushim_mem_cache_count_free(cache, asked_bytes, lookup->block_bytes);
    return true;
}

/* The cache being taken, all work on the block over: it is free from here on, if it fits. */
static inline bool give_proven(struct cushim_mem_cache *cache,
                               const struct cushim_mem_lookup *lookup, size_t asked_bytes) {
    struct cushim_mem_cache_bucket *bucket = &cache->buckets[lookup->ref.extent->class_index];
    if (!cushim_mem_cache_has_room(cache, bucket))
        return false;
    cushim_mem_cache_put(cache, bucket, lookup->meta, lookup->base, 0);
    atomic_store_explicit(&lookup->meta->state, CUSHIM_MEM_FREE, memory_order_release);
    cushim_mem_cache_count_free(cache, asked_bytes, lookup->block_bytes);
    return true;
}

bool cushim_mem_fast_release(struct cushim_mem_blocks *blocks, uint64_t address,
                             enum cushim_mem_free_entry entry) {
    struct cushim_mem_lookup lookup;
    if (!find(blocks, address, entry, &lookup))
        return false;
    struct cushim_mem_heap *heap = lookup.segment->heap;
    if (cushim_mem_fence_effect(heap->fence))
        return false;
    struct cushim_mem_cache *cache = cushim_mem_cache_recent;
    if (!take(cache, heap, cushim_mem_heap_life(heap)))
        return false;
    bool is_given = give(cache, heap->fence, &lookup);
    cushim_mem_cache_leave(cache);
    if (is_given)
        end(heap);
    return is_given;
}

/*
 * Claim, wait, give.  Once it is claimed there is no way back: the context may go during the wait,
 * and a block of the next life may start at that address.  So the life is read before the claim,
 * the cache taken is of that life, and all else ends as the slow path does.  Where blocks
 * are deferred the slow path closes an epoch, so that its wait is theirs as well.
 */
int cushim_mem_fast_release_behind_wait(struct cushim_mem_blocks *blocks, uint64_t address,
                                        enum cushim_mem_free_entry entry) {
    struct cushim_mem_lookup lookup;
    uint32_t live = CUSHIM_MEM_LIVE;
    CUresult answer;
    if (!find(blocks, address, entry, &lookup))
        return CUSHIM_MEM_FAST_DECLINED;
    struct cushim_mem_heap *heap = lookup.segment->heap;
    uint64_t life = cushim_mem_heap_life(heap);
    if (!life || atomic_load_explicit(&heap->deferred.n_rows, memory_order_relaxed) ||
        !atomic_compare_exchange_strong(&lookup.meta->state, &live, CUSHIM_MEM_DEFERRED))
        return CUSHIM_MEM_FAST_DECLINED;
    size_t asked_bytes = atomic_load_explicit(&lookup.meta->asked_bytes, memory_order_relaxed);
    bool is_over = cushim_mem_fence_wait(heap->fence, heap->stats, &answer) == CUSHIM_OK;
    struct cushim_mem_cache *cache = cushim_mem_cache_recent;
    bool is_taken = is_over && take(cache, heap, life);
    bool is_given = is_taken && give_proven(cache, &lookup, asked_bytes);
    if (is_taken)
        cushim_mem_cache_leave(cache);
    if (!is_given)
        return (int)cushim_mem_heap_end_waited(heap, &lookup, life, asked_bytes, answer);
    end(heap);
    return CUDA_SUCCESS;
}
