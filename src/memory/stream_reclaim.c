#include "memory/stream_reclaim.h"

#include "memory/reclaim.h"
#include "memory/state/heap_state.h"
#include "memory/stream_blocks.h"
#include "memory/stream_heap.h"

/* How many epochs the last pass by age leaves out; the pass after it takes all. */
enum { N_BATCHES = 4 };

bool cushim_mem_streams_has_capture(const struct cushim_mem_streams *streams) {
    return streams->heap->fence->host->refuse(streams->heap->fence, NULL, NULL) != CUSHIM_OK;
}

enum cushim_status cushim_mem_streams_prove(struct cushim_mem_streams *streams,
                                            enum cushim_mem_effort effort) {
    enum cushim_status status = CUSHIM_OK;
    for (struct cushim_mem_stream_cache *cache = NULL;
         (cache = cushim_mem_streams_next(streams, cache));) {
        enum cushim_status proven =
            cache->idle_bytes ? cushim_mem_stream_cache_prove(cache, effort) : CUSHIM_OK;
        status = status == CUSHIM_OK ? proven : status;
    }
    return status;
}

/* ---- idle blocks that are over ---- */

/* One pass over all caches.  Moves blocks of a bucket that are over to the free lists, until
 * `bytes` are moved.  Bucket 0: blocks of any bucket that were freed no later than `last_epoch`. */
static size_t give_until(struct cushim_mem_streams *streams, size_t bucket_bytes,
                         uint64_t last_epoch, size_t bytes) {
    size_t n_bytes = 0;
    uint64_t life = cushim_mem_streams_life(streams);
    for (struct cushim_mem_stream_cache *cache = NULL;
         (cache = cushim_mem_streams_next(streams, cache)) && n_bytes < bytes;) {
        struct cushim_mem_stream_block *block;
        while (n_bytes < bytes &&
               (block = bucket_bytes
                            ? cushim_mem_stream_cache_take(cache, bucket_bytes, 0)
                            : cushim_mem_stream_cache_pop_earliest(cache, last_epoch, true))) {
            n_bytes += block->bucket_bytes;
            atomic_fetch_add_explicit(&streams->n_evicted, 1, memory_order_relaxed);
            cushim_mem_stream_block_give(block, life);
        }
    }
    if (n_bytes)
        cushim_mem_streams_look(streams, 0);
    return n_bytes;
}

/*
 * Epochs tell the age of blocks in all caches.  Instead of searching for the cache with the oldest
 * block each time, passes over the caches take younger and younger blocks: each leaves out half as
 * many recent epochs as the one before.
 */
size_t cushim_mem_streams_reclaim(struct cushim_mem_streams *streams, size_t bytes,
                                  enum cushim_mem_effort effort) {
    enum { N_PASSES = 8 };
    size_t n_bytes = 0;
    cushim_mem_streams_prove(streams, effort);
    uint64_t now = cushim_mem_fence_tag(streams->heap->fence);
    for (unsigned i = N_PASSES; i-- > 0 && n_bytes < bytes;) {
        uint64_t reach = i ? (uint64_t)N_BATCHES << i : 0;
        if (!i || now > reach)
            n_bytes += give_until(streams, 0, i ? now - reach : UINT64_MAX, bytes - n_bytes);
    }
    return n_bytes;
}

size_t cushim_mem_streams_reclaim_bucket(struct cushim_mem_streams *streams, size_t bucket_bytes,
                                         size_t bytes) {
    return give_until(streams, bucket_bytes, 0, bytes);
}

void cushim_mem_streams_empty(struct cushim_mem_streams *streams) {
    bool may_wait = !cushim_mem_streams_has_capture(streams);
    uint64_t life = cushim_mem_streams_life(streams);
    for (struct cushim_mem_stream_cache *cache = NULL;
         (cache = cushim_mem_streams_next(streams, cache));) {
        struct cushim_mem_stream_block *block;
        cushim_futex_lock_enter(&cache->lock);
        atomic_fetch_add(&cache->life, 2); /* no fast path adds a block from here on */
        cushim_futex_lock_leave(&cache->lock);
        if (may_wait)
            cushim_mem_stream_cache_prove(cache, CUSHIM_MEM_WAIT);
        while ((block = cushim_mem_stream_cache_pop_earliest(cache, UINT64_MAX, false)))
            cushim_mem_stream_block_give(block, life);
        cushim_mem_stream_cache_forget(cache);
    }
}

/* ---- how much the heap may hold ---- */

size_t cushim_mem_streams_idle_bytes(const struct cushim_mem_streams *streams) {
    size_t n_bytes = 0;
    for (struct cushim_mem_stream_cache *cache = NULL;
         (cache = cushim_mem_streams_next(streams, cache));)
        n_bytes += cache->idle_bytes;
    return n_bytes;
}

