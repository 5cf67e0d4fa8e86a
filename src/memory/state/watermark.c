#include "memory/state/watermark.h"

#include "cuda/current_context.h"
#include "memory/state/heap_state.h"

enum {
    SPARING_SLACK_BYTES = 4 << 20, /* of host memory that may be held free */
    IDLE_SHARE = 64,       /* next to nothing is live: less than this part of what is held */
    IDLE_DEVICE_SHARE = 8, /* such a heap may hold this part of the device */
    MARGIN = 16,           /* this part of what is used may be held beside it */
    ROOMY_SHARE = 8,       /* plenty is free: at least this part of the device */
    ROOMY_MARGINS = 5,     /* this many margins if plenty of the device is free */
    OWN_MARGINS = 3,       /* below this many margins, each size gets its own segments */
    /* this part of the recent peak is worth a wait, or this part of the device if that is less */
    STEP_SHARE = 8,
    STEP_DEVICE_SHARE = 64,
    MOST_WASTE = 31,         /* a block may waste this many times its request; */
    WASTE_DEVICE_SHARE = 64, /* all live blocks together, this part of the device */
    WASTE_MARGINS = 7,       /* and this many margins; */
    CACHED_WASTE_MARGINS = 8 /* or this many if stream caches keep them */
};
static const uint64_t recent_ns = 1000000000;
static const uint64_t ask_again_ns = 100000000;

/* ---- what the driver has ---- */

/* A limit makes the device look smaller. */
static void limit(const struct cushim_mem_heap *heap, size_t *free_bytes, size_t *total_bytes) {
    const struct cushim_mem_limit *budgets = heap->policy->budgets;
    size_t limit_bytes = budgets ? atomic_load(&budgets[heap->device].limit_bytes) : 0;
    if (!limit_bytes)
        return;
    size_t charged_bytes = atomic_load(&budgets[heap->device].charged_bytes) +
                           atomic_load(&budgets[heap->device].others_bytes);
    *total_bytes = cushim_least(*total_bytes, limit_bytes);
    *free_bytes = cushim_least(*free_bytes, cushim_less(limit_bytes, charged_bytes));
}

static bool ask(struct cushim_mem_heap *heap, size_t *free_bytes, size_t *total_bytes) {
    CUresult answer;
    CUSHIM_ENTERED entered = cushim_current_context_enter(heap->cuda, heap->context, &answer);
    return answer == CUDA_SUCCESS &&
           heap->cuda->cuMemGetInfo_v2(free_bytes, total_bytes) == CUDA_SUCCESS;
}

void cushim_mem_watermark_ask(struct cushim_mem_heap *heap) {
    struct cushim_mem_watermark *watermark = &heap->watermark;
    size_t free_bytes = 0, total_bytes = 0;
    uint64_t now_ns = cushim_clock_coarse_ns();
    pthread_mutex_lock(&heap->lock);
    bool is_due = heap->kind != CUSHIM_MEM_PINNED &&
                  (!watermark->device_bytes || now_ns - watermark->asked_ns >= ask_again_ns);
    if (is_due)
        watermark->asked_ns = now_ns;
    pthread_mutex_unlock(&heap->lock);
    if (!is_due)
        return;
    if (heap->policy->look_around)
        heap->policy->look_around();
    if (!ask(heap, &free_bytes, &total_bytes))
        return;
    limit(heap, &free_bytes, &total_bytes);
    pthread_mutex_lock(&heap->lock);
    watermark->device_bytes = total_bytes;
    watermark->device_free_bytes = free_bytes;
    pthread_mutex_unlock(&heap->lock);
}

/* ---- what is used, and what has earned its keep ---- */

/* Deferred blocks, and idle ones in stream caches, are held but no longer used. */
static size_t used_bytes(const struct cushim_mem_heap *heap) {
    return cushim_less(heap->live_bytes, heap->deferred.n_bytes + heap->cached_bytes);
}

