/* How a heap takes blocks back: at once behind a wait (exact), or without one (relaxed). */
#include "memory/free.h"

#include "base/try.h"
#include "cuda/table.h"
#include "cuda/translate.h"
#include "memory/cache/cache.h"
#include "memory/heap.h"
#include "memory/reclaim.h"
#include "memory/arena.h"
#include "memory/graph_resources.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"
#include "memory/state/segments.h"

/* ---- the fast path ---- */

static CUresult end_waited(struct cushim_mem_heap *heap, const struct cushim_mem_lookup *lookup,
                           uint64_t life, size_t asked_bytes, CUresult answer);

static void __attribute__((noinline)) shrink_if_stale(struct cushim_mem_heap *heap) {
    uint64_t life = cushim_mem_heap_life(heap);
    if (life && cushim_mem_heap_is_stale(heap))
        cushim_mem_reclaim_shrink(heap, life, cushim_mem_fence_tag(heap->fence), false);
}

/*
 * The slab in which a block may begin at an address.  The page map has the slabs that have a page
 * alone.  If a block of a page or more begins with the page, no other slab has the page, so large
 * blocks are found at once.  Few smaller blocks take the longer way.
 */
static inline struct cushim_mem_extent *slab_at(struct cushim_mem_blocks *blocks,
                                                uint64_t address) {
    struct cushim_mem_extent *slab = cushim_mem_pagemap_slab(&blocks->map, address);
    return slab || address % CUSHIM_MEM_PAGE_BYTES == 0 ? slab
                                                        : cushim_mem_blocks_slab(blocks, address);
}

/*
 * The block that starts at an address, if it is in a slab and its heap allows the fast path for
 * this entry.  It finds what the table of blocks would, in fewer steps.  The exchange shows whether
 * the block is LIVE.
 */
static inline bool find(struct cushim_mem_blocks *blocks, uint64_t address,
                        enum cushim_mem_free_entry entry, struct cushim_mem_lookup *lookup) {
    struct cushim_mem_extent *slab = slab_at(blocks, address);
    if (!slab || load_acquire(&slab->kind) != CUSHIM_MEM_EXTENT_SLAB)
        return false;
    lookup->segment = slab->segment;
    const struct cushim_mem_heap *heap = lookup->segment->heap;
    return cushim_mem_blocks_find_in_slab(lookup->segment, slab, address, lookup) &&
           lookup->base == address && heap->quick_entry == entry && !load_relaxed(&heap->unheld);
}

/* The weight of a free among those without a fence; most_bytes is the limit of the thread. */
static inline size_t weight_of(size_t n_bytes, size_t most_bytes) {
    enum { MOST_BLOCKS = 1024 };
    return n_bytes + most_bytes / MOST_BLOCKS;
}

/* From now on frees are counted for the epoch `tag`. */
static inline void turn(struct cushim_mem_unfenced *unfenced, uint64_t tag, size_t most_bytes) {
    if (unfenced->tag != tag)
        *unfenced = (struct cushim_mem_unfenced){.tag = tag, .due_bytes = most_bytes / 2};
}

/*
 * The block goes into the cache, which is taken, if there is room and no fence is due.  LIVE ->
 * DEFERRED as in `begin`: if several threads free it, one gets it, and the epoch is read after that
 * exchange.  If a fence was made since the look, the block counts for the epoch before.
 */
static inline bool give(struct cushim_mem_cache *cache, const struct cushim_mem_fence *fence,
                        const struct cushim_mem_lookup *lookup) {
    struct cushim_mem_cache_bucket *bucket = &cache->buckets[lookup->ref.extent->class_index];
    struct cushim_mem_unfenced *unfenced = &cache->unfenced;
    size_t asked_bytes = load_relaxed(&lookup->meta->asked_bytes);
    uint32_t live = CUSHIM_MEM_LIVE;
    turn(unfenced, atomic_load(&fence->open), cache->limit_bytes);
    size_t unfenced_bytes = unfenced->n_bytes + weight_of(asked_bytes, cache->limit_bytes);
    if (unfenced_bytes >= unfenced->due_bytes || !cushim_mem_cache_has_room(cache, bucket) ||
        !atomic_compare_exchange_strong(&lookup->meta->state, &live, CUSHIM_MEM_DEFERRED))
        return false;
    unfenced->n_bytes = unfenced_bytes;
    cushim_mem_cache_put(cache, bucket, lookup->meta, lookup->base, atomic_load(&fence->open));
    /* read now, because another life of the block may have been looked up */
    asked_bytes = load_relaxed(&lookup->meta->asked_bytes);
    cushim_mem_cache_count_free(cache, asked_bytes, lookup->block_bytes);
    return true;
}

