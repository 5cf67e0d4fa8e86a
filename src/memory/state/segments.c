#include "memory/state/segments.h"

#include <utlist.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "cuda/current_context.h"
#include "cuda/translate.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"

struct cushim_mem_transits cushim_mem_transits;

/* What the device's memory is charged to; the host's is not. */
static struct cushim_mem_limit *budget_of(const struct cushim_mem_heap *pool) {
    struct cushim_mem_limit *budgets = pool->policy->budgets;
    return budgets && pool->kind != CUSHIM_MEM_PINNED ? &budgets[pool->device] : NULL;
}

static void tell(struct cushim_mem_heap *pool, uint64_t base, size_t n_bytes, bool is_there) {
    if (pool->policy->segment_moved)
        pool->policy->segment_moved(pool, base, n_bytes, is_there);
}

static struct cushim_mem_provider_client client_of(const struct cushim_mem_heap *pool) {
    return (struct cushim_mem_provider_client){
        .cuda = pool->cuda,
        .device = pool->device,
        .flags = pool->flags,
        .n_segments = cushim_mem_stats_read(&pool->stats->n_segments),
    };
}

static CUresult release_to(struct cushim_mem_heap *pool, uint64_t base, size_t n_bytes) {
    struct cushim_mem_provider_client client = client_of(pool);
    return pool->source->release(&client, base, n_bytes);
}

/* What the driver said when it last refused the calling thread. */
static _Thread_local CUresult refusal __attribute__((tls_model("initial-exec")));

CUresult cushim_mem_segments_refusal(void) {
    return refusal;
}

/*
 * is_relaxed: a free of our own choosing; else one that stands for the caller's.  Behind *stream,
 * where that is not NULL: then the caller's own context stays current, whose default streams are
 * meant.
 */
static CUresult native_free(struct cushim_mem_heap *pool, uint64_t base, size_t n_bytes,
                            const CUstream *stream, bool is_relaxed) {
    CUresult answer = CUDA_SUCCESS;
    uint64_t start_ns = cushim_clock_ns();
    bool has_entered = !stream && cushim_current_context_enter(pool->cuda, pool->context, &answer);
    if (answer != CUDA_SUCCESS)
        return answer;
    tell(pool, base, n_bytes, false);
    if (stream) {
        answer = pool->cuda->cuMemFreeAsync(base, *stream);
    } else if (is_relaxed) {
        CUstreamCaptureMode mode = cushim_mode_relaxed(pool->cuda);
        answer = release_to(pool, base, n_bytes);
        cushim_mode_back(pool->cuda, mode);
    } else {
        answer = release_to(pool, base, n_bytes);
    }
    if (has_entered)
        cushim_current_context_leave(pool->cuda);
    if (answer == CUDA_SUCCESS)
        cushim_mem_limit_refund(budget_of(pool), n_bytes);
    else
        tell(pool, base, n_bytes, true);
    cushim_mem_stats_add(&pool->stats->n_native_frees, 1);
    cushim_mem_stats_add_time(pool->stats, &pool->stats->native_free_ns, start_ns);
    log_debug("memory", "device %d: a segment of size %zu given back to the driver: %s",
              pool->device, n_bytes, answer == CUDA_SUCCESS ? "done" : "refused");
    return answer;
}

/* How far the page map leads to the segment: what lies behind its blocks, but in what the driver
 * gave, belongs to none of them and to nobody else. */
static size_t reach(const struct cushim_mem_heap *pool, const struct cushim_mem_segment *segment) {
    return cushim_mem_provider_reach(pool->source, segment->n_bytes);
}

static void link_segment(struct cushim_mem_heap *pool, struct cushim_mem_segment *segment) {
    DL_PREPEND2(pool->segments, segment, previous, next);
    cushim_mem_heap_count(pool, 0, (ptrdiff_t)segment->n_bytes);
    cushim_mem_stats_grow_held(pool->stats, segment->n_bytes);
    cushim_mem_stats_add(&pool->stats->n_segments, 1);
}

static void unlink_segment(struct cushim_mem_heap *pool, struct cushim_mem_segment *segment) {
    DL_DELETE2(pool->segments, segment, previous, next);
    cushim_mem_heap_count(pool, 0, -(ptrdiff_t)segment->n_bytes);
    cushim_mem_stats_subtract(&pool->stats->held_bytes, segment->n_bytes);
    cushim_mem_stats_subtract(&pool->stats->n_segments, 1);
}

