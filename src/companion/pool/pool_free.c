/* How a pool takes blocks back.  It checks each free before it changes anything. */
#include "companion/context/address_map.h"
#include "companion/pool/pool_call.h"

static enum cushim_status refuse(const struct cushim_pool_call *call, enum cushim_status status,
                                 const char *why) {
    atomic_fetch_add_explicit(&call->pool->n_refused, 1, memory_order_relaxed);
    return cushim_fail(call->what, status, "%s ptr=0x%llx pool=%p bytes=%zu device=%d", why,
                       (unsigned long long)call->address, call->pool->object.handle, call->bytes,
                       call->dev);
}

/* Refuse an address at which the pool has no block. */
static enum cushim_status refuse_unknown(const struct cushim_pool_call *call) {
    struct cushim_address_map_row row;
    if (cushim_address_map_find(call->address, &row)) {
        bool is_node = row.kind == CUSHIM_MEMORY_GRAPH && row.start == call->address;
        cushim_address_map_drop(&row);
        return is_node ? refuse(call, CUSHIM_STATE, "memory of a graph's node")
                       : refuse(call, CUSHIM_UNKNOWNPTR, "not of this pool");
    }
    if (cushim_address_map_was_freed(call->address))
        return refuse(call, CUSHIM_DOUBLEFREE, "freed before");
    if (atomic_load(&call->pool->has_lost))
        return CUSHIM_OK; /* the block went with its context */
    return refuse(call, CUSHIM_UNKNOWNPTR, "never handed out");
}

/* Find the block, in any state, and its heap. */
static bool find(struct cushim_pool_call *call) {
    const struct cushim_thread *thread = cushim_thread_mine;
    call->block = cushim_pool_block_find(thread ? thread->pool_memory : NULL, call->address);
    if (!call->block)
        return false;
    call->heap = cushim_pool_heap_of(call->block->streams);
    return call->heap->pool == call->pool;
}

static bool is_of_bucket(const struct cushim_pool_call *call, size_t asked_bytes) {
    return call->bytes == asked_bytes ||
           (call->bytes <= SIZE_MAX / 2 && cushim_pool_heap_bucket(call->heap, call->bytes) ==
                                               cushim_pool_heap_bucket(call->heap, asked_bytes));
}

static inline void count(struct cushim_mem_stream_cache *cache,
                         const struct cushim_mem_stream_block *block, size_t asked_bytes) {
    cache->counts.n_frees++;
    cushim_mem_stream_count_live(&cache->counts, -1, block, asked_bytes);
}

/* Put a block that we own into the cache, or on the list of its capture. */
static void put(const struct cushim_pool_call *call, size_t asked_bytes) {
    struct cushim_pool_object *pool = call->pool;
    struct cushim_mem_stream_block *block = call->block;
    struct cushim_mem_stream_cache *cache = call->cache;
    struct cushim_pool_graph *graph = NULL;
    size_t bucket_bytes = block->bucket_bytes;
    bool is_looked_at =
        load_acquire(&pool->n_freezes) || cushim_capture_count(cushim_pool_context_of(cache));
    bool is_captured = is_looked_at && cushim_pool_captured_by(pool, cache, &graph);
    if (pool->options.cap_live_bytes)
        atomic_fetch_sub(&pool->live_bytes, cushim_pool_heap_bucket(call->heap, asked_bytes));
    cushim_futex_lock_enter(&cache->lock);
    count(cache, block, asked_bytes);
    cushim_futex_lock_leave(&cache->lock);
    if (graph) {
        cushim_pool_capture_free(call, graph);
        return;
    }
    if (cushim_mem_stream_block_defer(block, cache, call->life))
        return;
    /* a fence of a stream in an unattached capture tells nothing, so the block waits for all */
    if (is_captured)
        cache = call->heap->streams.all;
    if (pool->is_checked && !is_looked_at)
        cushim_pool_check_poison(call->what, cache, block);
    cache = cushim_mem_stream_cache_put(cache, call->life, block);
    if (cache)
        cushim_pool_trim_idle(pool, cache, bucket_bytes);
    else
        cushim_address_map_note_freed(call->address); /* its context ended meanwhile */
}

static enum cushim_status run(const struct cushim_pool_call *call) {
    struct cushim_mem_stream_block *block = call->block;
    if (!cushim_mem_stream_block_take(block, call->address))
        return cushim_mem_stream_block_address(block) ==
                       call->address /* idle, or with another thread */
                   ? refuse(call, CUSHIM_DOUBLEFREE, "freed before")
                   : refuse_unknown(call);
    size_t asked_bytes = load_relaxed(&block->asked_bytes);
    enum cushim_status status = CUSHIM_OK;
    if (call->dev != -1 && call->dev != call->heap->context->device)
        status = CUSHIM_BADDEVICE;
    else if (call->bytes && !is_of_bucket(call, asked_bytes))
        status = CUSHIM_INVALID;
    if (status != CUSHIM_OK) {
        cushim_mem_stream_block_set_live(block);
        return refuse(call, status, status == CUSHIM_INVALID ? "another bucket" : "another device");
    }
    if (cushim_context_is_dead(call->heap->context)) /* its blocks go with the heap */
        cushim_address_map_note_freed(call->address);
    else
        put(call, asked_bytes);
    return CUSHIM_OK;
}