size_t cushim_mem_streams_count_idle(const struct cushim_mem_streams *streams,
                                     size_t bucket_bytes) {
    size_t n = 0;
    for (struct cushim_mem_stream_cache *cache = NULL;
         (cache = cushim_mem_streams_next(streams, cache));)
        n += cushim_mem_stream_cache_count(cache, bucket_bytes);
    return n;
}

void cushim_mem_streams_look(struct cushim_mem_streams *streams, size_t fallen_bytes) {
    cushim_mem_watermark_see_cached(streams->heap, cushim_mem_streams_idle_bytes(streams),
                                    fallen_bytes);
}

/* The bytes by which live blocks exceed their requests, in all heaps of a device. */
static size_t wasted_bytes_of(int device) {
    int64_t n_bytes = 0;
    struct cushim_mem_streams *streams = NULL;
    while ((streams = cushim_mem_streams_next_used(streams))) {
        struct cushim_mem_stream_cache *cache = NULL;
        while (streams->heap->device == device &&
               (cache = cushim_mem_streams_next(streams, cache))) {
            cushim_futex_lock_enter(&cache->lock);
            n_bytes += cache->counts.live_bytes - cache->counts.asked_bytes;
            cushim_futex_lock_leave(&cache->lock);
        }
    }
    return n_bytes > 0 ? (size_t)n_bytes : 0;
}

size_t cushim_mem_streams_excess_bytes(struct cushim_mem_streams *streams, size_t more_bytes,
                                       size_t *waste_bytes) {
    struct cushim_mem_heap *heap = streams->heap;
    bool may_waste = more_bytes > CUSHIM_MEM_SLAB_LIMIT_BYTES && heap->kind == CUSHIM_MEM_DEVICE;
    size_t wasted_bytes = may_waste ? wasted_bytes_of(heap->device) : 0;
    cushim_mem_watermark_ask(heap);
    cushim_mem_streams_look(streams, 0);
    pthread_mutex_lock(&heap->lock);
    size_t excess_bytes =
        cushim_less(heap->held_bytes + more_bytes, cushim_mem_watermark_with(heap, more_bytes));
    *waste_bytes = excess_bytes && may_waste
                       ? cushim_mem_watermark_waste_bytes(heap, more_bytes, wasted_bytes)
                       : 0;
    pthread_mutex_unlock(&heap->lock);
    return excess_bytes;
}

void cushim_mem_streams_settle(struct cushim_mem_streams *streams) {
    enum { FAR = 8 }; /* this part of what is held is worth a wait */
    struct cushim_mem_heap *heap = streams->heap;
    size_t waste_bytes, excess_bytes = cushim_mem_streams_excess_bytes(streams, 0, &waste_bytes);
    if (!excess_bytes || cushim_mem_streams_has_capture(streams))
        return;
    cushim_mem_streams_reclaim(streams, excess_bytes, CUSHIM_MEM_ASK);
    size_t free_bytes = atomic_load_explicit(&heap->free_segment_bytes, memory_order_relaxed);
    if (free_bytes && excess_bytes > heap->held_bytes / FAR)
        cushim_mem_reclaim_trim(heap, cushim_less(free_bytes, excess_bytes));
    else if (free_bytes)
        cushim_mem_reclaim_quietly(heap, heap->held_bytes - cushim_least(free_bytes, excess_bytes));
}

/*
 * The free lists cannot tell an idle small block in a cache from a live one.  So they would put new
 * small blocks into the gaps between idle ones, perhaps one into each page of the driver, and the
 * idle memory could never go back.  A cache that has more idle small blocks than a thread's cache
 * may have gives back those that are over first.
 */
void cushim_mem_streams_unpin(struct cushim_mem_streams *streams) {
    enum { LEAST_BYTES = 4 << 20, SHARE = 2048 }; /* of the device */
    size_t most_bytes = cushim_most(LEAST_BYTES, streams->heap->watermark.device_bytes / SHARE);
    uint64_t life = cushim_mem_streams_life(streams);
    if (cushim_mem_streams_has_capture(streams))
        return;
    for (struct cushim_mem_stream_cache *cache = NULL;
         (cache = cushim_mem_streams_next(streams, cache));) {
        if (cache->idle_bytes <= most_bytes ||
            cushim_mem_stream_cache_small_bytes(cache) <= most_bytes)
            continue;
        cushim_mem_stream_cache_prove(cache, CUSHIM_MEM_RECORD);
        struct cushim_mem_stream_block *block = cushim_mem_stream_cache_pop_small(cache);
        while (block) {
            struct cushim_mem_stream_block *older = block->older;
            atomic_fetch_add_explicit(&streams->n_evicted, 1, memory_order_relaxed);
            cushim_mem_stream_block_give(block, life);
            block = older;
        }
    }
}
