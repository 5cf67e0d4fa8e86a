/*
 * Giving back: batches that are due, caps, drains and trims.
 *
 * Only blocks that are over leave a lane for the shelf; only segments without a block go to the
 * driver.  Its own free of device memory may wait for the device, so none is made by a free or a
 * trim while a capture is known.
 */
#include "base/try.h"
#include "companion/capture/known_captures.h"
#include "companion/core/changes.h"
#include "companion/capture/graph_resources.h"
#include "companion/pool/pool_request.h"

/* Over a cap with marks in flight only every so many frees ask. */
enum { ASK_EVERY = 16 };

/* ---- a branch ---- */

static void count_evicted(struct cushim_pool_heap *branch, size_t n) {
    pthread_mutex_lock(&branch->lock);
    if (branch->pool)
        atomic_fetch_add_explicit(&branch->pool->n_evicted, n, memory_order_relaxed);
    pthread_mutex_unlock(&branch->lock);
}

static void prove_all(struct cushim_pool_heap *branch, const char *what,
                      enum cushim_pool_effort effort, enum cushim_status *status) {
    struct cushim_pool_cache *lane = atomic_load_explicit(&branch->lanes, memory_order_acquire);
    for (; lane; lane = lane->next) {
        enum cushim_status proven = cushim_pool_cache_idle_bytes(lane)
                                        ? cushim_pool_cache_prove(lane, what, effort)
                                        : CUSHIM_OK;
        if (status && *status == CUSHIM_OK)
            *status = proven;
    }
}

/* The largest block of all lanes that is over. */
static struct cushim_pool_block *take_largest(struct cushim_pool_heap *branch) {
    struct cushim_pool_block *best = NULL;
    struct cushim_pool_cache *lane = atomic_load_explicit(&branch->lanes, memory_order_acquire);
    for (; lane; lane = lane->next) {
        cushim_pool_cache_lock(lane);
        struct cushim_pool_block *block = cushim_pool_cache_pop_largest(lane, true);
        if (block && best && block->bucket_bytes <= best->bucket_bytes) {
            cushim_pool_cache_push_over(lane, block);
            block = NULL;
        }
        cushim_pool_cache_unlock(lane);
        if (block && best) {
            struct cushim_pool_cache *other =
                atomic_load_explicit(&best->lane, memory_order_relaxed);
            cushim_pool_cache_lock(other);
            cushim_pool_cache_push_over(other, best);
            cushim_pool_cache_unlock(other);
        }
        best = block ? block : best;
    }
    return best;
}

size_t cushim_pool_reclaim(struct cushim_pool_heap *branch, const char *what, size_t bytes,
                           enum cushim_pool_effort effort, enum cushim_status *status) {
    size_t n_bytes = 0, n = 0;
    struct cushim_pool_block *block;
    prove_all(branch, what, effort, status);
    while (n_bytes < bytes && (block = take_largest(branch))) {
        n_bytes += block->bucket_bytes;
        n++;
        cushim_pool_heap_give(branch, block);
    }
    count_evicted(branch, n);
    return n_bytes;
}

size_t cushim_pool_give_back(struct cushim_pool_heap *branch, const char *what, size_t keep_bytes) {
    struct cushim_scope scope;
    (void)what;
    if (atomic_load(&branch->is_lost) || !cushim_call_begin_quietly(&scope, branch->context))
        return 0;
    size_t n_bytes = cushim_mem_direct_trim(&branch->core, keep_bytes);
    cushim_call_end(&scope, CUSHIM_OK);
    return n_bytes;
}

/* ---- after a free ---- */

size_t cushim_pool_idle_bytes(const struct cushim_pool_heap *branch) {
    size_t n_bytes = 0;
    const struct cushim_pool_cache *lane =
        atomic_load_explicit(&branch->lanes, memory_order_acquire);
    for (; lane; lane = lane->next)
        n_bytes += cushim_pool_cache_idle_bytes(lane);
    return n_bytes;
}

static size_t idle_bytes_of(struct cushim_pool_object *pool) {
    size_t n_bytes = 0;
    struct cushim_pool_heap *branch = atomic_load_explicit(&pool->branches, memory_order_acquire);
    for (; branch; branch = atomic_load_explicit(&branch->next, memory_order_acquire))
        n_bytes += cushim_pool_idle_bytes(branch);
    return n_bytes;
}

/* How many blocks of a bucket are too many, over all lanes of the branch.  Without their locks:
 * each batch of frees asks, and would end the ownership of all other threads. */
static size_t excess_of(const struct cushim_pool_heap *branch, size_t bucket_bytes) {
    size_t n = 0, n_most = cushim_pool_heap_most(branch, bucket_bytes);
    const struct cushim_pool_cache *lane =
        atomic_load_explicit(&branch->lanes, memory_order_acquire);
    for (; lane; lane = lane->next)
        n += cushim_pool_bins_count(&lane->bins, bucket_bytes);
    return n > n_most ? n - n_most : 0;
}

/* The oldest blocks of a bucket that are over go to the shelf. */
static size_t evict(struct cushim_pool_heap *branch, size_t bucket_bytes, size_t n_blocks) {
    size_t n = 0;
    struct cushim_pool_cache *lane = atomic_load_explicit(&branch->lanes, memory_order_acquire);
    for (; lane && n < n_blocks; lane = lane->next) {
        struct cushim_pool_block *block;
        if (!cushim_pool_bins_count(&lane->bins, bucket_bytes))
            continue;
        do {
            cushim_pool_cache_lock(lane);
            block = cushim_pool_cache_pop_over(lane, bucket_bytes);
            cushim_pool_cache_unlock(lane);
            if (block) {
                cushim_pool_heap_give(branch, block);
                n++;
            }
        } while (block && n < n_blocks);
    }
    count_evicted(branch, n);
    return n;
}

