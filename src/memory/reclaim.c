#include "memory/reclaim.h"

#include "base/log.h"
#include "base/lock.h"
#include "cuda/current_context.h"
#include "memory/arena.h"
#include "memory/cache/cache.h"
#include "memory/fence/stream_fence.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"
#include "memory/state/segments.h"
#include "memory/heap.h"

/*
 * Long enough for work that a program has queued, for which the free would have waited without
 * cushim.  A kernel that spins until the host stops it does not end in this time, and is not waited
 * for twice in a row.
 */
static const uint64_t patience_ns = 2000000000;

static const uint64_t moment_ns = 2000000; /* the time that an idle device may take for a record */
static const uint64_t drain_again_ns = 100000000;

/* False once the context or the process is gone; the owner of the heap hears of that later. */
static bool may_call_driver(const struct cushim_mem_heap *heap) {
    const struct cushim_mem_stream_host *host = heap->fence->host;
    return !host || host->is_usable(heap->fence);
}

/* Is the device idle, so that a release waits for nothing? */
static bool is_quiet(struct cushim_mem_heap *heap) {
    CUresult answer;
    if (heap->fence->host)
        return heap->fence->host->is_quiet(heap->fence);
    return cushim_mem_deferred_batch_prove(heap, cushim_mem_fence_tag(heap->fence), &answer);
}

/* ---- giving back ---- */

/* Memory in which no block lies becomes free pages.  The caller holds the lock. */
static void drain(struct cushim_mem_heap *heap) {
    cushim_mem_arena_drain(heap);
    cushim_mem_free_lists_drain(heap);
}

/*
 * In a request, until no more than target_bytes are held.  Without cushim a malloc waits for
 * nothing, so a segment only goes if its release does not wait either.  The device is asked before
 * each one, because another thread may submit work at any moment; a release waits for work
 * submitted after the question.
 */
size_t cushim_mem_reclaim_quietly(struct cushim_mem_heap *heap, size_t target_bytes) {
    size_t n_bytes = 0, n_more = 1;
    bool is_drained = false;
    while (n_more && may_call_driver(heap) && (heap->provider->is_prompt || is_quiet(heap))) {
        struct cushim_mem_segment *segment = NULL;
        pthread_mutex_lock(&heap->lock);
        if (!is_drained && heap->held_bytes > target_bytes)
            drain(heap);
        is_drained = true;
        if (heap->held_bytes > target_bytes)
            segment = cushim_mem_segments_detach(heap, heap->held_bytes - 1);
        pthread_mutex_unlock(&heap->lock);
        n_more = cushim_mem_segments_release(heap, segment);
        n_bytes += n_more;
    }
    return n_bytes;
}

size_t cushim_mem_reclaim_trim(struct cushim_mem_heap *heap, size_t keep_bytes) {
    if (!may_call_driver(heap))
        return 0;
    cushim_mem_cache_drain_all(heap);
    pthread_mutex_lock(&heap->lock);
    drain(heap);
    size_t excess_bytes = cushim_less(heap->free_segment_bytes, keep_bytes);
    struct cushim_mem_segment *list =
        cushim_mem_segments_detach(heap, heap->held_bytes - excess_bytes);
    pthread_mutex_unlock(&heap->lock);
    return cushim_mem_segments_release(heap, list);
}

/* ---- in a free ---- */

static void shrink(struct cushim_mem_heap *heap, uint64_t life) {
    struct cushim_mem_segment *excess = NULL;
    if (!cushim_mem_heap_lock_life(heap, life))
        return;
    size_t target_bytes = cushim_mem_watermark_now(heap);
    if (heap->held_bytes > target_bytes) {
        drain(heap); /* one free slab can keep a whole segment */
        excess = cushim_mem_segments_detach(heap, target_bytes);
    }
    pthread_mutex_unlock(&heap->lock);
    cushim_mem_segments_release(heap, excess);
}

/* Is it due, because it was not done for again_ns?  The caller holds the lock. */
static bool is_due(uint64_t *done_ns, uint64_t now_ns, uint64_t again_ns) {
    if (now_ns - *done_ns < again_ns)
        return false;
    *done_ns = now_ns;
    return true;
}

