#include "memory/state/segments.h"

#include <utlist.h>

#include "base/log.h"
#include "cuda/current_context.h"
#include "cuda/translate.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"

struct cushim_mem_transits cushim_mem_transits;

/* The budget to which device memory is charged; NULL for other memory. */
static struct cushim_mem_limit *budget_of(const struct cushim_mem_heap *heap) {
    struct cushim_mem_limit *budgets = heap->policy->budgets;
    return budgets && heap->kind == CUSHIM_MEM_DEVICE ? &budgets[heap->device] : NULL;
}

static void tell(struct cushim_mem_heap *heap, uint64_t base, size_t n_bytes, bool is_there) {
    if (heap->policy->segment_moved)
        heap->policy->segment_moved(heap, base, n_bytes, is_there);
}

static struct cushim_mem_provider_client client_of(const struct cushim_mem_heap *heap) {
    return (struct cushim_mem_provider_client){
        .cuda = heap->cuda,
        .device = heap->device,
        .flags = heap->flags,
        .n_segments = cushim_mem_stats_read(&heap->stats->n_segments),
    };
}

static CUresult release_to(struct cushim_mem_heap *heap, uint64_t base, size_t n_bytes) {
    struct cushim_mem_provider_client client = client_of(heap);
    return heap->provider->release(&client, base, n_bytes);
}

/* The driver's answer when it last refused the calling thread. */
static _Thread_local CUresult refusal __attribute__((tls_model("initial-exec")));

CUresult cushim_mem_segments_refusal(void) {
    return refusal;
}

/*
 * If is_relaxed, we decided to free; if not, this free stands for the caller's.  If stream is not
 * NULL, the free is ordered after the work of *stream.  Then the caller's own context stays
 * current, because its default streams are meant.
 */
static CUresult native_free(struct cushim_mem_heap *heap, uint64_t base, size_t n_bytes,
                            const CUstream *stream, bool is_relaxed) {
    CUresult answer = CUDA_SUCCESS;
    uint64_t start_ns = cushim_clock_ns();
    bool has_entered = !stream && cushim_current_context_enter(heap->cuda, heap->context, &answer);
    if (answer != CUDA_SUCCESS)
        return answer;
    tell(heap, base, n_bytes, false);
    if (stream) {
        answer = heap->cuda->cuMemFreeAsync(base, *stream);
    } else {
        answer = is_relaxed ? CUSHIM_IN_RELAXED(heap->cuda, release_to(heap, base, n_bytes))
                            : release_to(heap, base, n_bytes);
    }
    if (has_entered)
        cushim_current_context_leave(heap->cuda);
    if (answer == CUDA_SUCCESS)
        cushim_mem_limit_refund(budget_of(heap), n_bytes);
    else
        tell(heap, base, n_bytes, true);
    cushim_mem_stats_add(&heap->stats->n_native_frees, 1);
    cushim_mem_stats_add_time(heap->stats, &heap->stats->native_free_ns, start_ns);
    log_debug("memory", "device %d: a segment of size %zu given back to the driver: %s",
              heap->device, n_bytes, answer == CUDA_SUCCESS ? "done" : "refused");
    return answer;
}

/* How many bytes of the page map lead to the segment.  Memory after its blocks that the driver gave
 * belongs to none of them, and to nobody else. */
static size_t reach(const struct cushim_mem_heap *heap, const struct cushim_mem_segment *segment) {
    return cushim_mem_provider_reach(heap->provider, segment->n_bytes);
}

static void link_segment(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment) {
    DL_PREPEND2(heap->segments, segment, previous, next);
    cushim_mem_heap_count(heap, 0, (ptrdiff_t)segment->n_bytes);
    cushim_mem_stats_grow_held(heap->stats, segment->n_bytes);
    cushim_mem_stats_add(&heap->stats->n_segments, 1);
}

static void unlink_segment(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment) {
    DL_DELETE2(heap->segments, segment, previous, next);
    cushim_mem_heap_count(heap, 0, -(ptrdiff_t)segment->n_bytes);
    cushim_mem_stats_subtract(&heap->stats->held_bytes, segment->n_bytes);
    cushim_mem_stats_subtract(&heap->stats->n_segments, 1);
}

