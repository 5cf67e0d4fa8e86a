/*
 * Giving back: batches that are due, caps, drains and trims.
 *
 * Only blocks that are over leave a cache for the free lists; only segments without a block go to
 * the driver.  Its own free of device memory may wait for the device, so none is made by a free or
 * a trim while a capture is known.
 */
#include "base/bits.h"
#include "base/clock.h"
#include "base/try.h"
#include "memory/state/watermark.h"
#include "memory/reclaim.h"
#include "memory/state/heap_state.h"
#include "companion/capture/known_captures.h"
#include "companion/core/changes.h"
#include "companion/capture/graph_resources.h"
#include "companion/pool/pool_call.h"

/* Over a cap with fences under way only every so many frees ask. */
enum { ASK_EVERY = 16 };

/* Batches of the last pass but one of those by age. */
enum { N_BATCHES = 4 };

/* ---- a heap ---- */

static void count_evicted(struct cushim_pool_heap *heap, size_t n) {
    pthread_mutex_lock(&heap->lock);
    if (heap->pool)
        atomic_fetch_add_explicit(&heap->pool->n_evicted, n, memory_order_relaxed);
    pthread_mutex_unlock(&heap->lock);
}

/* The first failure. */
static enum cushim_status prove_all(struct cushim_pool_heap *heap, const char *what,
                                    enum cushim_pool_effort effort) {
    enum cushim_status status = CUSHIM_OK;
    for (struct cushim_pool_cache *cache = NULL; (cache = cushim_pool_next_cache(heap, cache));) {
        enum cushim_status proven =
            cache->idle_bytes ? cushim_pool_cache_prove(cache, what, effort) : CUSHIM_OK;
        status = status == CUSHIM_OK ? proven : status;
    }
    return status;
}

/* A pass over all caches: what is over and of that bucket (0: of any, but freed at
 * `last_moment` at the latest) goes to the free lists, until `bytes` did. */
static size_t give_until(struct cushim_pool_heap *heap, size_t bucket_bytes, uint64_t last_moment,
                         size_t bytes) {
    size_t n_bytes = 0, n = 0;
    uint64_t life = cushim_pool_heap_life(heap);
    for (struct cushim_pool_cache *cache = NULL;
         (cache = cushim_pool_next_cache(heap, cache)) && n_bytes < bytes;) {
        struct cushim_pool_block *block;
        while (n_bytes < bytes &&
               (block = bucket_bytes ? cushim_pool_cache_take(cache, bucket_bytes, 0)
                                     : cushim_pool_cache_pop_earliest(cache, last_moment, true))) {
            n_bytes += block->bucket_bytes;
            n++;
            cushim_pool_heap_give(heap, block, life);
        }
    }
    count_evicted(heap, n);
    return n_bytes;
}

/*
 * Moments tell the age over all caches.  Rather than to look for the cache with the eldest block
 * each time, passes go over the caches that each reach half as far from the present as the one
 * before.
 */
size_t cushim_pool_reclaim(struct cushim_pool_heap *heap, const char *what, size_t bytes,
                           enum cushim_pool_effort effort) {
    enum { N_PASSES = 8 };
    size_t n_bytes = 0;
    prove_all(heap, what, effort);
    uint64_t now = cushim_stream_fence_moment(heap->context);
    for (unsigned i = N_PASSES; i-- > 0 && n_bytes < bytes;) {
        uint64_t reach = i ? (uint64_t)N_BATCHES << i : 0;
        if (!i || now > reach)
            n_bytes += give_until(heap, 0, i ? now - reach : UINT64_MAX, bytes - n_bytes);
    }
    return n_bytes;
}

size_t cushim_pool_give_back(struct cushim_pool_heap *heap, size_t keep_bytes) {
    struct cushim_scope scope;
    if (atomic_load(&heap->is_lost) || !cushim_call_begin_quietly(&scope, heap->context))
        return 0;
    size_t n_bytes = cushim_mem_reclaim_trim(heap->core, keep_bytes);
    cushim_call_end(&scope, CUSHIM_OK);
    return n_bytes;
}

