#include "memory/pool.h"

#include <string.h>

#include "base/clock.h"
#include "base/try.h"
#include "cuda/translate.h"
#include "memory/current.h"
#include "memory/growth.h"
#include "memory/shelf.h"
#include "memory/supply.h"

/* Held for tens of nanoseconds: who finds it taken looks again before going to sleep. */
static void make_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(lock, &kind);
    pthread_mutexattr_destroy(&kind);
}

void cushim_mem_pool_open(struct cushim_mem_pool *pool, const struct cushim_mem_pool_setup *setup) {
    if (!atomic_load(&pool->generation)) /* a first life: locks are never made twice */
        make_lock(&pool->lock);
    pool->cuda = setup->cuda;
    pool->context = setup->context;
    pool->device = setup->device;
    pool->ledger = setup->ledger;
    pool->gate = setup->gate;
    pool->policy = setup->policy;
    pool->stats = setup->stats;
    atomic_store(&pool->damage, CUDA_SUCCESS);
    pool->kind = setup->kind;
    pool->flags = setup->flags;
    pool->source = setup->source;
    pool->fence = setup->fence ? setup->fence : &pool->own_fence;
    if (pool->fence == &pool->own_fence)
        cushim_mem_fence_init(pool->fence, setup->cuda, setup->context);
    pool->recent_since_ns = cushim_clock_coarse_ns();
    atomic_fetch_add(&pool->generation, 1);
}

void cushim_mem_pool_abandon(struct cushim_mem_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->generation, 1);
    cushim_mem_supply_abandon(pool);
    for (struct cushim_mem_pending_row *row = pool->pending.first, *next; row; row = next) {
        next = row->next;
        cushim_mem_meta_release(&pool->meta, row, sizeof *row);
    }
    if (pool->fence == &pool->own_fence)
        cushim_mem_fence_abandon(pool->fence);
    memset(&pool->extents, 0, sizeof pool->extents);
    memset(pool->buckets, 0, sizeof pool->buckets);
    pool->idle = NULL;
    pool->pending = (struct cushim_mem_pending){0};
    pool->live_bytes = pool->held_bytes = pool->free_segment_bytes = 0;
    pool->recent_peak_bytes[0] = pool->recent_peak_bytes[1] = 0;
    pthread_mutex_unlock(&pool->lock);
}

/* Take the lock, unless the context went, and everything with it, since `life` was read. */
static bool lock_in_life(struct cushim_mem_pool *pool, uint64_t life) {
    pthread_mutex_lock(&pool->lock);
    if (atomic_load_explicit(&pool->generation, memory_order_relaxed) == life)
        return true;
    pthread_mutex_unlock(&pool->lock);
    return false;
}

/* Hand a taken place out: from here on it is LIVE. */
static void commit(struct cushim_mem_pool *pool, const struct cushim_mem_place *place,
                   size_t n_bytes, struct cushim_mem_block *block) {
    struct cushim_mem_extent *extent = place->extent;
    struct cushim_mem_cell *cell = cushim_mem_shelf_cell(place);
    block->address = cushim_mem_extent_address(extent) + place->index * extent->block_bytes;
    block->block_bytes = extent->block_bytes;
    atomic_store_explicit(&cell->asked_bytes, n_bytes, memory_order_relaxed);
    atomic_store_explicit(&cell->state, CUSHIM_MEM_LIVE, memory_order_release);
    pool->live_bytes += extent->block_bytes;
    if (pool->live_bytes > pool->recent_peak_bytes[0])
        pool->recent_peak_bytes[0] = pool->live_bytes;
    cushim_mem_stats_grow(&pool->stats->live_bytes, &pool->stats->peak_live_bytes, n_bytes);
    cushim_mem_stats_add(&pool->stats->block_bytes, extent->block_bytes);
    cushim_mem_stats_add(&pool->stats->requested_bytes, n_bytes);
    cushim_mem_stats_add(&pool->stats->n_requests, 1);
    cushim_mem_stats_add(block->is_hit ? &pool->stats->n_hits : &pool->stats->n_misses, 1);
}

/* ---- growing ---- */

static enum cushim_status grow(struct cushim_mem_pool *pool, size_t n_bytes,
                               struct cushim_mem_block *block) {
    bool is_own = cushim_mem_shelf_is_dedicated(pool, n_bytes);
    size_t segment_bytes;
    uint64_t base, life = atomic_load(&pool->generation);
    CUSHIM_TRY(cushim_mem_growth_fetch(pool, n_bytes, is_own, &segment_bytes, &base));

    struct cushim_mem_place place = {NULL, 0};
    if (!lock_in_life(pool, life)) /* the memory went with the context */
        return CUSHIM_STATE;
    struct cushim_mem_extent *extent = cushim_mem_supply_enter(pool, base, segment_bytes, is_own);
    bool is_served = false;
    if (extent && is_own) {
        place.extent = extent;
        is_served = true;
    } else if (extent) {
        is_served = cushim_mem_shelf_take(
            pool, n_bytes, &place); /* fails when host memory for descriptors is out */
    }
    if (is_served)
        commit(pool, &place, n_bytes, block);
    pthread_mutex_unlock(&pool->lock);
    if (!extent)
        cushim_mem_supply_put_back(pool, base, segment_bytes);
    return is_served ? CUSHIM_OK : CUSHIM_NOMEM;
}

