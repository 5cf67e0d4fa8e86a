#include "memory/heap/growth.h"

#include "base/bits.h"
#include "base/clock.h"
#include "base/try.h"
#include "memory/cache/cache.h"
#include "memory/state/free_lists.h"
#include "memory/state/segments.h"
#include "memory/state/heap_state.h"
#include "memory/heap/heap.h"

static const uint64_t drain_again_ns = 100000000;

/* Has the device nothing to do, so that a release waits for nothing? */
static bool is_quiet(struct cushim_mem_heap *pool) {
    CUresult answer;
    return cushim_mem_deferred_batch_prove(pool, cushim_mem_fence_tag(pool->fence), &answer);
}

/* ---- the bound ---- */

size_t cushim_mem_growth_target(struct cushim_mem_heap *pool) {
    size_t held_bytes = pool->held_bytes, live_bytes = pool->live_bytes;
    size_t slack_bytes =
        pool->policy->is_sparing ? CUSHIM_MEM_SPARING_SLACK_BYTES : CUSHIM_MEM_HEAP_SLACK_BYTES;
    if (!pool->policy->has_keep && held_bytes <= live_bytes + slack_bytes)
        return held_bytes; /* nothing to ask the clock for */
    size_t target_bytes = cushim_mem_watermark_at(pool, live_bytes);
    /* while a capture is open no malloc gives anything back: a free leaves it room */
    size_t bare_bytes = cushim_mem_watermark_of_live(pool);
    bool is_bare = !pool->policy->has_keep && bare_bytes < target_bytes && pool->gate->is_open();
    return is_bare ? bare_bytes : target_bytes;
}

/* ---- giving back ---- */

/* Release a list, and remember that the driver has it again. */
static size_t give_back(struct cushim_mem_heap *pool, struct cushim_mem_segment *list) {
    size_t n_bytes = list ? cushim_mem_segments_release(pool, list) : 0;
    pthread_mutex_lock(&pool->lock);
    cushim_mem_watermark_note_given(pool, n_bytes);
    pthread_mutex_unlock(&pool->lock);
    return n_bytes;
}

/*
 * In a request, until no more than target_bytes are held: natively a malloc waits for nothing, so a
 * segment goes only where its release does not either.  That is asked for each of them: another
 * thread may submit at any moment, and what it submits between the question and the release is
 * waited for.
 */
static size_t give_back_quietly(struct cushim_mem_heap *pool, size_t target_bytes) {
    size_t n_bytes = 0, n_more = 1;
    bool is_drained = false;
    while (n_more && (pool->source->is_prompt || is_quiet(pool))) {
        struct cushim_mem_segment *segment = NULL;
        pthread_mutex_lock(&pool->lock);
        if (!is_drained && pool->held_bytes > target_bytes)
            cushim_mem_free_lists_drain(pool);
        is_drained = true;
        if (pool->held_bytes > target_bytes)
            segment = cushim_mem_segments_detach(pool, pool->held_bytes - 1);
        pthread_mutex_unlock(&pool->lock);
        n_more = give_back(pool, segment);
        n_bytes += n_more;
    }
    return n_bytes;
}

/* ---- getting ---- */

/* The pool would pass its bound: give back what is free; where that would wait the next free does.
 */
static void make_way(struct cushim_mem_heap *pool, size_t n_bytes, size_t segment_bytes) {
    pthread_mutex_lock(&pool->lock);
    size_t bound_bytes = cushim_mem_watermark_at(pool, pool->live_bytes + n_bytes);
    bool is_over = pool->held_bytes + segment_bytes > bound_bytes && pool->free_segment_bytes;
    pthread_mutex_unlock(&pool->lock);
    if (is_over)
        give_back_quietly(pool, cushim_less(bound_bytes, segment_bytes));
}

enum cushim_status cushim_mem_growth_fetch(struct cushim_mem_heap *pool, size_t n_bytes,
                                           bool is_dedicated, size_t *segment_bytes,
                                           uint64_t *base) {
    *segment_bytes = cushim_mem_provider_round(pool->source, n_bytes);
    if (!is_dedicated && !cushim_round_up(n_bytes, CUSHIM_MEM_NATIVE_PAGE_BYTES, segment_bytes))
        return CUSHIM_NOMEM;
    if (*segment_bytes < n_bytes) /* rounded past what there is */
        return CUSHIM_NOMEM;
    cushim_mem_watermark_ask(pool);
    make_way(pool, n_bytes, *segment_bytes);
    CUSHIM_TRY(cushim_mem_segments_fetch(pool, *segment_bytes, base));
    pthread_mutex_lock(&pool->lock);
    cushim_mem_watermark_note_taken(pool, *segment_bytes);
    pthread_mutex_unlock(&pool->lock);
    return CUSHIM_OK;
}