/* The heap is far over its watermark: wait for the epoch of the block just freed, and take back
 * what is over. */
static bool settle(struct cushim_mem_heap *heap, uint64_t life, uint64_t tag) {
    CUresult answer;
    enum cushim_status status = cushim_mem_fence_await(heap->fence, tag, 0, heap->stats, &answer);
    if (!cushim_mem_heap_lock_life(heap, life))
        return false;
    if (status == CUSHIM_OK)
        cushim_mem_heap_give_deferred(heap);
    else
        cushim_mem_heap_note_damage(heap, answer);
    pthread_mutex_unlock(&heap->lock);
    return status == CUSHIM_OK;
}

/*
 * Caches pin segments, and their blocks may be deferred, too.  So they are emptied when the heap
 * holds too much, but not again and again if live blocks pin the rest.
 *
 * A relaxed free waits for nothing, but the driver's free of a segment waits for the device.  So
 * segments go only when the device is idle, which is asked once in each tick of the coarse clock,
 * or when far too much is held.
 */
void cushim_mem_reclaim_shrink(struct cushim_mem_heap *heap, uint64_t life, uint64_t tag,
                               bool has_waited) {
    cushim_mem_watermark_ask(heap);
    uint64_t now_ns = cushim_clock_coarse_ns();
    bool may_wait = has_waited || !heap->policy->is_relaxed || heap->provider->is_prompt;
    if (!cushim_mem_heap_lock_life(heap, life))
        return;
    size_t over_bytes = cushim_less(heap->held_bytes, cushim_mem_watermark_now(heap));
    bool is_far = cushim_mem_watermark_is_far(heap, over_bytes);
    bool drains = over_bytes && is_due(&heap->drained_ns, now_ns, drain_again_ns);
    bool asks = over_bytes && !may_wait && is_due(&heap->quiet_asked_ns, now_ns, 1);
    pthread_mutex_unlock(&heap->lock);
    if (drains || is_far)
        cushim_mem_cache_drain_all(heap);
    if (is_far && !settle(heap, life, tag))
        return;
    if (is_far || (over_bytes && (may_wait || (asks && is_quiet(heap)))))
        shrink(heap, life);
    if (is_far && cushim_mem_heap_lock_life(heap, life)) {
        cushim_mem_watermark_note_tried(heap);
        pthread_mutex_unlock(&heap->lock);
    }
}

/* ---- in calls that neither request nor free ---- */

/* The watermark is read last, because that begins a new second, in which no thread looks again. */
void cushim_mem_reclaim_idle(struct cushim_mem_heap *heap, uint64_t life) {
    if (!cushim_mem_heap_lock_life(heap, life))
        return;
    bool asks = is_due(&heap->quiet_asked_ns, cushim_clock_coarse_ns(), 1);
    pthread_mutex_unlock(&heap->lock);
    if (!asks || !(heap->provider->is_prompt || is_quiet(heap)))
        return;
    cushim_mem_watermark_ask(heap);
    if (!cushim_mem_heap_lock_life(heap, life))
        return;
    cushim_mem_heap_give_deferred(heap);
    size_t target_bytes = cushim_mem_watermark_now(heap);
    bool is_over = heap->held_bytes > target_bytes;
    pthread_mutex_unlock(&heap->lock);
    if (!is_over)
        return;
    cushim_mem_cache_drain_all(heap);
    cushim_mem_reclaim_quietly(heap, target_bytes);
}

/* ---- waits when memory is out ---- */

uint64_t cushim_mem_reclaim_until(void) {
    return cushim_clock_ns() + patience_ns;
}

static enum cushim_status await(struct cushim_mem_heap *heap, uint64_t until_ns) {
    CUresult answer;
    return cushim_mem_fence_await(heap->fence, cushim_mem_fence_tag(heap->fence), until_ns,
                                  heap->stats, &answer);
}

/* Without records the wait is the driver's own, which cannot be given up, because otherwise memory
 * would be out. */
