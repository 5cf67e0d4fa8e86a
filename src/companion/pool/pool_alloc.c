/* How a pool serves a request: by the stream's own idle block, by another stream's if that is over,
 * from the free lists, or from the driver. */
#include "companion/capture/graph_resources.h"
#include "companion/pool/pool_call.h"
#include "memory/state/segments.h"

/* Hand a block to the caller, LIVE and counted. */
static void hand_out(struct cushim_pool_call *call) {
    struct cushim_mem_stream_block *block = call->block;
    struct cushim_mem_stream_cache *cache = call->cache;
    store_relaxed(&block->cache, cache);
    store_relaxed(&block->asked_bytes, call->bytes);
    if (cushim_thread_mine && cushim_thread_mine->pool_memory)
        cushim_thread_mine->pool_memory
            ->blocks[cushim_pool_memory_place(cushim_mem_stream_block_address(block))] = block;
    cushim_futex_lock_enter(&cache->lock);
    cache->counts.n_hits += !call->is_miss;
    cache->counts.n_misses += call->is_miss;
    cushim_mem_stream_count_live(&cache->counts, 1, block, call->bytes);
    size_t fallen_bytes = cushim_mem_stream_cache_fallen(cache);
    cushim_futex_lock_leave(&cache->lock);
    /* the block became live after the fall */
    cushim_mem_streams_look(&call->heap->streams, cushim_less(fallen_bytes, block->bucket_bytes));
    cushim_mem_stream_block_set_live(block);
}

enum cushim_status cushim_pool_serve(struct cushim_pool_call *call) {
    /* in a capture, a block must be over to serve */
    return cushim_mem_stream_cache_serve(call->cache, call->is_captured ? 0 : call->life,
                                         call->bucket_bytes, &call->block);
}

/* ---- from the driver ---- */

enum cushim_status cushim_pool_fetch(struct cushim_pool_call *call) {
    CUSHIM_SCOPE scope = {0};
    cushim_mem_streams_lose_gone();
    CUSHIM_TRY(cushim_call_begin_known(&scope, call->what, call->heap->context));
    enum cushim_status status = cushim_mem_stream_block_obtain(
        &call->heap->streams, call->bucket_bytes, CUSHIM_MEM_STREAM_NEW, &call->block);
    call->is_miss = true;
    if (status == CUSHIM_OK || status == CUSHIM_NOMEM)
        return status;
    int device = scope.context->device;
    CUSHIM_FAIL_IF(scope.what, status == CUSHIM_STATE, CUSHIM_DEADCONTEXT, "device=%d", device);
    CUresult answer = cushim_mem_segments_refusal();
    CUSHIM_FAIL_IF(scope.what, answer == CUDA_ERROR_NOT_SUPPORTED, CUSHIM_NOTSUPPORTED,
                   "device=%d kind=%s", device, cushim_pool_providers[call->heap->kind]->name);
    return cushim_scope_fail_cu(&scope, "cuMemAlloc", answer, "device=%d asked=%zu", device,
                                call->bytes);
}

/* ---- the call ---- */

static enum cushim_status charge(struct cushim_pool_call *call) {
    struct cushim_pool_object *pool = call->pool;
    size_t most_bytes = pool->options.cap_live_bytes;
    if (!most_bytes)
        return CUSHIM_OK;
    size_t before = atomic_fetch_add(&pool->live_bytes, call->bucket_bytes);
    if (before <= most_bytes && call->bucket_bytes <= most_bytes - before)
        return CUSHIM_OK;
    atomic_fetch_sub(&pool->live_bytes, call->bucket_bytes);
    return cushim_fail(call->what, CUSHIM_LIMIT, "asked=%zu live=%zu cap=%zu", call->bytes, before,
                       most_bytes);
}

/* Serve by the cheapest source that can. */
static enum cushim_status run(struct cushim_pool_call *call) {
    struct cushim_pool_graph *graph;
    call->is_captured = cushim_pool_captured_by(call->pool, call->cache, &graph);
    if (graph)
        return cushim_pool_capture_alloc(call, graph);
    enum cushim_status status = cushim_pool_serve(call);
    if (status == CUSHIM_NOTFOUND)
        status = cushim_pool_fetch(call);
    return status == CUSHIM_NOMEM ? cushim_pool_serve_by_reclaim(call) : status;
}