/*
 * ---- the watermark: how much a heap may hold, for its own sake and for its neighbours' ----
 *
 * A little more than is live, or was a moment ago, so that sizes that take turns are reused; where
 * the device has much free, more; and never more idle than the driver has free.  Who says how much
 * is kept (keep_bytes) has that in any case.
 */

size_t cushim_pool_idle_bytes(const struct cushim_pool_heap *heap) {
    size_t n_bytes = 0;
    for (struct cushim_pool_cache *cache = NULL; (cache = cushim_pool_next_cache(heap, cache));)
        n_bytes += cache->idle_bytes;
    return n_bytes;
}

size_t cushim_pool_count_idle(const struct cushim_pool_heap *heap, size_t bucket_bytes) {
    size_t n = 0;
    for (struct cushim_pool_cache *cache = NULL; (cache = cushim_pool_next_cache(heap, cache));)
        n += cushim_pool_cache_count(cache, bucket_bytes);
    return n;
}

enum {
    MARGIN = 16,                 /* the part of what is live that may be idle beside it, */
    ROOMY_MARGIN = 3,            /* and where the device has plenty */
    ROOMY_SHARE = 8,             /* at least this part of the device is free: that is plenty */
    FAR = 8,                     /* over the watermark by this part of it: worth a wait */
    LEAST_SMALL_BYTES = 4 << 20, /* so much of small blocks may be idle in a cache in any case, */
    SMALL_SHARE = 2048           /* and this part of the device */
};
static const uint64_t recent_ns = 1000000000;
static const size_t slack_bytes = (size_t)32 << 20;

static size_t live_bytes_of(const struct cushim_pool_heap *heap) {
    return cushim_less(atomic_load_explicit(&heap->core->live_bytes, memory_order_relaxed),
                       cushim_pool_idle_bytes(heap));
}

size_t cushim_pool_see_live(struct cushim_pool_heap *heap, size_t fallen_bytes) {
    size_t live_bytes = live_bytes_of(heap) + fallen_bytes;
    uint64_t now_ns = cushim_clock_coarse_ns();
    pthread_mutex_lock(&heap->lock);
    if (now_ns - heap->peak_since_ns >= recent_ns) {
        heap->peak_bytes[1] = heap->peak_bytes[0];
        heap->peak_bytes[0] = 0;
        heap->peak_since_ns = now_ns;
    }
    heap->peak_bytes[0] = cushim_most(heap->peak_bytes[0], live_bytes);
    size_t recent_bytes = cushim_most(heap->peak_bytes[0], heap->peak_bytes[1]);
    pthread_mutex_unlock(&heap->lock);
    return recent_bytes;
}

/* By how much a heap would be over its watermark with more_bytes; *bound_bytes: the watermark. */
static size_t over_watermark(struct cushim_pool_heap *heap, size_t more_bytes,
                             size_t *bound_bytes) {
    struct cushim_mem_heap *core = heap->core;
    size_t held_bytes = atomic_load_explicit(&core->held_bytes, memory_order_relaxed);
    /* the request may be refused, and is then no peak */
    size_t live_bytes = live_bytes_of(heap) + more_bytes;
    size_t recent_bytes = cushim_most(cushim_pool_see_live(heap, 0), live_bytes);
    size_t free_bytes = atomic_load(&core->watermark.device_free_bytes);
    size_t device_bytes = atomic_load(&core->watermark.device_bytes);
    bool is_roomy =
        device_bytes && cushim_less(free_bytes, more_bytes) >= device_bytes / ROOMY_SHARE;
    size_t margin_bytes = recent_bytes / (is_roomy ? ROOMY_MARGIN : MARGIN) + slack_bytes;
    size_t idle_bytes = cushim_less(recent_bytes + margin_bytes, live_bytes);
    if (device_bytes && idle_bytes > free_bytes)
        idle_bytes = cushim_most(free_bytes, slack_bytes);
    *bound_bytes = live_bytes + cushim_most(idle_bytes, heap->options.keep_bytes);
    return cushim_less(held_bytes + more_bytes, *bound_bytes);
}

