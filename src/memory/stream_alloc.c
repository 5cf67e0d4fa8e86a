
#include "base/lock.h"
#include "memory/reclaim.h"
#include "memory/state/heap_state.h"
#include "memory/stream_heap.h"

/* How many epochs the last pass by age leaves out; the pass after it takes all. */
enum { N_BATCHES = 4 };

bool cushim_mem_streams_has_capture(const struct cushim_mem_streams *streams) {
    return streams->heap->fence->host->refuse(streams->heap->fence, NULL, NULL) != CUSHIM_OK;
}

enum cushim_status cushim_mem_streams_prove(struct cushim_mem_streams *streams,
                                            enum cushim_mem_effort effort) {
    enum cushim_status status = CUSHIM_OK;
    CUSHIM_MEM_EACH_STREAM_CACHE(cache, streams) {
        enum cushim_status proven =
            cache->idle_bytes ? cushim_mem_stream_cache_prove(cache, effort) : CUSHIM_OK;
        status = status == CUSHIM_OK ? proven : status;
    }
    return status;
}

/* ---- idle blocks that are over ---- */

/* One pass over all caches.  Moves blocks of a bucket that are over to the free lists, until
 * `bytes` are moved.  Bucket 0: blocks of any bucket that were freed no later than `last_epoch`. */
static size_t give_until(struct cushim_mem_streams *streams, size_t bucket_bytes,
                         uint64_t last_epoch, size_t bytes) {
    size_t n_bytes = 0;
    uint64_t life = cushim_mem_streams_life(streams);
    CUSHIM_MEM_EACH_STREAM_CACHE(cache, streams) {
        struct cushim_mem_stream_block *block;
        while (n_bytes < bytes &&
               (block = bucket_bytes
                            ? cushim_mem_stream_cache_take(cache, bucket_bytes, 0)
                            : cushim_mem_stream_cache_pop_earliest(cache, last_epoch, true))) {
            n_bytes += block->bucket_bytes;
            atomic_fetch_add_explicit(&streams->n_evicted, 1, memory_order_relaxed);
            cushim_mem_stream_block_give(block, life);
        }
    }
    if (n_bytes)
        cushim_mem_streams_look(streams, 0);
    return n_bytes;
}

/*
 * Epochs tell the age of blocks in all caches.  Instead of searching for the cache with the oldest
 * block each time, passes over the caches take younger and younger blocks: each leaves out half as
 * many recent epochs as the one before.
 */
size_t cushim_mem_streams_reclaim(struct cushim_mem_streams *streams, size_t bytes,
                                  enum cushim_mem_effort effort) {
    enum { N_PASSES = 8 };
    size_t n_bytes = 0;
    cushim_mem_streams_prove(streams, effort);
    uint64_t now = cushim_mem_fence_tag(streams->heap->fence);
    for (unsigned i = N_PASSES; i-- > 0 && n_bytes < bytes;) {
        uint64_t reach = i ? (uint64_t)N_BATCHES << i : 0;
        if (!i || now > reach)
            n_bytes += give_until(streams, 0, i ? now - reach : UINT64_MAX, bytes - n_bytes);
    }
    return n_bytes;
}

size_t cushim_mem_streams_reclaim_bucket(struct cushim_mem_streams *streams, size_t bucket_bytes,
                                         size_t bytes) {
    return give_until(streams, bucket_bytes, 0, bytes);
}

void cushim_mem_streams_empty(struct cushim_mem_streams *streams) {
    bool may_wait = !cushim_mem_streams_has_capture(streams);
    uint64_t life = cushim_mem_streams_life(streams);
    CUSHIM_MEM_EACH_STREAM_CACHE(cache, streams) {
        struct cushim_mem_stream_block *block;
        cushim_futex_lock_enter(&cache->lock);
        atomic_fetch_add(&cache->life, 2); /* no fast path adds a block from here on */
        cushim_futex_lock_leave(&cache->lock);
        if (may_wait)
            cushim_mem_stream_cache_prove(cache, CUSHIM_MEM_WAIT);
        while ((block = cushim_mem_stream_cache_pop_earliest(cache, UINT64_MAX, false)))
            cushim_mem_stream_block_give(block, life);
        cushim_mem_stream_cache_forget(cache);
    }
}