enum cushim_status cushim_mem_segments_fetch(struct cushim_mem_heap *pool, size_t n_bytes,
                                             uint64_t *base) {
    struct cushim_mem_limit *budget = budget_of(pool);
    struct cushim_mem_provider_client client = client_of(pool);
    if (!cushim_mem_limit_charge(budget, n_bytes))
        return CUSHIM_NOMEM;
    uint64_t start_ns = cushim_clock_ns();
    CUstreamCaptureMode mode = cushim_mode_relaxed(pool->cuda);
    CUresult answer = pool->source->obtain(&client, n_bytes, base);
    cushim_mode_back(pool->cuda, mode);
    cushim_mem_stats_add(&pool->stats->n_native_allocs, 1);
    cushim_mem_stats_add_time(pool->stats, &pool->stats->native_alloc_ns, start_ns);
    log_debug("memory", "device %d: memory of size %zu asked of the driver: %s", pool->device,
              n_bytes, answer == CUDA_SUCCESS ? "a new segment" : "refused");
    if (answer == CUDA_SUCCESS) {
        tell(pool, *base, n_bytes, true);
    } else {
        cushim_mem_limit_refund(budget, n_bytes);
        refusal = answer;
    }
    return cushim_status_from_cu(answer);
}

void cushim_mem_segments_put_back(struct cushim_mem_heap *pool, uint64_t base, size_t n_bytes) {
    native_free(pool, base, n_bytes, NULL, true);
}

struct cushim_mem_extent *cushim_mem_segments_enter(struct cushim_mem_heap *pool, uint64_t base,
                                                    size_t n_bytes, bool is_dedicated) {
    struct cushim_mem_segment *segment =
        cushim_mem_segment_create(&pool->meta, base, n_bytes, is_dedicated);
    if (!segment)
        return NULL;
    segment->pool = pool;
    segment->guard_bytes = (uint32_t)pool->guard_bytes;
    segment->generation = atomic_load(&pool->generation);
    struct cushim_mem_extent *extent = &segment->first;
    if (is_dedicated)
        cushim_mem_extent_make_block(extent, n_bytes);
    /* the page map last: from here on look-ups see the segment */
    if (cushim_mem_pagemap_set(&pool->ledger->map, base, reach(pool, segment), segment) !=
        CUSHIM_OK) {
        cushim_mem_segment_destroy(&pool->meta, segment);
        return NULL;
    }
    link_segment(pool, segment);
    cushim_mem_watermark_note_fetched(pool, n_bytes);
    if (is_dedicated)
        cushim_mem_watermark_count_taken(pool, n_bytes);
    else
        cushim_mem_free_lists_put_back(pool, segment);
    return extent;
}

/* Nobody finds the segment any more; for this no lock is needed. */
static void erase(struct cushim_mem_heap *pool, struct cushim_mem_segment *segment) {
    cushim_mem_pagemap_clear(&pool->ledger->map, segment->base, reach(pool, segment), segment);
}

struct cushim_mem_segment *cushim_mem_segments_detach(struct cushim_mem_heap *pool,
                                                      size_t target_bytes) {
    struct cushim_mem_segment *list = NULL;
    while (pool->bound.oldest_free && pool->held_bytes > target_bytes) {
        struct cushim_mem_segment *segment = pool->bound.oldest_free;
        cushim_mem_free_lists_remove(pool, segment);
        unlink_segment(pool, segment);
        segment->next = list;
        list = segment;
    }
    return list;
}

/*
 * Under the lock: the driver did not take the segment, so it is ours as before; but not where its
 * context went meanwhile, and its memory with it: then it is false.
 */
static bool put_back(struct cushim_mem_heap *pool, struct cushim_mem_segment *segment) {
    if (segment->generation != atomic_load(&pool->generation)) {
        cushim_mem_segment_destroy(&pool->meta, segment);
        return false;
    }
    /* cannot fail: the tables of the map are there since the segment was entered */
    cushim_mem_pagemap_set(&pool->ledger->map, segment->base, reach(pool, segment), segment);
    link_segment(pool, segment);
    return true;
}