/* All work on the block is over: it goes into the cache, which is taken, and is free, if it
 * fits. */
static inline bool give_proven(struct cushim_mem_cache *cache,
                               const struct cushim_mem_lookup *lookup, size_t asked_bytes) {
    struct cushim_mem_cache_bucket *bucket = &cache->buckets[lookup->ref.extent->class_index];
    if (!cushim_mem_cache_has_room(cache, bucket))
        return false;
    cushim_mem_cache_put(cache, bucket, lookup->meta, lookup->base, 0);
    store_release(&lookup->meta->state, CUSHIM_MEM_FREE);
    cushim_mem_cache_count_free(cache, asked_bytes, lookup->block_bytes);
    return true;
}

static inline void end(struct cushim_mem_heap *heap) {
    if (load_relaxed(&heap->has_slack))
        shrink_if_stale(heap);
}

/* The slow path waits if there is an effect that the host could see. */
bool cushim_mem_free_fast(struct cushim_mem_blocks *blocks, uint64_t address,
                          enum cushim_mem_free_entry entry) {
    struct cushim_mem_lookup lookup;
    if (!find(blocks, address, entry, &lookup))
        return false;
    struct cushim_mem_heap *heap = lookup.segment->heap;
    const struct cushim_mem_fence *fence = heap->fence;
    if (atomic_load(&fence->effect) > load_acquire(&fence->done))
        return false;
    uint64_t life = load_acquire(&heap->quick_life);
    struct cushim_mem_cache *cache = cushim_mem_cache_recent;
    if (!cushim_mem_cache_take_of(cache, heap, life))
        return false;
    bool is_given = give(cache, fence, &lookup);
    cushim_mem_cache_leave(cache);
    if (is_given)
        end(heap);
    return is_given;
}

/*
 * Claim, wait, give.  After the claim there is no way back, because the context may go during the
 * wait, and a block of the next life may start at that address.  So the life is read before the
 * claim, the cache must be of that life, and otherwise the free ends as the slow path does.  If
 * blocks are deferred, the slow path closes an epoch, so that its wait covers them as well.
 */
int cushim_mem_free_fast_behind_wait(struct cushim_mem_blocks *blocks, uint64_t address,
                                     enum cushim_mem_free_entry entry) {
    struct cushim_mem_lookup lookup;
    uint32_t live = CUSHIM_MEM_LIVE;
    CUresult answer;
    if (!find(blocks, address, entry, &lookup))
        return CUSHIM_MEM_FREE_DECLINED;
    struct cushim_mem_heap *heap = lookup.segment->heap;
    uint64_t life = load_acquire(&heap->quick_life);
    if (!life || load_relaxed(&heap->deferred.n_rows) ||
        !atomic_compare_exchange_strong(&lookup.meta->state, &live, CUSHIM_MEM_DEFERRED))
        return CUSHIM_MEM_FREE_DECLINED;
    size_t asked_bytes = load_relaxed(&lookup.meta->asked_bytes);
    bool is_over = cushim_mem_fence_wait(heap->fence, heap->stats, &answer) == CUSHIM_OK;
    struct cushim_mem_cache *cache = cushim_mem_cache_recent;
    bool is_taken = is_over && cushim_mem_cache_take_of(cache, heap, life);
    bool is_given = is_taken && give_proven(cache, &lookup, asked_bytes);
    if (is_taken)
        cushim_mem_cache_leave(cache);
    if (!is_given)
        return (int)end_waited(heap, &lookup, life, asked_bytes, answer);
    end(heap);
    return CUDA_SUCCESS;
}

/* ---- the slow path ---- */

/* One free under way. */
struct freeing {
    struct cushim_mem_heap *heap;
    const struct cushim_mem_lookup *lookup;
    struct cushim_mem_stats *stats; /* of the block's life */
    uint64_t life;
    size_t asked_bytes; /* of the block now; another life of it may have been looked up */
    uint32_t live;      /* the state word before the free */
    bool has_waited;    /* for all work of the context, by the driver's barrier */
    CUresult *answer;
};

