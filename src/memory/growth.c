#include "memory/growth.h"

#include "base/bits.h"
#include "base/clock.h"
#include "memory/shelf.h"
#include "memory/supply.h"

enum {
    SEGMENT_STEP_BYTES = 2 << 20, /* what the driver hands out in any case */
    STEADY_SEGMENT_BYTES = 32 << 20,
    SLACK_BYTES = 32 << 20 /* may be held free beyond what recent use explains */
};
static const size_t largest_segment_bytes = (size_t)256 << 20;
static const uint64_t recent_ns = 1000000000;

/* The least that serves the request, and what the pool would rather get: a quarter of what it holds
 * until segments are large enough to pack well, then a sixty-fourth, which is what the last one
 * may waste. */
static bool segment_sizes(struct cushim_mem_pool *pool, size_t n_bytes, size_t *least_bytes,
                          size_t *wanted_bytes) {
    size_t need_bytes = n_bytes;
    if (n_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES)
        need_bytes = (size_t)cushim_mem_sizeclass_slab_pages(cushim_mem_sizeclass_of(n_bytes)) *
                     CUSHIM_MEM_PAGE_BYTES;
    if (!cushim_round_up(need_bytes, SEGMENT_STEP_BYTES, least_bytes))
        return false;
    pthread_mutex_lock(&pool->lock);
    size_t held_bytes = pool->held_bytes;
    pthread_mutex_unlock(&pool->lock);
    size_t share_bytes =
        held_bytes / 4 < STEADY_SEGMENT_BYTES ? held_bytes / 4 : STEADY_SEGMENT_BYTES;
    if (share_bytes < held_bytes / 64)
        share_bytes =
            held_bytes / 64 < largest_segment_bytes ? held_bytes / 64 : largest_segment_bytes;
    share_bytes &= ~(size_t)(SEGMENT_STEP_BYTES - 1);
    *wanted_bytes = share_bytes > *least_bytes ? share_bytes : *least_bytes;
    return true;
}

/* Fetch memory, making do with less and giving back what is free before giving up. */
static enum cushim_status climb(struct cushim_mem_pool *pool, size_t least_bytes, size_t *n_bytes,
                                uint64_t *base) {
    enum cushim_status status = cushim_mem_supply_fetch(pool, *n_bytes, base);
    if (status == CUSHIM_NOMEM && *n_bytes > least_bytes) {
        *n_bytes = least_bytes;
        status = cushim_mem_supply_fetch(pool, *n_bytes, base);
    }
    if (status == CUSHIM_NOMEM && cushim_mem_growth_trim(pool, 0))
        status = cushim_mem_supply_fetch(pool, *n_bytes, base);
    return status;
}

enum cushim_status cushim_mem_growth_fetch(struct cushim_mem_pool *pool, size_t n_bytes,
                                           bool is_dedicated, size_t *segment_bytes,
                                           uint64_t *base) {
    size_t least_bytes = n_bytes;
    *segment_bytes = n_bytes;
    if (!is_dedicated && !segment_sizes(pool, n_bytes, &least_bytes, segment_bytes))
        return CUSHIM_NOMEM;
    return climb(pool, least_bytes, segment_bytes, base);
}

/*
 * How much may be held: a little more than is live, or was a moment ago (section 5).  The margin is
 * on both, since segments are coarser than blocks: without it a loop that frees all and allocates
 * again would send a segment back and forth at every turn.
 */
size_t cushim_mem_growth_target(struct cushim_mem_pool *pool) {
    size_t basis = pool->live_bytes;
    if (pool->held_bytes <= basis + basis / 16 + SLACK_BYTES)
        return pool->held_bytes;
    uint64_t now_ns = cushim_clock_coarse_ns();
    if (now_ns - pool->recent_since_ns >= recent_ns) {
        /* the peak may be old or a moment old, nobody looked: it counts for one second more */
        pool->recent_peak_bytes[1] = pool->recent_peak_bytes[0];
        pool->recent_peak_bytes[0] = pool->live_bytes;
        pool->recent_since_ns = now_ns;
    }
    for (int i = 0; i < 2; i++) {
        if (pool->recent_peak_bytes[i] > basis)
            basis = pool->recent_peak_bytes[i];
    }
    return basis + basis / 16 + SLACK_BYTES;
}

size_t cushim_mem_growth_trim(struct cushim_mem_pool *pool, size_t keep_bytes) {
    pthread_mutex_lock(&pool->lock);
    cushim_mem_shelf_drain(pool);
    size_t excess_bytes =
        pool->free_segment_bytes > keep_bytes ? pool->free_segment_bytes - keep_bytes : 0;
    struct cushim_mem_segment *list =
        excess_bytes ? cushim_mem_supply_detach(pool, pool->held_bytes - excess_bytes) : NULL;
    pthread_mutex_unlock(&pool->lock);
    return cushim_mem_supply_release(pool, list);
}

size_t cushim_mem_growth_reusable_bytes(struct cushim_mem_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    cushim_mem_shelf_drain(pool);
    size_t n_bytes = pool->free_segment_bytes;
    /* the driver gives and takes whole steps, and dedicated segments are of the size asked for */
    for (const struct cushim_mem_extent *extent = pool->idle; extent; extent = extent->next)
        n_bytes += -extent->segment->n_bytes & (SEGMENT_STEP_BYTES - 1);
    pthread_mutex_unlock(&pool->lock);
    return n_bytes;
}