static void note_used(struct cushim_mem_heap *heap, size_t n_used) {
    heap->recent_peak_bytes[0] = cushim_most(heap->recent_peak_bytes[0], n_used);
}

void cushim_mem_watermark_count_taken(struct cushim_mem_heap *heap, size_t block_bytes) {
    cushim_mem_heap_count(heap, (ptrdiff_t)block_bytes, 0);
    if (!heap->owner) /* its stream caches may have grown since it looked */
        note_used(heap, used_bytes(heap));
}

/*
 * A second ends.  Its peak counts for one more second, because no free may have looked for long. If
 * memory was idle and no free looked for a second, idle memory loses what it has earned.
 */
static void end_second(struct cushim_mem_heap *heap, uint64_t now_ns, bool was_left) {
    struct cushim_mem_watermark *watermark = &heap->watermark;
    heap->recent_peak_bytes[1] = heap->recent_peak_bytes[0];
    heap->recent_peak_bytes[0] = used_bytes(heap);
    heap->recent_since_ns = now_ns;
    if (was_left && heap->free_segment_bytes)
        watermark->earned_bytes = 0;
}

static void look_at_clock(struct cushim_mem_heap *heap) {
    uint64_t now_ns = cushim_clock_coarse_ns();
    if (now_ns - heap->recent_since_ns >= recent_ns)
        end_second(heap, now_ns, now_ns - heap->watermark.looked_ns >= recent_ns);
    heap->watermark.looked_ns = now_ns;
}

void cushim_mem_watermark_see_cached(struct cushim_mem_heap *heap, size_t cached_bytes,
                                     size_t fallen_bytes) {
    heap->cached_bytes = cached_bytes;
    look_at_clock(heap);
    note_used(heap, used_bytes(heap) + fallen_bytes);
}

/* The most that was used in the last second or two. */
static size_t recent_peak_bytes(const struct cushim_mem_heap *heap) {
    return cushim_most(cushim_most(heap->recent_peak_bytes[0], heap->recent_peak_bytes[1]),
                       used_bytes(heap));
}

void cushim_mem_watermark_note_returned(struct cushim_mem_heap *heap, size_t n_bytes) {
    struct cushim_mem_watermark *watermark = &heap->watermark;
    uint64_t now_ns = cushim_clock_coarse_ns();
    watermark->device_free_bytes += n_bytes;
    if (now_ns - watermark->returned_ns >= recent_ns)
        watermark->returned_bytes = 0;
    watermark->returned_bytes += n_bytes;
    watermark->returned_ns = now_ns;
}

void cushim_mem_watermark_note_fetched(struct cushim_mem_heap *heap, size_t n_bytes) {
    struct cushim_mem_watermark *watermark = &heap->watermark;
    size_t again_bytes = 0;
    watermark->device_free_bytes = cushim_less(watermark->device_free_bytes, n_bytes);
    watermark->tried_bytes = 0;
    if (cushim_clock_coarse_ns() - watermark->returned_ns < recent_ns)
        again_bytes = cushim_least(watermark->returned_bytes, n_bytes);
    watermark->returned_bytes -= again_bytes;
    watermark->earned_bytes =
        cushim_least(watermark->earned_bytes + again_bytes, recent_peak_bytes(heap) + n_bytes);
}

size_t cushim_mem_watermark_margin_bytes(struct cushim_mem_heap *heap) {
    look_at_clock(heap);
    return recent_peak_bytes(heap) / MARGIN;
}

size_t cushim_mem_watermark_step_bytes(const struct cushim_mem_heap *heap) {
    size_t n_bytes = recent_peak_bytes(heap) / STEP_SHARE;
    if (heap->watermark.device_bytes)
        n_bytes = cushim_least(n_bytes, heap->watermark.device_bytes / STEP_DEVICE_SHARE);
    return cushim_most(n_bytes, CUSHIM_MEM_HEAP_SLACK_BYTES);
}