static enum cushim_status begin(struct freeing *freeing, struct cushim_mem_heap *heap,
                                const struct cushim_mem_lookup *lookup, CUresult *answer) {
    *answer = CUDA_SUCCESS;
    *freeing = (struct freeing){.heap = heap,
                                .lookup = lookup,
                                .stats = heap->stats,
                                .life = cushim_mem_heap_life(heap),
                                .answer = answer};
    if (!freeing->life)
        return CUSHIM_STATE;
    /* LIVE -> DEFERRED: if several threads free the same block, one gets it.  It is sequentially
     * consistent, because the epoch is read after it */
    freeing->live = CUSHIM_MEM_LIVE;
    while (!atomic_compare_exchange_strong(&lookup->meta->state, &freeing->live,
                                           CUSHIM_MEM_DEFERRED |
                                               (freeing->live & CUSHIM_MEM_BLOCK_SHOWN))) {
        if (cushim_mem_state_of(freeing->live) != CUSHIM_MEM_LIVE)
            return CUSHIM_DOUBLEFREE;
    }
    freeing->asked_bytes = load_relaxed(&lookup->meta->asked_bytes);
    if (freeing->live & CUSHIM_MEM_BLOCK_RECORDED)
        heap->policy->block_moved(heap, lookup, true);
    return CUSHIM_OK;
}

/* Count a free in the cache, or in the counters that all share. */
static void count(const struct freeing *freeing, struct cushim_mem_cache *cache) {
    struct cushim_mem_stats *stats = freeing->stats;
    if (cache) {
        cushim_mem_cache_count_free(cache, freeing->asked_bytes, freeing->lookup->block_bytes);
        return;
    }
    atomic_fetch_add_explicit(&stats->n_frees, 1, memory_order_release);
    cushim_mem_stats_subtract(&stats->block_bytes, freeing->lookup->block_bytes);
    cushim_mem_stats_subtract(&stats->live_bytes, freeing->asked_bytes);
}

/* Count in the thread's cache, as the request was counted, because otherwise the gauge would fall
 * without having risen. */
static void count_apart(const struct freeing *freeing) {
    struct cushim_mem_cache *cache = cushim_mem_cache_take(freeing->heap, freeing->life);
    count(freeing, cache);
    if (cache)
        cushim_mem_cache_leave(cache);
}

/* The context went while the block was being freed, and the block with it. */
static enum cushim_status end_gone(const struct freeing *freeing) {
    count(freeing, NULL);
    *freeing->answer = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return CUSHIM_DEADCONTEXT;
}

/* The driver refused: the block is LIVE as before. */
static enum cushim_status end_refused(const struct freeing *freeing) {
    if (!cushim_mem_heap_lock_life(freeing->heap, freeing->life))
        return end_gone(freeing);
    cushim_mem_heap_note_damage(freeing->heap, *freeing->answer);
    if (freeing->live & CUSHIM_MEM_BLOCK_RECORDED)
        freeing->heap->policy->block_moved(freeing->heap, freeing->lookup, false);
    store_release(&freeing->lookup->meta->state, freeing->live);
    pthread_mutex_unlock(&freeing->heap->lock);
    return cushim_status_from_cu(*freeing->answer);
}

/* ---- taking a block back ---- */

static inline bool is_cacheable(const struct cushim_mem_lookup *lookup) {
    return load_relaxed(&lookup->ref.extent->kind) == CUSHIM_MEM_EXTENT_SLAB &&
           !cushim_mem_block_is_shown(lookup->meta);
}

/* Put the block into the cache, which is taken.  With tag 0 it is free from here on. */
static bool push(const struct freeing *freeing, struct cushim_mem_cache *cache, uint64_t tag) {
    const struct cushim_mem_lookup *lookup = freeing->lookup;
    unsigned class_index = lookup->ref.extent->class_index;
    struct cushim_mem_cache_bucket *bucket = &cache->buckets[class_index];
    if (!cushim_mem_cache_has_room(cache, bucket)) {
        uint64_t done = tag ? cushim_mem_fence_done(freeing->heap->fence) : UINT64_MAX;
        if (!cushim_mem_cache_make_room(cache, class_index, done))
            return false;
    }
    cushim_mem_cache_put(cache, bucket, lookup->meta, lookup->base - freeing->heap->guard_bytes,
                         tag);
    if (!tag)
        store_release(&lookup->meta->state, CUSHIM_MEM_FREE);
    return true;
}