/* Pending blocks that are over become free; a wait of the context has covered rows up to
 * waited_serial. */
static void give_pending(struct cushim_mem_pool *pool, uint64_t waited_serial) {
    struct cushim_mem_pending_row row;
    while (cushim_mem_pending_take(&pool->pending, &pool->meta, pool->cuda, waited_serial, &row)) {
        if (row.event)
            pool->cuda->cuEventDestroy_v2(row.event);
        cushim_mem_shelf_give(pool, row.segment, &row.place);
    }
}

/* ---- the public face ---- */

static bool is_ready(const struct cushim_mem_pool *pool) {
    return cushim_mem_pool_is_open(pool) &&
           atomic_load_explicit(&pool->damage, memory_order_relaxed) == CUDA_SUCCESS;
}

enum cushim_status cushim_mem_pool_obtain_hit(struct cushim_mem_pool *pool,
                                              const struct cushim_mem_request *request,
                                              struct cushim_mem_block *block) {
    struct cushim_mem_place place;
    uint64_t life = atomic_load(&pool->generation);
    if (!is_ready(pool) || !lock_in_life(pool, life))
        return CUSHIM_STATE;
    block->is_hit = true;
    bool is_taken = cushim_mem_shelf_take(pool, request->n_bytes, &place);
    if (is_taken)
        commit(pool, &place, request->n_bytes, block);
    pthread_mutex_unlock(&pool->lock);
    return is_taken ? CUSHIM_OK : CUSHIM_NOTFOUND;
}

enum cushim_status cushim_mem_pool_obtain(struct cushim_mem_pool *pool,
                                          const struct cushim_mem_request *request,
                                          struct cushim_mem_block *block) {
    enum cushim_status status = cushim_mem_pool_obtain_hit(pool, request, block);
    if (status != CUSHIM_NOTFOUND)
        return status;
    pthread_mutex_lock(&pool->lock);
    bool has_pending = pool->pending.first != NULL;
    if (has_pending)
        give_pending(pool, 0);
    pthread_mutex_unlock(&pool->lock);
    if (has_pending && cushim_mem_pool_obtain_hit(pool, request, block) == CUSHIM_OK)
        return CUSHIM_OK;
    block->is_hit = false;
    return grow(pool, request->n_bytes, block);
}

/* Of the block as it is now, which need not be the one that was looked up. */
static size_t asked_bytes_of(const struct cushim_mem_found *found) {
    return atomic_load_explicit(&found->cell->asked_bytes, memory_order_relaxed);
}

static void count_free(struct cushim_mem_pool *pool, const struct cushim_mem_found *found) {
    cushim_mem_stats_subtract(&pool->stats->live_bytes, asked_bytes_of(found));
    cushim_mem_stats_subtract(&pool->stats->block_bytes, found->block_bytes);
    cushim_mem_stats_add(&pool->stats->n_frees, 1);
}

/* LIVE -> PENDING: of several threads that free the same block one gets it. */
static bool claim(struct cushim_mem_pool *pool, const struct cushim_mem_found *found) {
    uint_fast32_t live = CUSHIM_MEM_LIVE;
    bool is_first = atomic_compare_exchange_strong_explicit(
        &found->cell->state, &live, CUSHIM_MEM_PENDING, memory_order_acq_rel, memory_order_acquire);
    if (is_first)
        count_free(pool, found);
    return is_first;
}

/* The free failed: the block is as it was. */
static void unclaim(struct cushim_mem_pool *pool, const struct cushim_mem_found *found) {
    cushim_mem_stats_add(&pool->stats->live_bytes, asked_bytes_of(found));
    cushim_mem_stats_add(&pool->stats->block_bytes, found->block_bytes);
    cushim_mem_stats_subtract(&pool->stats->n_frees, 1);
    atomic_store_explicit(&found->cell->state, CUSHIM_MEM_LIVE, memory_order_release);
}

/* The context went while the block was being freed: so did the block. */
static enum cushim_status gone(CUresult *answer) {
    *answer = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return CUSHIM_DEADCONTEXT;
}

/* Answers that mean the context is broken for good; those about captures and rights are the call's
 * own. */
static bool is_damage(enum cushim_status status) {
    return status == CUSHIM_FAULT || status == CUSHIM_LAUNCH || status == CUSHIM_ECC ||
           status == CUSHIM_DEADCONTEXT || status == CUSHIM_UNKNOWN;
}

/* The driver refused: the block is LIVE as before. */
static enum cushim_status refuse(struct cushim_mem_pool *pool, const struct cushim_mem_found *found,
                                 CUresult answer) {
    enum cushim_status status = cushim_status_from_cu(answer);
    if (is_damage(status))
        atomic_store(&pool->damage, (int)answer);
    unclaim(pool, found);
    return status;
}