/* Has the device nothing to do, so that a release waits for nothing? */
static bool is_quiet(struct cushim_pool_heap *heap, const char *what) {
    struct cushim_scope scope;
    struct cushim_stream_fence fence;
    if (!cushim_call_begin_quietly(&scope, heap->context))
        return false;
    scope.what = what;
    bool is_quiet = cushim_stream_fence_record_all(&scope, &fence) == CUSHIM_OK &&
                    cushim_stream_fence_is_complete(&fence);
    cushim_stream_fence_release(&fence);
    cushim_call_end(&scope, CUSHIM_OK);
    return is_quiet;
}

size_t cushim_pool_settle(struct cushim_pool_heap *heap, const char *what, size_t more_bytes) {
    size_t bound_bytes;
    cushim_mem_watermark_ask(heap->core);
    size_t excess_bytes = over_watermark(heap, more_bytes, &bound_bytes);
    if (!excess_bytes || cushim_capture_count(heap->context))
        return 0;
    size_t n_bytes = cushim_pool_reclaim(heap, what, excess_bytes,
                                         more_bytes ? CUSHIM_POOL_RECORD : CUSHIM_POOL_ASK);
    size_t free_bytes = atomic_load_explicit(&heap->core->free_segment_bytes, memory_order_relaxed);
    if (free_bytes && (excess_bytes > bound_bytes / FAR || is_quiet(heap, what)))
        cushim_pool_give_back(heap, cushim_less(free_bytes, excess_bytes));
    return n_bytes;
}

/*
 * To the free lists a small block that is idle in a cache is as good as live.  So they would put a
 * few small blocks into the gaps between idle ones, one in each page of the driver's, and the idle
 * memory could never go.  A cache that has more of that than a thread's cache may have gives it
 * back first, where it is over.
 */
void cushim_pool_unpin(struct cushim_pool_heap *heap, const char *what) {
    size_t most_bytes =
        cushim_most(LEAST_SMALL_BYTES, heap->core->watermark.device_bytes / SMALL_SHARE);
    uint64_t life = cushim_pool_heap_life(heap);
    size_t n = 0;
    if (cushim_capture_count(heap->context))
        return;
    for (struct cushim_pool_cache *cache = NULL; (cache = cushim_pool_next_cache(heap, cache));) {
        if (cache->idle_bytes <= most_bytes || cushim_pool_cache_small_bytes(cache) <= most_bytes)
            continue;
        cushim_pool_cache_prove(cache, what, CUSHIM_POOL_RECORD);
        struct cushim_pool_block *block = cushim_pool_cache_pop_small(cache);
        while (block) {
            struct cushim_pool_block *older = block->older;
            cushim_pool_heap_give(heap, block, life);
            block = older;
            n++;
        }
    }
    if (n)
        count_evicted(heap, n);
}

/* ---- after a free ---- */

/* Is a heap of that device, or (-1) of any? */
static bool is_meant(const struct cushim_pool_heap *heap, int ordinal) {
    return ordinal == -1 || heap->context->device == ordinal;
}

static size_t idle_bytes_of(struct cushim_pool_object *pool, int ordinal) {
    size_t n_bytes = 0;
    for (struct cushim_pool_heap *heap = NULL; (heap = cushim_pool_next_heap(pool, heap));)
        n_bytes += is_meant(heap, ordinal) ? cushim_pool_idle_bytes(heap) : 0;
    return n_bytes;
}