static enum cushim_status await_patiently(struct cushim_mem_heap *heap, uint64_t until_ns) {
    /* the caller's own capture is not concerned, and stays valid */
    CUstreamCaptureMode mode = cushim_mode_relaxed(heap->cuda);
    enum cushim_status status = await(heap, heap->cuda->cuCtxRecordEvent ? until_ns : 0);
    if (status == CUSHIM_TIMEOUT && heap->fence->guard->is_open() && cushim_clock_ns() < until_ns)
        status = await(heap, 0);
    cushim_mode_back(heap->cuda, mode);
    return status;
}

/* Is the device idle in a moment? */
static bool is_quiet_soon(struct cushim_mem_heap *heap) {
    CUresult answer;
    uint64_t tag = cushim_mem_fence_tag(heap->fence);
    if (cushim_mem_deferred_batch_prove(heap, tag, &answer))
        return true;
    cushim_futex_nap(moment_ns);
    return cushim_mem_deferred_batch_prove(heap, tag, &answer);
}

static enum cushim_status wait_until(struct cushim_mem_heap *heap, uint64_t until_ns) {
    uint64_t now_ns = cushim_clock_ns();
    uint64_t gave_up_ns = CUSHIM_UNDER(&heap->lock, heap->watermark.gave_up_ns);
    bool is_late = now_ns >= until_ns || (gave_up_ns && now_ns - gave_up_ns <= patience_ns);
    if (is_late && heap->cuda->cuCtxRecordEvent)
        return is_quiet_soon(heap) ? CUSHIM_OK : CUSHIM_TIMEOUT;
    return await_patiently(heap, until_ns);
}

/* Wait until the device has done the submitted work, or until until_ns. */
static bool is_over_in_time(struct cushim_mem_heap *heap, uint64_t until_ns) {
    enum cushim_status status = wait_until(heap, until_ns);
    pthread_mutex_lock(&heap->lock);
    heap->watermark.gave_up_ns = status == CUSHIM_TIMEOUT ? cushim_clock_ns() : 0;
    cushim_mem_heap_give_deferred(heap);
    pthread_mutex_unlock(&heap->lock);
    return status == CUSHIM_OK;
}

/* ---- what there is ---- */

static void add_live(struct cushim_mem_census *census, size_t block_bytes, size_t n) {
    unsigned i = 0;
    census->live_bytes += n * block_bytes;
    while (i < census->n_sizes && census->sizes[i].block_bytes != block_bytes)
        i++;
    if (!n || i == CUSHIM_MEM_CENSUS_SIZES)
        return;
    if (i == census->n_sizes)
        census->sizes[census->n_sizes++] = (struct cushim_mem_census_size){block_bytes, 0};
    census->sizes[i].n += n;
}

static void add_cells(struct cushim_mem_census *census, const struct cushim_mem_extent *extent) {
    size_t n_free = 0, n_live = 0;
    for (uint32_t i = 0; i < extent->n_cells; i++) {
        enum cushim_mem_state state = cushim_mem_state_of(load_relaxed(&extent->cells[i].state));
        census->pending_bytes += state == CUSHIM_MEM_DEFERRED ? extent->block_bytes : 0;
        n_live += state == CUSHIM_MEM_LIVE;
        n_free += state == CUSHIM_MEM_FREE;
    }
    add_live(census, extent->block_bytes, n_live);
    census->retired_bytes += extent->n_retired_cells * extent->block_bytes;
    /* cells that are free but neither on the slab's list nor retired are in a thread's cache */
    size_t n_known = (size_t)extent->n_free_cells + extent->n_retired_cells;
    if (cushim_mem_extent_is_cut(extent) && n_free > n_known)
        census->cached_bytes += (n_free - n_known) * extent->block_bytes;
}

static void add_extent(struct cushim_mem_census *census, const struct cushim_mem_extent *extent) {
    size_t n_bytes = extent->n_grains << CUSHIM_MEM_LOG2_GRAIN;
    int kind = load_relaxed(&extent->kind);
    bool is_free =
        kind == CUSHIM_MEM_EXTENT_FREE ||
        (kind == CUSHIM_MEM_EXTENT_BLOCK && load_relaxed(&extent->single.state) == CUSHIM_MEM_FREE);
    if (kind != CUSHIM_MEM_EXTENT_ARENA)
        add_cells(census, extent);
    if (is_free) {
        census->free_bytes += n_bytes;
        if (n_bytes > census->largest_free_bytes)
            census->largest_free_bytes = n_bytes;
    }
}