/* Put the block into the free lists, or defer it.  The caller holds the lock. */
static bool put(const struct freeing *freeing, uint64_t tag) {
    struct cushim_mem_heap *heap = freeing->heap;
    const struct cushim_mem_lookup *lookup = freeing->lookup;
    if (tag > cushim_mem_fence_done(heap->fence))
        return cushim_mem_deferred_add(&heap->deferred, &heap->meta, &lookup->ref, tag);
    cushim_mem_heap_give(heap, &lookup->ref);
    return true;
}

/* After the block was kept: deferred blocks that a wait has covered become free, and excess memory
 * goes back. */
static void tidy(const struct freeing *freeing, bool is_stale, uint64_t tag) {
    struct cushim_mem_heap *heap = freeing->heap;
    if (freeing->has_waited && load_relaxed(&heap->deferred.n_rows) &&
        cushim_mem_heap_lock_life(heap, freeing->life)) {
        cushim_mem_heap_give_deferred(heap);
        is_stale = heap->held_bytes > cushim_mem_watermark_now(heap);
        pthread_mutex_unlock(&heap->lock);
    }
    if (is_stale)
        cushim_mem_reclaim_shrink(heap, freeing->life, tag, freeing->has_waited);
}

/*
 * The heap keeps the block: all work on it is over (tag 0), or will be when the epoch `tag` is
 * done.  CUSHIM_NOMEM: host memory is out, so it could not be noted and is still DEFERRED.  `cache`
 * is taken, or NULL; it is left here.
 */
static enum cushim_status keep(const struct freeing *freeing, struct cushim_mem_cache *cache,
                               uint64_t tag) {
    struct cushim_mem_heap *heap = freeing->heap;
    enum cushim_status status = CUSHIM_OK;
    bool is_stale = false, is_of_arena = cushim_mem_arena_serves(&freeing->lookup->ref);
    if (is_of_arena || (cache && is_cacheable(freeing->lookup) && push(freeing, cache, tag))) {
        is_stale = cushim_mem_heap_is_stale(heap) || cushim_mem_watermark_seems_far(heap);
    } else if (cushim_mem_heap_lock_life(heap, freeing->life)) {
        status = put(freeing, tag) ? CUSHIM_OK : CUSHIM_NOMEM;
        is_stale = heap->held_bytes > cushim_mem_watermark_now(heap);
        pthread_mutex_unlock(&heap->lock);
    } else {
        status = end_gone(freeing);
    }
    if (status == CUSHIM_OK)
        count(freeing, cache);
    if (cache)
        cushim_mem_cache_leave(cache);
    if (is_of_arena) /* the arena may record a fence, so no cache may be taken */
        cushim_mem_arena_give(heap, &freeing->lookup->ref, tag);
    tidy(freeing, is_stale, tag);
    return status;
}

/* ---- exact ---- */

/* The wait failed.  If memory for the barrier was out, the block stays deferred; otherwise it is
 * LIVE again.
 */
static enum cushim_status end_failed_wait(const struct freeing *freeing) {
    struct cushim_mem_heap *heap = freeing->heap;
    if (*freeing->answer != CUDA_ERROR_OUT_OF_MEMORY)
        return end_refused(freeing);
    if (!cushim_mem_heap_lock_life(heap, freeing->life))
        return end_gone(freeing);
    bool is_kept = cushim_mem_deferred_add(&heap->deferred, &heap->meta, &freeing->lookup->ref,
                                           cushim_mem_fence_tag(heap->fence));
    pthread_mutex_unlock(&heap->lock);
    if (!is_kept)
        return end_refused(freeing);
    count_apart(freeing);
    *freeing->answer = CUDA_SUCCESS;
    return CUSHIM_OK;
}

static enum cushim_status wait(const struct freeing *freeing) {
    const struct cushim_mem_heap *heap = freeing->heap;
    return cushim_mem_fence_wait(heap->fence, heap->stats, freeing->answer);
}