/* The wait failed: out of memory for the barrier leaves the block pending, all else gives it back.
 */
static enum cushim_status resolve_failed_wait(struct cushim_mem_pool *pool,
                                              const struct cushim_mem_found *found, uint64_t life,
                                              CUresult *answer) {
    if (!lock_in_life(pool, life))
        return gone(answer);
    bool is_kept =
        *answer == CUDA_ERROR_OUT_OF_MEMORY &&
        cushim_mem_pending_add(&pool->pending, &pool->meta, found->segment, &found->place, NULL);
    enum cushim_status status = is_kept ? CUSHIM_OK : refuse(pool, found, *answer);
    pthread_mutex_unlock(&pool->lock);
    if (is_kept)
        *answer = CUDA_SUCCESS;
    return status;
}

static enum cushim_status release_uncached(struct cushim_mem_pool *pool,
                                           const struct cushim_mem_found *found, uint64_t life,
                                           CUresult *answer) {
    enum cushim_status status = cushim_mem_supply_free(pool, found->segment, answer);
    if (!lock_in_life(pool, life))
        return status == CUSHIM_OK ? CUSHIM_OK : gone(answer);
    if (status == CUSHIM_OK)
        pool->live_bytes -= found->block_bytes;
    else
        status = refuse(pool, found, *answer);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

enum cushim_status cushim_mem_pool_release(struct cushim_mem_pool *pool,
                                           const struct cushim_mem_found *found, CUresult *answer) {
    uint64_t life = atomic_load(&pool->generation);
    *answer = CUDA_SUCCESS;
    if (!is_ready(pool))
        return CUSHIM_STATE;
    if (!claim(pool, found))
        return CUSHIM_DOUBLEFREE;
    if (found->segment->is_dedicated &&
        atomic_load_explicit(&pool->policy->is_dedicated_uncached, memory_order_relaxed))
        return release_uncached(pool, found, life, answer);

    /* rows that the wait below will have covered */
    uint64_t waited_serial = atomic_load_explicit(&pool->pending.serial, memory_order_acquire);
    if (cushim_mem_fence_wait(pool->fence, pool->gate, pool->stats, answer) != CUSHIM_OK)
        return resolve_failed_wait(pool, found, life, answer);

    if (!lock_in_life(pool, life))
        return gone(answer);
    cushim_mem_shelf_give(pool, found->segment, &found->place);
    if (pool->pending.first)
        give_pending(pool, waited_serial);
    struct cushim_mem_segment *excess = NULL;
    size_t target_bytes = cushim_mem_growth_target(pool);
    if (pool->held_bytes > target_bytes) {
        cushim_mem_shelf_drain(pool); /* one free slab can keep a whole segment */
        if (pool->free_segment_bytes)
            excess = cushim_mem_supply_detach(pool, target_bytes);
    }
    pthread_mutex_unlock(&pool->lock);
    if (excess)
        cushim_mem_supply_release(pool, excess);
    return CUSHIM_OK;
}

/* An event behind the work of `stream`, whatever context that belongs to. */
static CUresult record_on(struct cushim_mem_pool *pool, CUstream stream, CUevent *event) {
    struct cushim_cuda *cuda = pool->cuda;
    CUcontext context = pool->context;
    CUresult answer = CUDA_SUCCESS;
    *event = NULL;
    bool is_special = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    if (is_special)
        answer = cuda->cuCtxGetCurrent(&context);
    else if (cuda->cuStreamGetCtx)
        answer = cuda->cuStreamGetCtx(stream, &context);
    if (answer != CUDA_SUCCESS)
        return answer;
    bool has_entered = cushim_mem_current_enter(cuda, context, &answer);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuEventRecord(*event, stream);
    if (has_entered)
        cushim_mem_current_leave(cuda);
    if (answer != CUDA_SUCCESS && *event)
        cuda->cuEventDestroy_v2(*event);
    return answer;
}

enum cushim_status cushim_mem_pool_release_on(struct cushim_mem_pool *pool,
                                              const struct cushim_mem_found *found, CUstream stream,
                                              CUresult *answer) {
    CUevent event;
    uint64_t life = atomic_load(&pool->generation);
    *answer = CUDA_SUCCESS;
    if (!is_ready(pool))
        return CUSHIM_STATE;
    if (!claim(pool, found))
        return CUSHIM_DOUBLEFREE;
    *answer = record_on(pool, stream, &event);
    if (!lock_in_life(pool, life))
        return gone(answer);
    if (*answer == CUDA_SUCCESS && !cushim_mem_pending_add(&pool->pending, &pool->meta,
                                                           found->segment, &found->place, event)) {
        pool->cuda->cuEventDestroy_v2(event);
        *answer = CUDA_ERROR_OUT_OF_MEMORY;
    }
    enum cushim_status status = *answer == CUDA_SUCCESS ? CUSHIM_OK : refuse(pool, found, *answer);
    pthread_mutex_unlock(&pool->lock);
    if (status != CUSHIM_OK)
        return status;
    return CUSHIM_OK;
}