enum cushim_status cushim_mem_segments_fetch(struct cushim_mem_heap *heap, size_t n_bytes,
                                             uint64_t *base) {
    struct cushim_mem_limit *budget = budget_of(heap);
    struct cushim_mem_provider_client client = client_of(heap);
    if (!cushim_mem_limit_charge(budget, n_bytes))
        return CUSHIM_NOMEM;
    uint64_t start_ns = cushim_clock_ns();
    CUresult answer = CUSHIM_IN_RELAXED(heap->cuda, heap->provider->obtain(&client, n_bytes, base));
    cushim_mem_stats_add(&heap->stats->n_native_allocs, 1);
    cushim_mem_stats_add_time(heap->stats, &heap->stats->native_alloc_ns, start_ns);
    log_debug("memory", "device %d: memory of size %zu asked of the driver: %s", heap->device,
              n_bytes, answer == CUDA_SUCCESS ? "a new segment" : "refused");
    if (answer == CUDA_SUCCESS) {
        tell(heap, *base, n_bytes, true);
    } else {
        cushim_mem_limit_refund(budget, n_bytes);
        refusal = answer;
    }
    return cushim_status_from_cu(answer);
}

void cushim_mem_segments_put_back(struct cushim_mem_heap *heap, uint64_t base, size_t n_bytes) {
    native_free(heap, base, n_bytes, NULL, true);
}

struct cushim_mem_extent *cushim_mem_segments_enter(struct cushim_mem_heap *heap, uint64_t base,
                                                    size_t n_bytes, bool is_dedicated) {
    struct cushim_mem_segment *segment =
        cushim_mem_segment_create(&heap->meta, base, n_bytes, is_dedicated);
    if (!segment)
        return NULL;
    segment->heap = heap;
    segment->guard_bytes = (uint32_t)heap->guard_bytes;
    segment->generation = atomic_load(&heap->generation);
    struct cushim_mem_extent *extent = &segment->first;
    if (is_dedicated)
        cushim_mem_extent_make_block(extent, n_bytes);
    /* the page map last, because from here on look-ups see the segment */
    if (cushim_mem_pagemap_set(&heap->blocks->map, base, reach(heap, segment), segment) !=
        CUSHIM_OK) {
        cushim_mem_segment_destroy(&heap->meta, segment);
        return NULL;
    }
    link_segment(heap, segment);
    cushim_mem_watermark_note_fetched(heap, n_bytes);
    if (is_dedicated)
        cushim_mem_watermark_count_taken(heap, n_bytes);
    else
        cushim_mem_free_lists_put_back(heap, segment);
    return extent;
}

/* Look-ups no longer find the segment.  This needs no lock. */
static void erase(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment) {
    cushim_mem_pagemap_clear(&heap->blocks->map, segment->base, reach(heap, segment), segment);
}

struct cushim_mem_segment *cushim_mem_segments_detach(struct cushim_mem_heap *heap,
                                                      size_t target_bytes) {
    struct cushim_mem_segment *list = NULL;
    while (heap->watermark.oldest_free && heap->held_bytes > target_bytes) {
        /* one that may not serve, else the largest, else the oldest */
        struct cushim_mem_segment *oldest = heap->watermark.oldest_free;
        const struct cushim_mem_extent *largest = cushim_mem_extents_largest(&heap->idle);
        struct cushim_mem_segment *segment =
            largest && !oldest->is_retired ? largest->segment : oldest;
        cushim_mem_free_lists_remove(heap, segment);
        unlink_segment(heap, segment);
        segment->next = list;
        list = segment;
    }
    return list;
}

/*
 * The driver did not take the segment, so it is ours again.  False: its context went meanwhile, and
 * its memory with it.  The caller holds the lock.
 */
static bool put_back(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment) {
    if (segment->generation != atomic_load(&heap->generation)) {
        cushim_mem_segment_destroy(&heap->meta, segment);
        return false;
    }
    /* this cannot fail, because the tables of the map exist since the segment was entered */
    cushim_mem_pagemap_set(&heap->blocks->map, segment->base, reach(heap, segment), segment);
    link_segment(heap, segment);
    return true;
}

/* Not if the context went after the segment was detached, because another owner has its
 * addresses. */
