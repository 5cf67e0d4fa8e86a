/* What a pool gives back after frees, in drains and in trims. */
#include "companion/capture/graph_resources.h"
#include "companion/pool/pool_call.h"
#include "memory/reclaim.h"

/* While fences are pending, only one of this many frees beyond a cap asks for them. */
enum { ASK_EVERY = 16 };

/* ---- after a free ---- */

/* Whether a heap is of that device; -1 means any. */
static bool is_meant(const struct cushim_pool_heap *heap, int ordinal) {
    return ordinal == -1 || heap->context->device == ordinal;
}

static size_t idle_bytes_of(struct cushim_pool_object *pool, int ordinal) {
    size_t n_bytes = 0;
    for (struct cushim_pool_heap *heap = NULL; (heap = cushim_pool_next_heap(pool, heap));)
        n_bytes += is_meant(heap, ordinal) ? cushim_mem_streams_idle_bytes(&heap->streams) : 0;
    return n_bytes;
}

void cushim_pool_trim_idle(struct cushim_pool_object *pool, struct cushim_mem_stream_cache *cache,
                           size_t bucket_bytes) {
    struct cushim_mem_streams *streams = cache->streams;
    bool is_holding = load_relaxed(&pool->is_holding);
    size_t most_bytes = pool->options.cap_cached_bytes;
    size_t over_bytes = most_bytes ? cushim_less(idle_bytes_of(pool, -1), most_bytes) : 0;
    const struct cushim_pool_options *options = &cushim_pool_heap_of(streams)->options;
    size_t most_blocks =
        cushim_most(options->cap_bucket_bytes / bucket_bytes, options->cap_bucket_blocks);
    size_t excess = cushim_less(cushim_mem_streams_count_idle(streams, bucket_bytes), most_blocks);
    size_t n_gone = 0;
    if (!is_holding)
        over_bytes = SIZE_MAX;
    cushim_futex_lock_enter(&cache->lock);
    bool is_full = cache->open_blocks >= CUSHIM_MEM_STREAM_BATCH_BLOCKS ||
                   cache->open_bytes >= CUSHIM_MEM_STREAM_BATCH_BYTES;
    bool is_due = !cache->n_batches || cache->open_blocks % ASK_EVERY == 0;
    size_t fallen_bytes = is_full ? cushim_mem_stream_cache_fallen(cache) : 0;
    cushim_futex_lock_leave(&cache->lock);
    if (is_full)
        cushim_mem_streams_look(streams, fallen_bytes);
    if (is_full || ((over_bytes || excess) && is_due))
        cushim_mem_stream_cache_prove(cache, CUSHIM_MEM_RECORD);
    if (excess)
        n_gone += cushim_mem_streams_reclaim_bucket(streams, bucket_bytes, excess * bucket_bytes);
    if (over_bytes)
        n_gone += cushim_mem_streams_reclaim(streams, over_bytes, CUSHIM_MEM_ASK);
    if (n_gone && !cushim_mem_streams_has_capture(streams))
        cushim_mem_reclaim_trim(streams->heap, is_holding ? pool->options.keep_bytes : 0);
    if (is_full && is_holding)
        cushim_mem_streams_settle(streams);
}

/* ---- the calls ---- */

/* Give back what is idle beyond keep_bytes in the heaps of a device.  If must_wait, wait first for
 * blocks that are not over, unless a capture is known.  Returns the first failure. */
static enum cushim_status trim(struct cushim_pool_call *call, int ordinal, size_t keep_bytes,
                               bool must_wait) {
    enum cushim_status status = CUSHIM_OK;
    struct cushim_pool_heap *heap = NULL;
    cushim_mem_streams_lose_gone();
    size_t idle_bytes = idle_bytes_of(call->pool, ordinal);
    while ((heap = cushim_pool_next_heap(call->pool, heap))) {
        if (!is_meant(heap, ordinal))
            continue;
        struct cushim_mem_streams *streams = &heap->streams;
        bool has_capture = cushim_mem_streams_has_capture(streams);
        if (must_wait && !has_capture) {
            enum cushim_status proven = cushim_mem_streams_prove(streams, CUSHIM_MEM_WAIT);
            status = status == CUSHIM_OK ? proven : status;
        }
        if (idle_bytes > keep_bytes)
            idle_bytes -= cushim_mem_streams_reclaim(
                streams, idle_bytes - keep_bytes, must_wait ? CUSHIM_MEM_ASK : CUSHIM_MEM_RECORD);
        if (must_wait || !has_capture)
            cushim_mem_reclaim_trim(streams->heap, 0);
    }
    return status;
}

enum cushim_status cushim_pool_drain(struct cushim_pool *p) {
    cushim_graph_resources_give_back();
    CUSHIM_ENTER_POOL(p);
    return trim(&call, -1, 0, true);
}

enum cushim_status cushim_pool_freeze_idle(struct cushim_pool *p, int on) {
    CUSHIM_ENTER_POOL(p);
    atomic_store(&call.pool->is_holding, on != 0);
    cushim_changes_note();
    return on ? CUSHIM_OK : trim(&call, -1, 0, true);
}

enum cushim_status cushim_pool_trim(struct cushim_pool *p, int dev, size_t keep_bytes) {
    CUSHIM_FAIL_IF(__func__, keep_bytes > SIZE_MAX / 2, CUSHIM_INVALID, "keep=%zu", keep_bytes);
    CUSHIM_ENTER_POOL(p);
    if (dev != -1)
        CUSHIM_TRY(cushim_context_ordinal(call.what, dev, &dev));
    return trim(&call, dev, keep_bytes, false);
}