enum cushim_status cushim_mem_growth_take(struct cushim_mem_heap *pool, uint64_t life,
                                          size_t n_bytes, struct cushim_mem_blockref *place) {
    bool is_own = cushim_mem_free_lists_is_dedicated(pool, n_bytes);
    size_t segment_bytes;
    uint64_t base;
    CUSHIM_TRY(cushim_mem_growth_fetch(pool, n_bytes, is_own, &segment_bytes, &base));
    if (!cushim_mem_heap_lock_life(pool, life))
        return CUSHIM_STATE;
    struct cushim_mem_extent *extent = cushim_mem_segments_enter(pool, base, segment_bytes, is_own);
    *place = (struct cushim_mem_blockref){extent, 0};
    bool is_served = extent && is_own;
    if (is_served)
        cushim_mem_free_lists_count_taken(pool, extent->block_bytes);
    else if (extent) /* fails when host memory for descriptors is out */
        is_served = cushim_mem_free_lists_take(pool, n_bytes, place);
    if (is_served)
        return CUSHIM_OK;
    pthread_mutex_unlock(&pool->lock);
    if (!extent)
        cushim_mem_segments_put_back(pool, base, segment_bytes);
    return CUSHIM_NOMEM;
}

/* ---- in a free ---- */

static void shrink(struct cushim_mem_heap *pool, uint64_t life) {
    struct cushim_mem_segment *excess = NULL;
    if (!cushim_mem_heap_lock_life(pool, life))
        return;
    size_t target_bytes = cushim_mem_growth_target(pool);
    if (pool->held_bytes > target_bytes) {
        cushim_mem_free_lists_drain(pool); /* one free slab can keep a whole segment */
        excess = cushim_mem_segments_detach(pool, target_bytes);
    }
    pthread_mutex_unlock(&pool->lock);
    give_back(pool, excess);
}

/* Under the lock: is this due?  Not before it has stood still for so long. */
static bool is_due(uint64_t *done_ns, uint64_t now_ns, uint64_t again_ns) {
    if (now_ns - *done_ns < again_ns)
        return false;
    *done_ns = now_ns;
    return true;
}

/*
 * Caches pin segments: they are emptied where the pool holds too much, but not again and again
 * where the rest is pinned by live blocks.
 *
 * A relaxed free waits for nothing, and the driver's own free of a segment waits for the device: so
 * only where that is quiet, asked once a tick of the coarse clock.  What is far over the bound is
 * settle's.
 */
void cushim_mem_growth_shrink(struct cushim_mem_heap *pool, uint64_t life, bool has_waited) {
    cushim_mem_watermark_ask(pool);
    uint64_t now_ns = cushim_clock_coarse_ns();
    bool may_wait = has_waited || !pool->policy->is_relaxed || pool->source->is_prompt;
    if (!cushim_mem_heap_lock_life(pool, life))
        return;
    bool is_over = pool->held_bytes > cushim_mem_growth_target(pool);
    bool drains = is_over && is_due(&pool->drained_ns, now_ns, drain_again_ns);
    bool asks = is_over && !may_wait && is_due(&pool->quiet_asked_ns, now_ns, 1);
    pthread_mutex_unlock(&pool->lock);
    if (drains)
        cushim_mem_cache_drain_all(pool);
    if (is_over && (may_wait || (asks && is_quiet(pool))))
        shrink(pool, life);
}

void cushim_mem_growth_settle(struct cushim_mem_heap *pool, uint64_t life, uint64_t tag) {
    CUresult answer;
    cushim_mem_watermark_ask(pool);
    if (!cushim_mem_watermark_is_far_over(pool))
        return;
    cushim_mem_cache_drain_all(pool); /* what is in caches is deferred, too, and pins segments */
    enum cushim_status status =
        cushim_mem_fence_await(pool->fence, pool->gate, tag, 0, pool->stats, &answer);
    if (!cushim_mem_heap_lock_life(pool, life))
        return;
    if (status == CUSHIM_OK)
        cushim_mem_heap_give_deferred(pool);
    else
        cushim_mem_heap_note_damage(pool, answer);
    pthread_mutex_unlock(&pool->lock);
    if (status != CUSHIM_OK)
        return;
    shrink(pool, life);
    cushim_mem_watermark_note_tried(pool);
}

size_t cushim_mem_growth_trim(struct cushim_mem_heap *pool, size_t keep_bytes) {
    cushim_mem_cache_drain_all(pool);
    pthread_mutex_lock(&pool->lock);
    cushim_mem_free_lists_drain(pool);
    size_t free_bytes = pool->free_segment_bytes;
    struct cushim_mem_segment *list =
        free_bytes > keep_bytes
            ? cushim_mem_segments_detach(pool, pool->held_bytes - (free_bytes - keep_bytes))
            : NULL;
    pthread_mutex_unlock(&pool->lock);
    return give_back(pool, list);
}

size_t cushim_mem_growth_trim_quietly(struct cushim_mem_heap *pool) {
    cushim_mem_cache_drain_all(pool);
    return give_back_quietly(pool, 0);
}