/* ---- how much is too much ---- */

static size_t slack_bytes(const struct cushim_mem_heap *heap) {
    return heap->policy->is_sparing ? SPARING_SLACK_BYTES : CUSHIM_MEM_HEAP_SLACK_BYTES;
}

static size_t with_margin(const struct cushim_mem_heap *heap, size_t n_bytes) {
    return n_bytes + n_bytes / MARGIN + slack_bytes(heap);
}

/*
 * The neighbours' watermark: what other users of the device leave us.  We share it with the wholly
 * free segments of our other contexts on the device, and with those of the other kind there.
 */
static size_t shared_watermark(const struct cushim_mem_heap *heap) {
    const struct cushim_mem_watermark *watermark = &heap->watermark;
    size_t device_bytes = watermark->device_bytes, held_bytes = heap->held_bytes;
    size_t n_used = used_bytes(heap);
    size_t others_bytes = cushim_less(cushim_mem_stats_read(&heap->stats->free_segment_bytes),
                                      heap->free_segment_bytes);
    if (heap->neighbour)
        others_bytes += cushim_mem_stats_read(&heap->neighbour->free_segment_bytes);
    if (!device_bytes)
        return SIZE_MAX;
    /* held - used + others <= (free + given back) / 2, and given back = held now - held */
    size_t most_bytes =
        cushim_less(watermark->device_free_bytes + held_bytes + 2 * n_used, 2 * others_bytes) / 3;
    if (n_used <= held_bytes / IDLE_SHARE || n_used <= CUSHIM_MEM_HEAP_SLACK_BYTES) {
        size_t idle_bytes = cushim_less(device_bytes / IDLE_DEVICE_SHARE, others_bytes);
        most_bytes = cushim_least(most_bytes, n_used + idle_bytes);
    }
    return cushim_most(most_bytes, n_used + CUSHIM_MEM_HEAP_SLACK_BYTES);
}

static bool is_roomy(const struct cushim_mem_heap *heap) {
    const struct cushim_mem_watermark *watermark = &heap->watermark;
    return watermark->device_bytes && !cushim_mem_heap_packs(heap) &&
           watermark->device_free_bytes >= watermark->device_bytes / ROOMY_SHARE;
}

/* What is used and earned, with a margin, because segments are coarser than blocks.  The limit is
 * the recent peak with a margin, which is larger if plenty of the device is free.  Stream caches
 * earn nothing: they keep up to the limit. */
static size_t own_watermark(const struct cushim_mem_heap *heap, size_t n_used) {
    const struct cushim_mem_watermark *watermark = &heap->watermark;
    size_t earned_bytes = n_used + watermark->earned_bytes;
    size_t peak_bytes = cushim_most(recent_peak_bytes(heap), n_used);
    size_t most_bytes = with_margin(heap, peak_bytes);
    if (heap->owner)
        return most_bytes;
    if (is_roomy(heap))
        most_bytes = cushim_most(most_bytes, peak_bytes + peak_bytes / MARGIN * ROOMY_MARGINS);
    return cushim_least(with_margin(heap, earned_bytes), most_bytes);
}

/* Apply CUSHIM_KEEP and CUSHIM_RESERVE. */
static size_t with_settings(const struct cushim_mem_heap *heap, size_t n_used, size_t own_bytes) {
    const struct cushim_mem_policy *policy = heap->policy;
    size_t device_bytes = heap->watermark.device_bytes;
    if (policy->has_keep) /* beyond the driver's pages for what is used */
        own_bytes = cushim_least(own_bytes, cushim_rounded(n_used, CUSHIM_MEM_NATIVE_PAGE_BYTES) +
                                                cushim_amount_bytes(policy->keep, device_bytes));
    return cushim_most(own_bytes, cushim_amount_bytes(policy->reserve, device_bytes));
}