void cushim_mem_census_take(struct cushim_mem_heap *heap, struct cushim_mem_census *census) {
    *census = (struct cushim_mem_census){0};
    CUSHIM_LOCKED(&heap->lock);
    census->held_bytes = heap->held_bytes;
    census->device_bytes = heap->watermark.device_bytes;
    const struct cushim_mem_segment *segment = heap->segments;
    for (; segment; segment = segment->next) {
        const struct cushim_mem_extent *extent = &segment->first;
        for (; extent; extent = extent->after)
            add_extent(census, extent);
    }
}

/* The blocks of a chunk of the arena begin at single grains. */
static void see_cells(const struct cushim_mem_extent *extent, cushim_mem_see_fn *see) {
    bool is_chunk = load_relaxed(&extent->kind) == CUSHIM_MEM_EXTENT_ARENA;
    size_t step_bytes = is_chunk ? CUSHIM_MEM_GRAIN_BYTES : extent->block_bytes;
    uint64_t base = cushim_mem_extent_address(extent) + extent->segment->guard_bytes;
    const struct cushim_mem_chunk *chunk = is_chunk ? extent->chunk : NULL;
    struct cushim_mem_block_meta *cells = chunk ? chunk->cells : extent->cells;
    for (uint32_t i = 0; i < (chunk ? chunk->n_grains : extent->n_cells); i++) {
        bool is_start = !chunk || load_relaxed(&chunk->starts[i / 64]) >> i % 64 & 1;
        if (is_start && cushim_mem_state_of(load_relaxed(&cells[i].state)) == CUSHIM_MEM_LIVE)
            see(extent->segment, &cells[i], base + i * step_bytes);
    }
}

void cushim_mem_census_each(struct cushim_mem_heap *heap, cushim_mem_see_fn *see) {
    CUSHIM_LOCKED(&heap->lock);
    for (const struct cushim_mem_segment *segment = heap->segments; segment;
         segment = segment->next) {
        see(segment, NULL, segment->base);
        for (const struct cushim_mem_extent *extent = &segment->first; extent;
             extent = extent->after)
            see_cells(extent, see);
    }
}

static bool has_live(const struct cushim_mem_extent *extent) {
    for (uint32_t i = 0; i < extent->n_cells; i++) {
        if (cushim_mem_state_of(load_relaxed(&extent->cells[i].state)) == CUSHIM_MEM_LIVE)
            return true;
    }
    return false;
}

static bool is_in_use(const struct cushim_mem_segment *segment) {
    const struct cushim_mem_extent *extent = &segment->first;
    while (extent && load_relaxed(&extent->kind) != CUSHIM_MEM_EXTENT_ARENA && !has_live(extent))
        extent = extent->after;
    return extent != NULL;
}

size_t cushim_mem_reclaim_reusable_bytes(struct cushim_mem_heap *heap) {
    size_t n_bytes = 0;
    CUSHIM_LOCKED(&heap->lock);
    for (const struct cushim_mem_segment *segment = heap->segments; segment;
         segment = segment->next) {
        /* the driver gives and takes whole steps, and dedicated segments are of the size asked for
         */
        if (!is_in_use(segment))
            n_bytes += cushim_rounded(segment->n_bytes, CUSHIM_MEM_NATIVE_PAGE_BYTES);
    }
    return n_bytes;
}

/* ---- the steps ---- */

/* Is there anything to wait for: deferred blocks, or segments that only an idle device takes back?
 */
static bool has_reason_to_wait(struct cushim_mem_heap *heap) {
    return heap->deferred.n_rows != 0 ||
           (!heap->provider->is_prompt && cushim_mem_reclaim_reusable_bytes(heap) > 0);
}