/* Check the request, charge it, and serve it. */
static enum cushim_status alloc(struct cushim_pool_call *call, enum cushim_memory_kind kind,
                                struct cushim_stream *s, cushim_devptr *ptr) {
    if ((unsigned)kind >= CUSHIM_POOL_N_KINDS || call->bytes > SIZE_MAX / 2)
        return cushim_fail(call->what, CUSHIM_INVALID, "kind=%d asked=%zu", kind, call->bytes);
    if (!call->bytes)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_pool_heap_find(call->pool, call->what, call->dev, kind, &call->heap));
    CUSHIM_TRY(cushim_pool_find_cache(call, s));
    call->bucket_bytes = cushim_pool_heap_bucket(call->heap, call->bytes);
    CUSHIM_FAIL_IF(call->what, cushim_context_is_dead(call->heap->context), CUSHIM_DEADCONTEXT,
                   "device=%d", call->heap->context->device);
    CUSHIM_TRY(charge(call));
    enum cushim_status status = run(call);
    if (status == CUSHIM_OK && !call->node) {
        if (call->pool->is_checked)
            cushim_pool_check_look(call);
        hand_out(call);
        *ptr = cushim_mem_stream_block_address(call->block);
        if (*ptr)
            return CUSHIM_OK;
        status = CUSHIM_STATE; /* its context ended meanwhile, and the table forgot the block */
    }
    if (status == CUSHIM_STATE)
        status =
            cushim_fail(call->what, CUSHIM_DEADCONTEXT, "device=%d", call->heap->context->device);
    if (status == CUSHIM_NOMEM)
        atomic_fetch_add(&call->pool->n_out_of_memory, 1);
    cushim_futex_lock_enter(&call->cache->lock);
    call->cache->counts.n_misses++;
    cushim_futex_lock_leave(&call->cache->lock);
    if (call->pool->options.cap_live_bytes)
        atomic_fetch_sub(&call->pool->live_bytes, cushim_pool_heap_bucket(call->heap, call->bytes));
    *ptr = call->node;
    return status;
}

/* ---- the fast path: the stream's own newest block ---- */

/* The bucket of a request, which becomes the recent one.  NULL: no bucket, or an unordered cache.
 */
ALWAYS_INLINE struct cushim_mem_stream_bucket *turn_to(struct cushim_mem_stream_cache *cache,
                                                       size_t bytes) {
    struct cushim_mem_stream_bucket *bucket = NULL;
    if (cache->is_ordered)
        bucket = cushim_mem_stream_cache_recent(
            cache, cushim_pool_heap_bucket(cushim_pool_heap_of(cache->streams), bytes));
    cache->recent_asked = bucket ? bytes : 0;
    return bucket;
}

/* Take and count the newest block for a request of this size; NULL: none.  The caller holds the
 * cache's lock. */
ALWAYS_INLINE struct cushim_mem_stream_block *take_newest(struct cushim_mem_stream_cache *cache,
                                                          size_t bytes) {
    struct cushim_mem_stream_bucket *bucket = cache->recent;
    if (unlikely(cache->recent_asked != bytes))
        bucket = turn_to(cache, bytes);
    struct cushim_mem_stream_block *block =
        bucket ? cushim_mem_stream_cache_pop_from(cache, bucket) : NULL;
    if (likely(block != NULL)) {
        cache->counts.n_hits++;
        cushim_mem_stream_count_live(&cache->counts, 1, block, bytes);
    }
    return block;
}

/* False: the fast path did nothing. */
ALWAYS_INLINE bool alloc_fast(struct cushim_pool *p, int dev, enum cushim_memory_kind kind,
                              size_t bytes, struct cushim_stream *s, cushim_devptr *ptr) {
    struct cushim_thread *thread = cushim_thread_mine;
    struct cushim_pool_memory *memory = thread ? thread->pool_memory : NULL;
    if (unlikely(!memory || !ptr || bytes - 1 >= SIZE_MAX / 2))
        return false;
    const struct cushim_pool_remembered *row = cushim_pool_row(memory, p, s, kind);
    struct cushim_mem_stream_cache *cache = row->cache;
    if (unlikely(!cushim_pool_row_is_fast(row, p, s) ||
                 row->target != cushim_pool_target(dev, kind) ||
                 !cushim_pool_row_enter(row, cache)))
        return false;
    struct cushim_mem_stream_block *block = take_newest(cache, bytes);
    if (unlikely(!block)) {
        cushim_futex_lock_leave(&cache->lock);
        return false;
    }
    uint64_t address = cushim_mem_stream_block_address(block);
    store_relaxed(&block->asked_bytes, bytes);
    memory->blocks[cushim_pool_memory_place(address)] = block;
    *ptr = address;
    cushim_mem_stream_block_set_live(block);
    cushim_futex_lock_leave(&cache->lock);
    return true;
}

/* The slow path. */
static __attribute__((noinline)) enum cushim_status
alloc_slowly(struct cushim_pool *p, int dev, enum cushim_memory_kind kind, size_t bytes,
             struct cushim_stream *s, cushim_devptr *ptr) {
    static const char what[] = "cushim_pool_alloc";
    CUSHIM_POOL_CALL call = {0};
    CUSHIM_TRY(cushim_check_out(what, "ptr", ptr, sizeof *ptr));
    cushim_graph_resources_give_back();
    CUSHIM_TRY(cushim_pool_begin(&call, what, p));
    call.dev = dev;
    call.bytes = bytes;
    return alloc(&call, kind, s, ptr);
}

enum cushim_status cushim_pool_alloc(struct cushim_pool *p, int dev, enum cushim_memory_kind kind,
                                     size_t bytes, struct cushim_stream *s, cushim_devptr *ptr) {
    if (likely(alloc_fast(p, dev, kind, bytes, s, ptr)))
        return CUSHIM_OK;
    return alloc_slowly(p, dev, kind, bytes, s, ptr);
}