static size_t watermark_bytes(struct cushim_mem_heap *heap, size_t n_used) {
    look_at_clock(heap);
    return cushim_most(cushim_least(with_settings(heap, n_used, own_watermark(heap, n_used)),
                                    shared_watermark(heap)),
                       n_used + heap->policy->least_idle_bytes);
}

size_t cushim_mem_watermark_with(struct cushim_mem_heap *heap, size_t more_bytes) {
    return watermark_bytes(heap, used_bytes(heap) + more_bytes);
}

size_t cushim_mem_watermark_now(struct cushim_mem_heap *heap) {
    size_t held_bytes = heap->held_bytes, n_used = used_bytes(heap);
    size_t least_bytes = heap->policy->has_keep ? 0 : slack_bytes(heap);
    if (held_bytes <= n_used + cushim_most(least_bytes, heap->policy->least_idle_bytes))
        return held_bytes; /* no need to ask the clock */
    size_t now_bytes = watermark_bytes(heap, n_used);
    /* requests give nothing back while a capture is open, so frees leave them room */
    return heap->fence->guard->is_open() ? cushim_least(now_bytes, with_margin(heap, n_used))
                                         : now_bytes;
}

/* The recent peak after a request of n_bytes. */
static size_t peak_with(const struct cushim_mem_heap *heap, size_t n_bytes) {
    return cushim_most(recent_peak_bytes(heap), used_bytes(heap) + n_bytes);
}

bool cushim_mem_watermark_is_ample(const struct cushim_mem_heap *heap, size_t n_bytes) {
    size_t peak_bytes = peak_with(heap, n_bytes);
    return heap->held_bytes + n_bytes > peak_bytes + peak_bytes / MARGIN * OWN_MARGINS;
}

size_t cushim_mem_watermark_waste_bytes(const struct cushim_mem_heap *heap, size_t n_bytes) {
    if (!is_roomy(heap))
        return 0;
    size_t budget_bytes = cushim_least(heap->watermark.device_bytes / WASTE_DEVICE_SHARE,
                                       peak_with(heap, n_bytes) / MARGIN *
                                           (heap->owner ? CACHED_WASTE_MARGINS : WASTE_MARGINS));
    size_t wasted_bytes =
        cushim_mem_stats_read(&heap->stats->wasted_bytes) + heap->watermark.cached_waste_bytes;
    return cushim_least(MOST_WASTE * n_bytes, cushim_less(budget_bytes, wasted_bytes));
}

void cushim_mem_watermark_count_wasted(struct cushim_mem_heap *heap,
                                       struct cushim_mem_segment *segment, size_t block_bytes) {
    if (!segment->is_dedicated || segment->first.block_bytes == block_bytes)
        return;
    cushim_mem_stats_add(&heap->stats->wasted_bytes, segment->first.block_bytes - block_bytes);
    segment->first.block_bytes = block_bytes;
}

bool cushim_mem_watermark_is_far(struct cushim_mem_heap *heap, size_t over_bytes) {
    struct cushim_mem_watermark *watermark = &heap->watermark;
    watermark->tried_bytes =
        cushim_least(watermark->tried_bytes, over_bytes); /* the rest went back, or is used */
    size_t ignored_bytes = watermark->tried_bytes + cushim_mem_watermark_step_bytes(heap);
    watermark->far_bytes =
        cushim_less(heap->held_bytes - over_bytes + ignored_bytes, used_bytes(heap));
    return over_bytes > ignored_bytes;
}

void cushim_mem_watermark_note_tried(struct cushim_mem_heap *heap) {
    size_t over_bytes = cushim_less(heap->held_bytes, cushim_mem_watermark_now(heap));
    heap->watermark.tried_bytes = over_bytes;
    cushim_mem_watermark_is_far(heap, over_bytes);
}

bool cushim_mem_watermark_seems_far(const struct cushim_mem_heap *heap) {
    return heap->held_bytes > used_bytes(heap) + heap->watermark.far_bytes;
}