/* The wait is over, or failed. */
static enum cushim_status end_wait(struct freeing *freeing) {
    struct cushim_mem_heap *heap = freeing->heap;
    bool is_over = *freeing->answer == CUDA_SUCCESS;
    /* while a capture is open the barrier needs a little memory, so free segments are given back
     * for it */
    if (*freeing->answer == CUDA_ERROR_OUT_OF_MEMORY && cushim_mem_reclaim_trim(heap, 0))
        is_over = wait(freeing) == CUSHIM_OK;
    if (!is_over)
        return end_failed_wait(freeing);
    freeing->has_waited = true;
    return keep(freeing, cushim_mem_cache_take(heap, freeing->life), 0);
}

static enum cushim_status release_exact(struct freeing *freeing) {
    wait(freeing);
    return end_wait(freeing);
}

/* ---- relaxed ---- */

/* Wait for an effect, and count such waits separately. */
static enum cushim_status await_effect(const struct freeing *freeing, uint64_t effect) {
    struct cushim_mem_heap *heap = freeing->heap;
    struct cushim_mem_waits before = cushim_mem_waits_of_thread;
    enum cushim_status status =
        cushim_mem_fence_await(heap->fence, effect, 0, heap->stats, freeing->answer);
    const struct cushim_mem_waits *now = &cushim_mem_waits_of_thread;
    cushim_mem_stats_add(&heap->stats->n_effect_waits, now->n - before.n);
    cushim_mem_stats_add(&heap->stats->effect_wait_ns, now->ns - before.ns);
    return status;
}

/* What a free without a wait still has to do: wait for effects that the host could see, and make a
 * fence when it is due. */
static enum cushim_status settle(struct freeing *freeing, enum cushim_mem_due due) {
    struct cushim_mem_heap *heap = freeing->heap;
    uint64_t effect = cushim_mem_fence_effect(heap->fence);
    enum cushim_status status = CUSHIM_OK;
    if (effect)
        status = await_effect(freeing, effect);
    if (due && status == CUSHIM_OK)
        status = cushim_mem_deferred_batch_fence(heap, due, freeing->answer);
    /* an open capture allows no fence, and a driver before 12.5 has none; if much is deferred, the
     * free uses the driver's barrier */
    if (status == CUSHIM_NOTREADY &&
        (heap->fence->guard->is_open() || !heap->cuda->cuCtxRecordEvent) &&
        load_relaxed(&heap->deferred.n_bytes) + freeing->lookup->block_bytes >=
            CUSHIM_MEM_HEAP_SLACK_BYTES) {
        status = cushim_mem_fence_await(heap->fence, cushim_mem_fence_tag(heap->fence), 0,
                                        heap->stats, freeing->answer);
        freeing->has_waited = status == CUSHIM_OK;
    }
    /* if memory is out, or a fence is not possible now, the block waits for a later fence */
    if (status == CUSHIM_OK || status == CUSHIM_NOMEM || status == CUSHIM_NOTREADY) {
        *freeing->answer = CUDA_SUCCESS;
        return CUSHIM_OK;
    }
    return end_refused(freeing);
}

/* Count a free.  Is a fence due? */
static enum cushim_mem_due count_unfenced(struct cushim_mem_unfenced *unfenced, uint64_t tag,
                                          size_t n_bytes, size_t most_bytes) {
    enum { STEPS = 16 };
    turn(unfenced, tag, most_bytes);
    unfenced->n_bytes += weight_of(n_bytes, most_bytes);
    if (unfenced->n_bytes < unfenced->due_bytes)
        return CUSHIM_MEM_NOT_DUE;
    /* so that the next frees do not all try again, whatever the result */
    unfenced->due_bytes = unfenced->n_bytes + most_bytes / STEPS;
    return unfenced->n_bytes < most_bytes ? CUSHIM_MEM_DUE : CUSHIM_MEM_PRESSING;
}