/* ---- how much the heap may hold ---- */

size_t cushim_mem_streams_idle_bytes(const struct cushim_mem_streams *streams) {
    size_t n_bytes = 0;
    CUSHIM_MEM_EACH_STREAM_CACHE(cache, streams) {
        n_bytes += cache->idle_bytes;
    }
    return n_bytes;
}

size_t cushim_mem_streams_count_idle(const struct cushim_mem_streams *streams,
                                     size_t bucket_bytes) {
    size_t n = 0;
    CUSHIM_MEM_EACH_STREAM_CACHE(cache, streams) {
        n += cushim_mem_stream_cache_count(cache, bucket_bytes);
    }
    return n;
}

/* The caller holds the heap's lock. */
static void look(struct cushim_mem_streams *streams, size_t fallen_bytes) {
    cushim_mem_watermark_see_cached(streams->heap, cushim_mem_streams_idle_bytes(streams),
                                    fallen_bytes);
}

void cushim_mem_streams_look(struct cushim_mem_streams *streams, size_t fallen_bytes) {
    CUSHIM_LOCKED(&streams->heap->lock);
    look(streams, fallen_bytes);
}

/* The bytes by which live blocks exceed their requests, in all heaps of a device. */
static size_t wasted_bytes_of(int device) {
    int64_t n_bytes = 0;
    struct cushim_mem_streams *streams = NULL;
    while ((streams = cushim_mem_streams_next_used(streams))) {
        struct cushim_mem_stream_cache *cache = NULL;
        while (streams->heap->device == device &&
               (cache = cushim_mem_streams_next(streams, cache))) {
            CUSHIM_FUTEX_LOCKED(&cache->lock);
            n_bytes += cache->counts.live_bytes - cache->counts.asked_bytes;
        }
    }
    return n_bytes > 0 ? (size_t)n_bytes : 0;
}

/* Before free lists or caches look for a larger block. */
static void note_waste(struct cushim_mem_heap *heap) {
    size_t wasted_bytes = wasted_bytes_of(heap->device);
    CUSHIM_LOCKED(&heap->lock);
    heap->watermark.cached_waste_bytes = wasted_bytes;
}

/* The bytes that the heap holds beyond its watermark if the driver gives it more_bytes.  By
 * *waste_bytes a block may then be larger than a request for them. */
static size_t excess_bytes_of(struct cushim_mem_streams *streams, size_t more_bytes,
                              size_t *waste_bytes) {
    struct cushim_mem_heap *heap = streams->heap;
    bool may_waste = more_bytes > CUSHIM_MEM_SLAB_LIMIT_BYTES && heap->kind == CUSHIM_MEM_DEVICE;
    cushim_mem_watermark_ask(heap);
    CUSHIM_LOCKED(&heap->lock);
    look(streams, 0);
    size_t excess_bytes =
        cushim_less(heap->held_bytes + more_bytes, cushim_mem_watermark_with(heap, more_bytes));
    *waste_bytes =
        excess_bytes && may_waste ? cushim_mem_watermark_waste_bytes(heap, more_bytes) : 0;
    return excess_bytes;
}

void cushim_mem_streams_settle(struct cushim_mem_streams *streams) {
    enum { FAR = 8 }; /* this part of what is held is worth a wait */
    struct cushim_mem_heap *heap = streams->heap;
    size_t waste_bytes, excess_bytes = excess_bytes_of(streams, 0, &waste_bytes);
    if (!excess_bytes || cushim_mem_streams_has_capture(streams))
        return;
    cushim_mem_streams_reclaim(streams, excess_bytes, CUSHIM_MEM_ASK);
    size_t free_bytes = load_relaxed(&heap->free_segment_bytes);
    if (free_bytes && excess_bytes > heap->held_bytes / FAR)
        cushim_mem_reclaim_trim(heap, cushim_less(free_bytes, excess_bytes));
    else if (free_bytes)
        cushim_mem_reclaim_quietly(heap, heap->held_bytes - cushim_least(free_bytes, excess_bytes));
}