/* May this free ask the driver?  Marks in flight are not asked after at every free. */
static bool is_due(struct cushim_pool_cache *lane) {
    cushim_pool_cache_lock(lane);
    bool is_due = !lane->n_flights || lane->open_blocks % ASK_EVERY == 0;
    cushim_pool_cache_unlock(lane);
    return is_due;
}

static bool is_batch_due(struct cushim_pool_cache *lane) {
    cushim_pool_cache_lock(lane);
    bool is_due = lane->open_blocks >= CUSHIM_POOL_BATCH_BLOCKS ||
                  lane->open_bytes >= CUSHIM_POOL_BATCH_BYTES;
    cushim_pool_cache_unlock(lane);
    return is_due;
}

void cushim_pool_trim_idle(struct cushim_pool_object *pool, struct cushim_pool_heap *branch,
                           struct cushim_pool_cache *lane, const char *what, size_t bucket_bytes) {
    bool is_holding = atomic_load_explicit(&pool->is_holding, memory_order_relaxed);
    size_t idle_bytes = pool->cap_cached_bytes ? idle_bytes_of(pool) : 0;
    size_t over_bytes =
        idle_bytes > pool->cap_cached_bytes ? idle_bytes - pool->cap_cached_bytes : 0;
    size_t excess = excess_of(branch, bucket_bytes), n_gone = 0;
    if (!is_holding)
        over_bytes = SIZE_MAX;
    if (is_batch_due(lane) || ((over_bytes || excess) && is_due(lane)))
        cushim_pool_cache_prove(lane, what, CUSHIM_POOL_MARK);
    if (excess)
        n_gone += evict(branch, bucket_bytes, excess);
    if (over_bytes)
        n_gone += cushim_pool_reclaim(branch, what, over_bytes, CUSHIM_POOL_ASK, NULL);
    if (n_gone && !cushim_capture_count(branch->context))
        cushim_pool_give_back(branch, what, is_holding ? pool->keep_bytes : 0);
}

/* ---- the calls ---- */

static enum cushim_status drain_branch(struct cushim_pool_heap *branch, const char *what) {
    enum cushim_status status = CUSHIM_OK;
    bool has_capture = cushim_capture_count(branch->context) != 0;
    if (cushim_context_is_dead(branch->context)) {
        cushim_pool_heap_lose(branch);
        return CUSHIM_OK;
    }
    cushim_pool_reclaim(branch, what, SIZE_MAX, has_capture ? CUSHIM_POOL_ASK : CUSHIM_POOL_WAIT,
                        &status);
    cushim_pool_give_back(branch, what, 0);
    return status;
}

static enum cushim_status drain(struct cushim_pool_call *call) {
    enum cushim_status status = CUSHIM_OK;
    struct cushim_pool_heap *branch =
        atomic_load_explicit(&call->pool->branches, memory_order_acquire);
    for (; branch; branch = atomic_load_explicit(&branch->next, memory_order_acquire)) {
        enum cushim_status drained = drain_branch(branch, call->what);
        status = status == CUSHIM_OK ? drained : status;
    }
    return status;
}

enum cushim_status cushim_pool_drain(struct cushim_pool *p) {
    struct cushim_pool_call call;
    cushim_graph_resources_give_back();
    CUSHIM_TRY(cushim_pool_begin(&call, __func__, p));
    return cushim_pool_end(&call, drain(&call));
}

enum cushim_status cushim_pool_freeze_idle(struct cushim_pool *p, int on) {
    struct cushim_pool_call call;
    CUSHIM_TRY(cushim_pool_begin(&call, __func__, p));
    atomic_store(&call.pool->is_holding, on != 0);
    cushim_changes_note();
    return cushim_pool_end(&call, on ? CUSHIM_OK : drain(&call));
}

static bool is_meant(struct cushim_pool_heap *branch, int ordinal) {
    return (ordinal == -1 || branch->context->device == ordinal) &&
           !cushim_context_is_dead(branch->context);
}

static void trim(struct cushim_pool_call *call, int ordinal, size_t keep_bytes) {
    struct cushim_pool_heap *first =
        atomic_load_explicit(&call->pool->branches, memory_order_acquire);
    size_t idle_bytes = 0;
    for (struct cushim_pool_heap *branch = first; branch;
         branch = atomic_load_explicit(&branch->next, memory_order_acquire))
        idle_bytes += is_meant(branch, ordinal) ? cushim_pool_idle_bytes(branch) : 0;
    for (struct cushim_pool_heap *branch = first; branch;
         branch = atomic_load_explicit(&branch->next, memory_order_acquire)) {
        if (!is_meant(branch, ordinal))
            continue;
        size_t over_bytes = idle_bytes > keep_bytes ? idle_bytes - keep_bytes : 0;
        if (over_bytes)
            idle_bytes -=
                cushim_pool_reclaim(branch, call->what, over_bytes, CUSHIM_POOL_MARK, NULL);
        if (!cushim_capture_count(branch->context))
            cushim_pool_give_back(branch, call->what, 0);
    }
}

enum cushim_status cushim_pool_trim(struct cushim_pool *p, int dev, size_t keep_bytes) {
    struct cushim_pool_call call;
    int ordinal = -1;
    if (keep_bytes > SIZE_MAX / 2)
        return CUSHIM_FAIL(CUSHIM_INVALID, "keep=%zu", keep_bytes);
    CUSHIM_TRY(cushim_pool_begin(&call, __func__, p));
    enum cushim_status status =
        dev == -1 ? CUSHIM_OK : cushim_context_ordinal(call.what, dev, &ordinal);
    if (status == CUSHIM_OK)
        trim(&call, ordinal, keep_bytes);
    return cushim_pool_end(&call, status);
}