static enum cushim_status release_relaxed(struct freeing *freeing) {
    struct cushim_mem_heap *heap = freeing->heap;
    const struct cushim_mem_capture_guard *guard = heap->fence->guard;
    /* the driver refuses the free of a thread that captures, and so do we */
    if (guard->is_open() && cushim_mem_capture_guard_ask(guard) == CUSHIM_MEM_PASS_OWN)
        return release_exact(freeing);
    uint64_t tag = cushim_mem_fence_tag(heap->fence);
    bool has_effect = cushim_mem_fence_effect(heap->fence) != 0;
    struct cushim_mem_cache *cache = cushim_mem_cache_take(heap, freeing->life);
    enum cushim_mem_due due =
        cache ? count_unfenced(&cache->unfenced, tag, freeing->asked_bytes, cache->limit_bytes)
              : CUSHIM_MEM_DUE;
    if (due || has_effect) { /* these are driver calls, so no cache may be taken */
        if (cache) {
            cushim_mem_cache_refresh_limit(cache);
            cushim_mem_cache_leave(cache);
        }
        CUSHIM_TRY(settle(freeing, due));
        cache = cushim_mem_cache_take(heap, freeing->life);
    }
    enum cushim_status status = keep(freeing, cache, tag);
    /* if host memory for the note is out, the block has to be free at once */
    return status == CUSHIM_NOMEM ? release_exact(freeing) : status;
}

/*
 * The last part of a fast free behind a wait: the block is DEFERRED, its heap had that life, and
 * the wait ended with `answer`.  Another block may have its metadata by now, so asked_bytes is
 * passed.  Returns the answer of the free.
 */
static CUresult end_waited(struct cushim_mem_heap *heap, const struct cushim_mem_lookup *lookup,
                           uint64_t life, size_t asked_bytes, CUresult answer) {
    struct freeing freeing = {
        .heap = heap,
        .lookup = lookup,
        .stats = heap->stats,
        .life = life,
        .asked_bytes = asked_bytes,
        .live = CUSHIM_MEM_LIVE,
        .answer = &answer,
    };
    struct cushim_mem_lookup now;
    /* it is another block if the context went between the look and the claim */
    if (!cushim_mem_blocks_find(heap->blocks, lookup->base, &now) || now.meta != lookup->meta ||
        now.ref.extent != lookup->ref.extent)
        end_gone(&freeing);
    else
        end_wait(&freeing);
    return answer;
}

/* ---- exported functions ---- */

enum cushim_status cushim_mem_free_claim(struct cushim_mem_heap *heap,
                                         const struct cushim_mem_lookup *lookup) {
    struct freeing freeing;
    CUresult answer;
    CUSHIM_TRY(begin(&freeing, heap, lookup, &answer));
    count_apart(&freeing);
    return CUSHIM_OK;
}

static enum cushim_status release_uncached(const struct freeing *freeing, const CUstream *stream) {
    if (cushim_mem_segments_free(freeing->heap, freeing->lookup->segment, stream,
                                 freeing->answer) != CUSHIM_OK)
        return end_refused(freeing);
    count_apart(freeing);
    return CUSHIM_OK;
}

enum cushim_status cushim_mem_free(struct cushim_mem_heap *heap,
                                   const struct cushim_mem_lookup *lookup, CUresult *answer) {
    struct freeing freeing;
    CUSHIM_TRY(begin(&freeing, heap, lookup, answer));
    if (cushim_mem_heap_is_uncached(heap, lookup->segment))
        return release_uncached(&freeing, NULL);
    if (cushim_mem_heap_has_unheld(heap))
        cushim_mem_graph_resources_take_back(heap);
    return heap->policy->is_relaxed ? release_relaxed(&freeing) : release_exact(&freeing);
}

enum cushim_status cushim_mem_free_on(struct cushim_mem_heap *heap,
                                      const struct cushim_mem_lookup *lookup, CUstream stream,
                                      CUresult *answer) {
    CUevent event;
    struct freeing freeing;
    CUSHIM_TRY(begin(&freeing, heap, lookup, answer));
    if (cushim_mem_heap_is_uncached(heap, lookup->segment) &&
        heap->provider == &cushim_mem_provider_device && heap->cuda->cuMemFreeAsync)
        return release_uncached(&freeing, &stream);
    *answer = cushim_mem_deferred_record(heap, stream, &event);
    if (*answer != CUDA_SUCCESS)
        return end_refused(&freeing);
    if (!cushim_mem_heap_lock_life(heap, freeing.life))
        return end_gone(&freeing);
    bool is_kept =
        cushim_mem_deferred_add_on(&heap->deferred, &heap->meta, &lookup->ref, stream, event);
    pthread_mutex_unlock(&heap->lock);
    if (is_kept) {
        count_apart(&freeing);
        return CUSHIM_OK;
    }
    heap->cuda->cuEventDestroy_v2(event);
    *answer = CUDA_ERROR_OUT_OF_MEMORY;
    return end_refused(&freeing);
}