static CUresult release_held(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment) {
    const struct cushim_mem_policy *policy = heap->policy;
    CUresult answer = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (policy->hold && !policy->hold(heap))
        return answer;
    if (segment->generation == atomic_load(&heap->generation))
        answer = native_free(heap, segment->base, segment->n_bytes, NULL, true);
    if (policy->let)
        policy->let(heap);
    return answer;
}

size_t cushim_mem_segments_release(struct cushim_mem_heap *heap, struct cushim_mem_segment *list) {
    size_t released_bytes = 0;
    while (list) {
        struct cushim_mem_segment *segment = list;
        list = segment->next;
        atomic_fetch_add(&cushim_mem_transits.n_begun, 1);
        erase(heap, segment); /* before the driver gets its addresses back */
        CUresult answer = release_held(heap, segment);
        pthread_mutex_lock(&heap->lock);
        if (answer == CUDA_SUCCESS) {
            released_bytes += segment->n_bytes;
            cushim_mem_watermark_note_returned(heap, segment->n_bytes);
            cushim_mem_segment_destroy(&heap->meta, segment);
        } else if (put_back(heap, segment)) {
            cushim_mem_free_lists_put_back(heap, segment);
        }
        pthread_mutex_unlock(&heap->lock);
        atomic_fetch_add(&cushim_mem_transits.n_ended, 1);
    }
    return released_bytes;
}

enum cushim_status cushim_mem_segments_free(struct cushim_mem_heap *heap,
                                            struct cushim_mem_segment *segment,
                                            const CUstream *stream, CUresult *answer) {
    pthread_mutex_lock(&heap->lock);
    unlink_segment(heap, segment);
    pthread_mutex_unlock(&heap->lock);
    atomic_fetch_add(&cushim_mem_transits.n_begun, 1);
    erase(heap, segment);
    *answer = native_free(heap, segment->base, segment->n_bytes, stream, false);
    pthread_mutex_lock(&heap->lock);
    if (*answer != CUDA_SUCCESS) {
        put_back(heap, segment);
    } else {
        if (segment->generation == atomic_load(&heap->generation))
            cushim_mem_heap_count(heap, -(ptrdiff_t)segment->first.block_bytes, 0);
        cushim_mem_watermark_count_wasted(heap, segment, segment->n_bytes);
        cushim_mem_segment_destroy(&heap->meta, segment);
    }
    pthread_mutex_unlock(&heap->lock);
    atomic_fetch_add(&cushim_mem_transits.n_ended, 1);
    return cushim_status_from_cu(*answer);
}

/* The context went.  Look-ups no longer find its blocks, and none of them counts as live. */
static void forget_blocks(struct cushim_mem_heap *heap, struct cushim_mem_extent *extent) {
    cushim_mem_pagemap_note_slab(&heap->blocks->map, extent, false);
    for (uint32_t i = 0; i < extent->n_cells; i++) {
        const struct cushim_mem_block_meta *meta = &extent->cells[i];
        if (cushim_mem_state_of(load_relaxed(&meta->state)) != CUSHIM_MEM_LIVE)
            continue;
        cushim_mem_stats_subtract(&heap->stats->live_bytes, load_relaxed(&meta->asked_bytes));
        cushim_mem_stats_subtract(&heap->stats->block_bytes, extent->block_bytes);
    }
}

void cushim_mem_segments_abandon(struct cushim_mem_heap *heap) {
    cushim_mem_stats_subtract(&heap->stats->free_segment_bytes, heap->free_segment_bytes);
    while (heap->segments) {
        struct cushim_mem_segment *segment = heap->segments;
        cushim_mem_limit_refund(budget_of(heap), segment->n_bytes);
        /* addresses of managed and pinned memory may become the program's own host memory */
        if (heap->kind == CUSHIM_MEM_DEVICE)
            cushim_mem_pagemap_vacate(&heap->blocks->map, segment->base, segment->n_bytes);
        for (struct cushim_mem_extent *extent = &segment->first; extent; extent = extent->after)
            forget_blocks(heap, extent);
        erase(heap, segment);
        unlink_segment(heap, segment);
        cushim_mem_watermark_count_wasted(heap, segment, segment->n_bytes);
        if (heap->provider->outlives_context) /* this waits for nothing */
            release_to(heap, segment->base, segment->n_bytes);
        cushim_mem_segment_destroy(&heap->meta, segment);
    }
}