/*
 * The free lists cannot tell an idle small block in a cache from a live one.  So they would put new
 * small blocks into the gaps between idle ones, perhaps one into each page of the driver, and the
 * idle memory could never go back.  A cache that has more idle small blocks than a thread's cache
 * may have gives back those that are over first.
 */
static void unpin(struct cushim_mem_streams *streams) {
    enum { LEAST_BYTES = 4 << 20, SHARE = 2048 }; /* of the device */
    size_t most_bytes = cushim_most(LEAST_BYTES, streams->heap->watermark.device_bytes / SHARE);
    uint64_t life = cushim_mem_streams_life(streams);
    if (cushim_mem_streams_has_capture(streams))
        return;
    CUSHIM_MEM_EACH_STREAM_CACHE(cache, streams) {
        if (cache->idle_bytes <= most_bytes ||
            cushim_mem_stream_cache_small_bytes(cache) <= most_bytes)
            continue;
        cushim_mem_stream_cache_prove(cache, CUSHIM_MEM_RECORD);
        struct cushim_mem_stream_block *block = cushim_mem_stream_cache_pop_small(cache);
        while (block) {
            struct cushim_mem_stream_block *older = block->older;
            atomic_fetch_add_explicit(&streams->n_evicted, 1, memory_order_relaxed);
            cushim_mem_stream_block_give(block, life);
            block = older;
        }
    }
}

/* ---- serving ---- */

/* A request on its way through the sources. */
struct request {
    struct cushim_mem_streams *streams;
    struct cushim_mem_stream_cache *cache;
    uint32_t life; /* of the cache; 0: in a capture, which takes only blocks that are over */
    size_t bucket_bytes;
    struct cushim_mem_stream_block *block; /* that serves */
};

/* Serve by a block of any cache that is over. */
static bool serve_over(struct request *request) {
    struct cushim_mem_stream_cache *cache = NULL;
    while (!request->block && (cache = cushim_mem_streams_next(request->streams, cache)))
        request->block = cushim_mem_stream_cache_take(cache, request->bucket_bytes, 0);
    return request->block != NULL;
}

/*
 * The same, after a query of all caches that have such a block.  It does not take a block as soon
 * as its fence is complete, because the stream that freed it often needs it again at once.  That
 * stream's thread would then take another stream's block, and threads would swap blocks at each
 * pair of calls.
 */
static bool serve_asked(struct request *request, enum cushim_mem_effort effort) {
    CUSHIM_MEM_EACH_STREAM_CACHE(cache, request->streams) {
        if (cushim_mem_stream_cache_count(cache, request->bucket_bytes))
            cushim_mem_stream_cache_prove(cache, effort);
    }
    return serve_over(request);
}

/* The same, after missing fences were recorded.  A request for ALL waits a moment for them. */
static bool serve_proven(struct request *request) {
    uint64_t until_ns = cushim_clock_ns() + request->streams->poll_ns;
    bool is_served;
    do
        is_served = serve_asked(request, CUSHIM_MEM_RECORD);
    while (!is_served && request->cache == request->streams->all && cushim_clock_ns() < until_ns);
    return is_served;
}

static enum cushim_status serve_free_lists(struct request *request) {
    struct cushim_mem_streams *streams = request->streams;
    enum cushim_status status = CUSHIM_NOTFOUND;
    if (request->bucket_bytes > CUSHIM_MEM_SLAB_LIMIT_BYTES) {
        note_waste(streams->heap);
    } else {
        status = cushim_mem_stream_block_obtain(streams, request->bucket_bytes,
                                                CUSHIM_MEM_STREAM_CUT, &request->block);
        if (status == CUSHIM_NOTFOUND)
            unpin(streams);
    }
    return status == CUSHIM_NOTFOUND
               ? cushim_mem_stream_block_obtain(streams, request->bucket_bytes,
                                                CUSHIM_MEM_STREAM_FREE, &request->block)
               : status;
}

