#include "memory/state/watermark.h"

#include "base/bits.h"
#include "base/clock.h"
#include "cuda/current_context.h"
#include "cuda/table.h"
#include "memory/state/heap_state.h"

enum {
    IDLE_SHARE = 64,        /* less than this part of what is held is live: next to nothing */
    IDLE_DEVICE_SHARE = 8,  /* the part of the device that such a pool may hold */
    STEP_DEVICE_SHARE = 64, /* the part that is worth a wait */
    ROOMY_SHARE = 8,        /* at least this part of the device is free: that is plenty */
    MARGIN = 16             /* the part of what is live that may be held beside it */
};
static const uint64_t recent_ns = 1000000000;
static const uint64_t ask_again_ns = 100000000;

/* ---- what the driver has ---- */

/* A limit makes the device smaller than it is. */
static void limit(const struct cushim_mem_heap *pool, size_t *free_bytes, size_t *total_bytes) {
    const struct cushim_mem_limit *budgets = pool->policy->budgets;
    size_t limit_bytes = budgets ? atomic_load(&budgets[pool->device].limit_bytes) : 0;
    if (!limit_bytes)
        return;
    size_t charged_bytes = atomic_load(&budgets[pool->device].charged_bytes);
    *total_bytes = cushim_least(*total_bytes, limit_bytes);
    *free_bytes = cushim_least(*free_bytes, cushim_less(limit_bytes, charged_bytes));
}

static bool ask(struct cushim_mem_heap *pool, size_t *free_bytes, size_t *total_bytes) {
    CUresult answer;
    bool has_entered = cushim_current_context_enter(pool->cuda, pool->context, &answer);
    if (answer != CUDA_SUCCESS)
        return false;
    answer = pool->cuda->cuMemGetInfo_v2(free_bytes, total_bytes);
    if (has_entered)
        cushim_current_context_leave(pool->cuda);
    return answer == CUDA_SUCCESS;
}

void cushim_mem_watermark_ask(struct cushim_mem_heap *pool) {
    struct cushim_mem_watermark *bound = &pool->bound;
    size_t free_bytes = 0, total_bytes = 0;
    uint64_t now_ns = cushim_clock_coarse_ns();
    pthread_mutex_lock(&pool->lock);
    bool is_due = pool->kind != CUSHIM_MEM_PINNED &&
                  (!bound->device_bytes || now_ns - bound->asked_ns >= ask_again_ns);
    if (is_due)
        bound->asked_ns = now_ns;
    pthread_mutex_unlock(&pool->lock);
    if (!is_due)
        return;
    if (pool->policy->look_around)
        pool->policy->look_around();
    if (!ask(pool, &free_bytes, &total_bytes))
        return;
    limit(pool, &free_bytes, &total_bytes);
    pthread_mutex_lock(&pool->lock);
    bound->device_bytes = total_bytes;
    bound->device_free_bytes = free_bytes;
    bound->step_bytes = cushim_most(total_bytes / STEP_DEVICE_SHARE, CUSHIM_MEM_HEAP_SLACK_BYTES);
    pthread_mutex_unlock(&pool->lock);
}

/* ---- how much is too much ---- */

/* The band of a block; NULL where it is in none: one such segment would be most of a device. */
static struct cushim_mem_band *band_of(struct cushim_mem_watermark *bound, size_t block_bytes) {
    enum { LOG2_LEAST = 21 };
    if (block_bytes >> LOG2_LEAST == 0)
        return &bound->bands[CUSHIM_MEM_WATERMARK_BANDS];
    unsigned doubling = cushim_log2_floor(block_bytes);
    if (doubling >= LOG2_LEAST + CUSHIM_MEM_WATERMARK_BANDS / 4)
        return NULL;
    return &bound->bands[(doubling - LOG2_LEAST) * 4 + ((block_bytes >> (doubling - 2)) & 3)];
}

static size_t band_peak_bytes(const struct cushim_mem_band *band) {
    return band->peak_bytes[band->peak_bytes[1] > band->peak_bytes[0]];
}

