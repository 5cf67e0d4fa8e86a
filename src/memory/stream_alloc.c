#include "memory/stream_alloc.h"

#include "memory/state/heap_state.h"
#include "memory/stream_blocks.h"
#include "memory/stream_reclaim.h"

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
    for (struct cushim_mem_stream_cache *cache = NULL;
         (cache = cushim_mem_streams_next(request->streams, cache));) {
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
    if (request->bucket_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES) {
        status = cushim_mem_stream_block_obtain(streams, request->bucket_bytes,
                                                CUSHIM_MEM_STREAM_CUT, &request->block);
        if (status == CUSHIM_NOTFOUND)
            cushim_mem_streams_unpin(streams);
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
        excess_bytes =
            cushim_mem_streams_excess_bytes(streams, request->bucket_bytes, &waste_bytes);
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