/* Free a node's memory in the capture that allocated it. */
static enum cushim_status free_node(const struct cushim_pool_call *call, struct cushim_stream *s) {
    struct cushim_pool_object *pool = call->pool;
    struct cushim_mem_stream stream;
    struct cushim_pool_graph *graph;
    CUSHIM_PIN pin = {0};
    if (!atomic_load(&pool->n_freezes) ||
        cushim_pool_stream_of(call, s, &stream, &pin) != CUSHIM_OK)
        return refuse_unknown(call);
    struct cushim_mem_stream_cache named = {.stream = stream, .life = 1};
    if (!cushim_pool_captured_by(pool, &named, &graph) || !graph)
        return refuse_unknown(call);
    enum cushim_status status = cushim_pool_capture_free_node(call, graph);
    return status == CUSHIM_NOTFOUND ? refuse_unknown(call) : status;
}

/*
 * ---- the fast path ----
 *
 * It serves a free if no cap but the bucket's applies, the batch does not fill up, and the block is
 * what the caller says.  The exchange in put_at_once shows whether the block is live.  A live block
 * that no graph holds is held by none until it is freed.
 */

ALWAYS_INLINE bool is_as_said(const struct cushim_pool_remembered *row,
                              const struct cushim_mem_stream_block *block, int dev, size_t bytes) {
    return row->cache->streams == block->streams && (dev == -1 || dev == (int)(row->target >> 8)) &&
           (bytes == load_relaxed(&block->asked_bytes) || !bytes) && !load_relaxed(&block->n_holds);
}

/* The caller holds the cache's lock.  False: nothing was done, because there is no room or another
 * thread frees the block. */
ALWAYS_INLINE bool put_at_once(struct cushim_mem_stream_cache *cache,
                               struct cushim_mem_stream_block *block, uint64_t address) {
    struct cushim_mem_stream_bucket *bucket =
        cushim_mem_stream_cache_recent(cache, block->bucket_bytes);
    if (unlikely(!bucket || bucket->n >= bucket->n_most ||
                 cache->open_blocks >= CUSHIM_MEM_STREAM_BATCH_BLOCKS - 1 ||
                 cache->open_bytes + block->bucket_bytes >= CUSHIM_MEM_STREAM_BATCH_BYTES ||
                 !cushim_mem_stream_block_take(block, address)))
        return false;
    count(cache, block, load_relaxed(&block->asked_bytes));
    cushim_mem_stream_cache_push_in(cache, bucket, block);
    return true;
}

/* False: the fast path did nothing. */
ALWAYS_INLINE bool free_fast(struct cushim_pool *p, int dev, cushim_devptr ptr, size_t bytes,
                             struct cushim_stream *s) {
    struct cushim_thread *thread = cushim_thread_mine;
    struct cushim_pool_memory *memory = thread ? thread->pool_memory : NULL;
    if (unlikely(!memory || !ptr))
        return false;
    struct cushim_mem_stream_block *block = cushim_pool_block_find(memory, ptr);
    if (unlikely(!block))
        return false;
    const struct cushim_pool_remembered *row =
        cushim_pool_row(memory, p, s, (int)cushim_pool_heap_of(block->streams)->kind);
    struct cushim_mem_stream_cache *cache = row->cache;
    if (unlikely(!cushim_pool_row_is_fast(row, p, s) || !is_as_said(row, block, dev, bytes) ||
                 !cushim_pool_row_enter(row, cache)))
        return false;
    if (unlikely(!put_at_once(cache, block, ptr))) {
        cushim_futex_lock_leave(&cache->lock);
        return false;
    }
    cushim_futex_lock_leave(&cache->lock);
    return true;
}

/* The slow path. */
static __attribute__((noinline)) enum cushim_status free_slowly(struct cushim_pool *p, int dev,
                                                                cushim_devptr ptr, size_t bytes,
                                                                struct cushim_stream *s) {
    CUSHIM_POOL_CALL call = {0};
    CUSHIM_TRY(cushim_pool_begin(&call, "cushim_pool_free", p));
    call.address = ptr;
    call.dev = dev;
    call.bytes = bytes;
    if (!ptr)
        return CUSHIM_OK;
    if (!find(&call))
        return free_node(&call, s);
    CUSHIM_TRY(cushim_pool_find_cache(&call, s));
    return run(&call);
}

enum cushim_status cushim_pool_free(struct cushim_pool *p, int dev, cushim_devptr ptr, size_t bytes,
                                    struct cushim_stream *s) {
    if (likely(free_fast(p, dev, ptr, bytes, s)))
        return CUSHIM_OK;
    return free_slowly(p, dev, ptr, bytes, s);
}