void cushim_mem_watermark_count_taken(struct cushim_mem_heap *pool, size_t block_bytes) {
    struct cushim_mem_watermark *bound = &pool->bound;
    struct cushim_mem_band *band = band_of(bound, block_bytes);
    cushim_mem_heap_count(pool, (ptrdiff_t)block_bytes, 0);
    if (pool->live_bytes > pool->recent_peak_bytes[0])
        pool->recent_peak_bytes[0] = pool->live_bytes;
    if (!band)
        return;
    band->live_bytes += block_bytes;
    if (band->live_bytes <= band->peak_bytes[0])
        return;
    bound->working_set_bytes += cushim_less(band->live_bytes, band_peak_bytes(band));
    band->peak_bytes[0] = band->live_bytes;
}

void cushim_mem_watermark_count_given(struct cushim_mem_heap *pool, size_t block_bytes) {
    struct cushim_mem_band *band = band_of(&pool->bound, block_bytes);
    cushim_mem_heap_count(pool, -(ptrdiff_t)block_bytes, 0);
    if (band)
        band->live_bytes -= block_bytes;
}

static void begin_second(struct cushim_mem_watermark *bound) {
    bound->working_set_bytes = 0;
    for (int i = 0; i <= CUSHIM_MEM_WATERMARK_BANDS; i++) {
        struct cushim_mem_band *band = &bound->bands[i];
        band->peak_bytes[1] = band->peak_bytes[0];
        band->peak_bytes[0] = band->live_bytes;
        bound->working_set_bytes += band_peak_bytes(band);
    }
}

/* The highest live total of the last second or two; under the lock. */
static size_t recent_peak_bytes(struct cushim_mem_heap *pool) {
    uint64_t now_ns = cushim_clock_coarse_ns();
    if (now_ns - pool->recent_since_ns >= recent_ns) {
        /* the peak may be old or a moment old, nobody looked: it counts for one second more */
        pool->recent_peak_bytes[1] = pool->recent_peak_bytes[0];
        pool->recent_peak_bytes[0] = pool->live_bytes;
        pool->recent_since_ns = now_ns;
        begin_second(&pool->bound);
    }
    return pool->recent_peak_bytes[pool->recent_peak_bytes[1] > pool->recent_peak_bytes[0]];
}

size_t cushim_mem_watermark_margin_bytes(struct cushim_mem_heap *pool) {
    return cushim_most(recent_peak_bytes(pool), pool->live_bytes) / MARGIN;
}

static size_t slack_bytes(const struct cushim_mem_heap *pool) {
    return pool->policy->is_sparing ? CUSHIM_MEM_SPARING_SLACK_BYTES : CUSHIM_MEM_HEAP_SLACK_BYTES;
}

static size_t with_margin(const struct cushim_mem_heap *pool, size_t n_bytes) {
    return n_bytes + n_bytes / MARGIN + slack_bytes(pool);
}

/*
 * What the neighbours on the device leave us.  Wholly free segments of the device's other contexts
 * share in it.  Any thread.
 */
static size_t shared_bound(const struct cushim_mem_heap *pool, size_t live_bytes) {
    const struct cushim_mem_watermark *bound = &pool->bound;
    size_t device_bytes = bound->device_bytes, held_bytes = pool->held_bytes;
    size_t others_bytes = cushim_less(cushim_mem_stats_read(&pool->stats->free_segment_bytes),
                                      pool->free_segment_bytes);
    if (!device_bytes)
        return SIZE_MAX;
    /* held - live + others <= (free + given back) / 2; given back is what is held now less held */
    size_t most_bytes =
        cushim_less(bound->device_free_bytes + held_bytes + 2 * live_bytes, 2 * others_bytes) / 3;
    if (live_bytes <= held_bytes / IDLE_SHARE || live_bytes <= CUSHIM_MEM_HEAP_SLACK_BYTES) {
        size_t idle_bytes = cushim_less(device_bytes / IDLE_DEVICE_SHARE, others_bytes);
        most_bytes = cushim_least(most_bytes, live_bytes + idle_bytes);
    }
    return cushim_most(most_bytes, live_bytes + CUSHIM_MEM_HEAP_SLACK_BYTES);
}

/*
 * What each size had live a moment ago, where plenty of the device is free, up to 5/16 more than
 * all of them together, and a little for what caches have.
 */