/* Serve by a larger block. */
static bool serve_larger(struct request *request, size_t waste_bytes) {
    struct cushim_mem_stream_cache *cache = NULL;
    while (waste_bytes && !request->block &&
           (cache = cushim_mem_streams_next(request->streams, cache)))
        request->block = cushim_mem_stream_cache_pop_fitting(
            cache, request->bucket_bytes, request->bucket_bytes + waste_bytes,
            cache == request->cache && cache->is_ordered ? request->life : 0);
    return request->block != NULL;
}

/*
 * Before the driver is asked: if the heap is full, a larger block serves.  Otherwise requests of
 * varying sizes would ask the driver each time, because a block above 1 MiB serves its own size
 * only.  Or memory beyond the watermark goes to the free lists, and these serve.
 */
static enum cushim_status serve_full(struct request *request) {
    struct cushim_mem_streams *streams = request->streams;
    size_t waste_bytes,
        excess_bytes = excess_bytes_of(streams, request->bucket_bytes, &waste_bytes);
    if (serve_larger(request, waste_bytes))
        return CUSHIM_OK;
    return excess_bytes && !cushim_mem_streams_has_capture(streams) &&
                   cushim_mem_streams_reclaim(streams, excess_bytes, CUSHIM_MEM_RECORD)
               ? serve_free_lists(request)
               : CUSHIM_NOTFOUND;
}

/*
 * If streams take turns, they would swap one block with a fence each time, and never have one each.
 * So the sources that need no new fence come first.  These are another cache's block whose fence is
 * complete, and for small blocks the memory that the heap holds.  Then comes the driver, as long as
 * idle memory stays within keep_bytes.
 */
static enum cushim_status serve(struct request *request) {
    struct cushim_mem_streams *streams = request->streams;
    bool is_small = request->bucket_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES;
    if (serve_over(request))
        return CUSHIM_OK;
    bool has_pending = cushim_mem_streams_count_idle(streams, request->bucket_bytes) != 0;
    bool takes_turns = has_pending && request->cache->is_ordered;
    bool is_kept = takes_turns && cushim_mem_streams_idle_bytes(streams) + request->bucket_bytes <=
                                      streams->heap->policy->least_idle_bytes;
    if (takes_turns && (serve_asked(request, CUSHIM_MEM_ASK) ||
                        ((is_small || is_kept) && serve_free_lists(request) == CUSHIM_OK)))
        return CUSHIM_OK;
    if (is_kept)
        return CUSHIM_NOTFOUND;
    if (has_pending && serve_proven(request))
        return CUSHIM_OK;
    enum cushim_status status = serve_free_lists(request);
    return status == CUSHIM_NOTFOUND ? serve_full(request) : status;
}

enum cushim_status cushim_mem_stream_cache_serve(struct cushim_mem_stream_cache *cache,
                                                 uint32_t life, size_t bucket_bytes,
                                                 struct cushim_mem_stream_block **block) {
    struct request request = {
        .streams = cache->streams, .cache = cache, .life = life, .bucket_bytes = bucket_bytes};
    request.block = cushim_mem_stream_cache_take(cache, bucket_bytes, life);
    enum cushim_status status = request.block ? CUSHIM_OK : serve(&request);
    *block = request.block;
    return status;
}

struct cushim_mem_stream_block *
cushim_mem_stream_cache_serve_behind(struct cushim_mem_stream_cache *after, size_t bucket_bytes) {
    struct cushim_mem_stream_cache *cache = NULL;
    while (after->is_ordered && (cache = cushim_mem_streams_next(after->streams, cache))) {
        if (!cache->idle_bytes)
            continue;
        cushim_mem_stream_cache_prove(cache, CUSHIM_MEM_RECORD);
        uint32_t life = cache->life;
        struct cushim_mem_stream_block *block =
            cushim_mem_stream_cache_pop_fitting(cache, bucket_bytes, 2 * bucket_bytes, life);
        if (block && (cache == after ||
                      cushim_mem_stream_cache_order(cache, block->epoch, after) == CUSHIM_OK))
            return block;
        if (block)
            cushim_mem_stream_cache_put(cache, life, block);
    }
    return NULL;
}