void cushim_pool_trim_idle(struct cushim_pool_object *pool, struct cushim_pool_cache *cache,
                           const char *what, size_t bucket_bytes) {
    struct cushim_pool_heap *heap = cache->heap;
    bool is_holding = atomic_load_explicit(&pool->is_holding, memory_order_relaxed);
    size_t most_bytes = pool->options.cap_cached_bytes;
    size_t over_bytes = most_bytes ? cushim_less(idle_bytes_of(pool, -1), most_bytes) : 0;
    size_t excess = cushim_less(cushim_pool_count_idle(heap, bucket_bytes),
                                cushim_pool_heap_most(heap, bucket_bytes));
    size_t n_gone = 0;
    if (!is_holding)
        over_bytes = SIZE_MAX;
    cushim_futex_lock_enter(&cache->lock);
    bool is_full = cache->open_blocks >= CUSHIM_POOL_BATCH_BLOCKS ||
                   cache->open_bytes >= CUSHIM_POOL_BATCH_BYTES;
    bool is_due = !cache->n_fences || cache->open_blocks % ASK_EVERY == 0;
    size_t fallen_bytes = is_full ? cushim_pool_cache_fallen(cache) : 0;
    cushim_futex_lock_leave(&cache->lock);
    if (is_full)
        cushim_pool_see_live(heap, fallen_bytes);
    if (is_full || ((over_bytes || excess) && is_due))
        cushim_pool_cache_prove(cache, what, CUSHIM_POOL_RECORD);
    if (excess)
        n_gone += give_until(heap, bucket_bytes, 0, excess * bucket_bytes);
    if (over_bytes)
        n_gone += cushim_pool_reclaim(heap, what, over_bytes, CUSHIM_POOL_ASK);
    if (n_gone && !cushim_capture_count(heap->context))
        cushim_pool_give_back(heap, is_holding ? pool->options.keep_bytes : 0);
    if (is_full && is_holding)
        cushim_pool_settle(heap, what, 0);
}

/* ---- the calls ---- */

/* Of the heaps that are meant, what is idle beyond keep_bytes; `must_wait`: and not over, but where
 * a capture is known.  The first failure. */
static enum cushim_status trim(struct cushim_pool_call *call, int ordinal, size_t keep_bytes,
                               bool must_wait) {
    enum cushim_status status = CUSHIM_OK;
    struct cushim_pool_heap *heap = NULL;
    cushim_pool_heap_lose_dead();
    size_t idle_bytes = idle_bytes_of(call->pool, ordinal);
    while ((heap = cushim_pool_next_heap(call->pool, heap))) {
        if (!is_meant(heap, ordinal))
            continue;
        bool has_capture = cushim_capture_count(heap->context) != 0;
        if (must_wait && !has_capture) {
            enum cushim_status proven = prove_all(heap, call->what, CUSHIM_POOL_WAIT);
            status = status == CUSHIM_OK ? proven : status;
        }
        if (idle_bytes > keep_bytes)
            idle_bytes -= cushim_pool_reclaim(heap, call->what, idle_bytes - keep_bytes,
                                              must_wait ? CUSHIM_POOL_ASK : CUSHIM_POOL_RECORD);
        if (must_wait || !has_capture)
            cushim_pool_give_back(heap, 0);
    }
    return status;
}

enum cushim_status cushim_pool_drain(struct cushim_pool *p) {
    struct cushim_pool_call call;
    cushim_graph_resources_give_back();
    CUSHIM_TRY(cushim_pool_begin(&call, __func__, p));
    return cushim_pool_end(&call, trim(&call, -1, 0, true));
}

enum cushim_status cushim_pool_freeze_idle(struct cushim_pool *p, int on) {
    struct cushim_pool_call call;
    CUSHIM_TRY(cushim_pool_begin(&call, __func__, p));
    atomic_store(&call.pool->is_holding, on != 0);
    cushim_changes_note();
    return cushim_pool_end(&call, on ? CUSHIM_OK : trim(&call, -1, 0, true));
}

enum cushim_status cushim_pool_trim(struct cushim_pool *p, int dev, size_t keep_bytes) {
    struct cushim_pool_call call;
    if (keep_bytes > SIZE_MAX / 2)
        return CUSHIM_FAIL(CUSHIM_INVALID, "keep=%zu", keep_bytes);
    CUSHIM_TRY(cushim_pool_begin(&call, __func__, p));
    enum cushim_status status =
        dev == -1 ? CUSHIM_OK : cushim_context_ordinal(call.what, dev, &dev);
    if (status == CUSHIM_OK)
        status = trim(&call, dev, keep_bytes, false);
    return cushim_pool_end(&call, status);
}