static size_t working_set(const struct cushim_mem_heap *pool, size_t basis_bytes) {
    const struct cushim_mem_watermark *bound = &pool->bound;
    bool is_roomy =
        bound->device_bytes && bound->device_free_bytes >= bound->device_bytes / ROOMY_SHARE;
    if (!is_roomy || cushim_mem_heap_packs(pool))
        return 0;
    size_t most_bytes = basis_bytes + basis_bytes / 16 * 5;
    return cushim_least(bound->working_set_bytes, most_bytes) +
           cushim_least(basis_bytes / 32, CUSHIM_MEM_HEAP_SLACK_BYTES);
}

/* The margin is on both, what is live and what was, since segments are coarser than blocks: without
 * it a loop that frees all and allocates again would send a segment back and forth at every turn.
 */
size_t cushim_mem_watermark_at(struct cushim_mem_heap *pool, size_t live_bytes) {
    size_t basis_bytes = cushim_most(recent_peak_bytes(pool), live_bytes);
    if (pool->policy->has_keep) {
        size_t keep_bytes = cushim_amount_bytes(pool->policy->keep, pool->bound.device_bytes);
        /* what the driver hands out in any case */
        basis_bytes = cushim_rounded(basis_bytes, CUSHIM_MEM_NATIVE_PAGE_BYTES);
        return cushim_most(basis_bytes, keep_bytes);
    }
    size_t own_bytes = cushim_most(with_margin(pool, basis_bytes), working_set(pool, basis_bytes));
    return cushim_least(own_bytes, shared_bound(pool, pool->live_bytes));
}

size_t cushim_mem_watermark_now(struct cushim_mem_heap *pool) {
    size_t held_bytes = pool->held_bytes, live_bytes = pool->live_bytes;
    bool has_keep = pool->policy->has_keep;
    if (!has_keep && held_bytes <= live_bytes + slack_bytes(pool))
        return held_bytes; /* nothing to ask the clock for */
    size_t now_bytes = cushim_mem_watermark_at(pool, live_bytes);
    /* while a capture is open no malloc gives anything back: a free leaves it room */
    return !has_keep && pool->fence->gate->is_open()
               ? cushim_least(now_bytes, with_margin(pool, live_bytes))
               : now_bytes;
}

static size_t live_bytes_of(const struct cushim_mem_heap *pool) {
    return cushim_less(atomic_load_explicit(&pool->live_bytes, memory_order_relaxed),
                       atomic_load_explicit(&pool->deferred.n_bytes, memory_order_relaxed));
}

bool cushim_mem_watermark_is_far_over(struct cushim_mem_heap *pool) {
    struct cushim_mem_watermark *bound = &pool->bound;
    size_t step_bytes = atomic_load_explicit(&bound->step_bytes, memory_order_relaxed);
    size_t held_bytes = atomic_load_explicit(&pool->held_bytes, memory_order_relaxed);
    size_t live_bytes = live_bytes_of(pool);
    if (!step_bytes || held_bytes <= live_bytes + CUSHIM_MEM_HEAP_SLACK_BYTES + step_bytes ||
        pool->policy->has_keep)
        return false;
    /* over the bound, not over what is live: the bound falls in a step where nothing lives on */
    size_t over_bytes = cushim_less(held_bytes, shared_bound(pool, live_bytes));
    size_t tried_bytes = atomic_load_explicit(&bound->tried_bytes, memory_order_relaxed);
    if (tried_bytes > over_bytes) { /* that much of it went, or is used again */
        tried_bytes = over_bytes;
        atomic_store_explicit(&bound->tried_bytes, tried_bytes, memory_order_relaxed);
    }
    return over_bytes > tried_bytes + step_bytes;
}

void cushim_mem_watermark_note_tried(struct cushim_mem_heap *pool) {
    size_t held_bytes = atomic_load_explicit(&pool->held_bytes, memory_order_relaxed);
    atomic_store_explicit(&pool->bound.tried_bytes,
                          cushim_less(held_bytes, shared_bound(pool, live_bytes_of(pool))),
                          memory_order_relaxed);
}