/* Not where the context went since the segment was detached: its addresses are another's. */
static CUresult release_held(struct cushim_mem_heap *pool, struct cushim_mem_segment *segment) {
    const struct cushim_mem_policy *policy = pool->policy;
    CUresult answer = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (policy->hold && !policy->hold(pool))
        return answer;
    if (segment->generation == atomic_load(&pool->generation))
        answer = native_free(pool, segment->base, segment->n_bytes, NULL, true);
    if (policy->let)
        policy->let(pool);
    return answer;
}

size_t cushim_mem_segments_release(struct cushim_mem_heap *pool, struct cushim_mem_segment *list) {
    size_t released_bytes = 0;
    while (list) {
        struct cushim_mem_segment *segment = list;
        list = segment->next;
        atomic_fetch_add(&cushim_mem_transits.n_begun, 1);
        erase(pool, segment); /* before the driver has its addresses again */
        CUresult answer = release_held(pool, segment);
        pthread_mutex_lock(&pool->lock);
        if (answer == CUDA_SUCCESS) {
            released_bytes += segment->n_bytes;
            cushim_mem_watermark_note_returned(pool, segment->n_bytes);
            cushim_mem_segment_destroy(&pool->meta, segment);
        } else if (put_back(pool, segment)) {
            cushim_mem_free_lists_put_back(pool, segment);
        }
        pthread_mutex_unlock(&pool->lock);
        atomic_fetch_add(&cushim_mem_transits.n_ended, 1);
    }
    return released_bytes;
}

enum cushim_status cushim_mem_segments_free(struct cushim_mem_heap *pool,
                                            struct cushim_mem_segment *segment,
                                            const CUstream *stream, CUresult *answer) {
    pthread_mutex_lock(&pool->lock);
    unlink_segment(pool, segment);
    pthread_mutex_unlock(&pool->lock);
    atomic_fetch_add(&cushim_mem_transits.n_begun, 1);
    erase(pool, segment);
    *answer = native_free(pool, segment->base, segment->n_bytes, stream, false);
    pthread_mutex_lock(&pool->lock);
    if (*answer != CUDA_SUCCESS) {
        put_back(pool, segment);
    } else {
        if (segment->generation == atomic_load(&pool->generation))
            cushim_mem_heap_count(pool, -(ptrdiff_t)segment->first.block_bytes, 0);
        cushim_mem_segment_destroy(&pool->meta, segment);
    }
    pthread_mutex_unlock(&pool->lock);
    atomic_fetch_add(&cushim_mem_transits.n_ended, 1);
    return cushim_status_from_cu(*answer);
}

/* The context went: no look-up finds its blocks, and none of them counts as live. */
static void forget_blocks(struct cushim_mem_heap *pool, struct cushim_mem_extent *extent) {
    cushim_mem_pagemap_note_slab(&pool->ledger->map, extent, false);
    for (uint32_t i = 0; i < extent->n_cells; i++) {
        const struct cushim_mem_block_meta *cell = &extent->cells[i];
        if (cushim_mem_state_of(atomic_load_explicit(&cell->state, memory_order_relaxed)) !=
            CUSHIM_MEM_LIVE)
            continue;
        cushim_mem_stats_subtract(&pool->stats->live_bytes,
                                  atomic_load_explicit(&cell->asked_bytes, memory_order_relaxed));
        cushim_mem_stats_subtract(&pool->stats->block_bytes, extent->block_bytes);
    }
}

void cushim_mem_segments_abandon(struct cushim_mem_heap *pool) {
    cushim_mem_stats_subtract(&pool->stats->free_segment_bytes, pool->free_segment_bytes);
    while (pool->segments) {
        struct cushim_mem_segment *segment = pool->segments;
        cushim_mem_limit_refund(budget_of(pool), segment->n_bytes);
        /* addresses of managed and pinned memory may become the program's own host memory */
        if (pool->kind == CUSHIM_MEM_DEVICE)
            cushim_mem_pagemap_vacate(&pool->ledger->map, segment->base, segment->n_bytes);
        for (struct cushim_mem_extent *extent = &segment->first; extent; extent = extent->after)
            forget_blocks(pool, extent);
        erase(pool, segment);
        unlink_segment(pool, segment);
        if (pool->source->outlives_context) /* which waits for nothing */
            release_to(pool, segment->base, segment->n_bytes);
        cushim_mem_segment_destroy(&pool->meta, segment);
    }
}