static bool wait(struct cushim_mem_reclaim *reclaim, struct cushim_mem_heap *heap) {
    bool has_deferred = heap->deferred.n_rows != 0;
    if (!has_reason_to_wait(heap))
        return false;
    cushim_mem_stats_add(&heap->stats->n_reclaim_waits, 1);
    reclaim->is_busy = !is_over_in_time(heap, reclaim->until_ns);
    return has_deferred;
}

/*
 * If no record says whether the device is idle, memory goes back as in a free, which waits for work
 * that was submitted since.  It does not if the wait before was given up.
 */
static size_t give_back(struct cushim_mem_heap *heap, bool is_busy) {
    /* Can a record say whether the device is idle?  None may be made while a capture is open,
     * and there is none before driver 12.5. */
    bool has_records = heap->cuda->cuCtxRecordEvent && !heap->fence->guard->is_open();
    if (!is_busy && !has_records)
        return cushim_mem_reclaim_trim(heap, 0);
    cushim_mem_cache_drain_all(heap);
    return cushim_mem_reclaim_quietly(heap, 0);
}

/* Take one step; true if it made something free. */
static bool step(struct cushim_mem_reclaim *reclaim, struct cushim_mem_heap *heap) {
    switch ((enum cushim_mem_reclaim_step)reclaim->next_step++) {
    case CUSHIM_MEM_RECLAIM_WAIT:
        return wait(reclaim, heap);
    case CUSHIM_MEM_RECLAIM_DRAIN:
        reclaim->drained_bytes = cushim_mem_cache_drain_all(heap);
        return reclaim->drained_bytes != 0;
    case CUSHIM_MEM_RECLAIM_GIVE_BACK:
        reclaim->returned_bytes = give_back(heap, reclaim->is_busy);
        return reclaim->returned_bytes != 0;
    case CUSHIM_MEM_RECLAIM_OTHERS:
        /* the host's memory is not the device's */
        if (heap->policy->make_room && heap->kind != CUSHIM_MEM_PINNED)
            reclaim->others_bytes = heap->policy->make_room(heap, reclaim->until_ns);
        return reclaim->others_bytes != 0;
    case CUSHIM_MEM_RECLAIM_END:
        break;
    }
    return false;
}

/* ---- what is said when memory is out ---- */

static void tell(const struct cushim_mem_reclaim *tried, struct cushim_mem_heap *heap,
                 size_t n_bytes) {
    struct cushim_mem_census census;
    if (!heap->policy->memory_out && !cushim_log_on(CUSHIM_LOG_WARN))
        return;
    cushim_mem_census_take(heap, &census);
    log_warn("memory", "out of memory on device %d of %zu bytes: request=%zu", heap->device,
             census.device_bytes, n_bytes);
    log_warn("memory", "  live=%zu held=%zu pending=%zu in_caches=%zu free=%zu largest_free=%zu",
             census.live_bytes, census.held_bytes, census.pending_bytes, census.cached_bytes,
             census.free_bytes, census.largest_free_bytes);
    log_warn("memory", "  tried: wait=%s caches=%zu given_back=%zu other_pools=%zu",
             tried->is_busy ? "in vain" : "done", tried->drained_bytes, tried->returned_bytes,
             tried->others_bytes);
    if (heap->policy->memory_out)
        heap->policy->memory_out(heap, tried, &census, n_bytes);
}

bool cushim_mem_reclaim_run(struct cushim_mem_reclaim *reclaim, struct cushim_mem_heap *heap,
                            size_t n_bytes) {
    if (!reclaim->until_ns)
        reclaim->until_ns = cushim_mem_reclaim_until();
    while (reclaim->next_step < CUSHIM_MEM_RECLAIM_END) {
        if (step(reclaim, heap)) {
            cushim_mem_stats_add(&heap->stats->n_reclaim_steps, 1);
            return true;
        }
    }
    cushim_mem_stats_add(&heap->stats->n_out_of_memory, 1);
    tell(reclaim, heap, n_bytes);
    return false;
}

size_t cushim_mem_reclaim_empty(struct cushim_mem_heap *heap, uint64_t until_ns) {
    cushim_mem_cache_drain_all(heap);
    bool is_busy = has_reason_to_wait(heap) && !is_over_in_time(heap, until_ns);
    return give_back(heap, is_busy);
}
