/*
 * Captures of pools: what a captured stream allocates and frees belongs to its capture, and later
 * to the graph made from it (pool.h).
 *
 * A list has blocks and the memory of nodes.  It stores the life of each block's heap, and counts
 * in the block's n_holds.  When the last list drops a block, the block goes back to a cache.  If it
 * was freed meanwhile (deferred_life), that is the cache of the stream that freed it.  If it is
 * still live though the graph is gone, that is the cache of ALL, because its last stream is not
 * known.
 *
 * The pool's lock guards the attached captures and their lists.  A list whose capture has ended
 * belongs to its owner.
 */
#include <stdlib.h>
#include <utlist.h>

#include "companion/context/address_map.h"
#include "base/lock.h"
#include "companion/pool/pool_call.h"
#include "companion/stream/stream.h"

struct cushim_pool_graph_row {
    struct cushim_mem_stream_block *block; /* NULL: a node's memory */
    uint64_t life;                         /* of the block's heap */
    uint64_t address;                      /* of a node's memory */
    CUstream freed_on;                     /* the stream that freed the block */
    bool is_freed; /* the block was freed in this capture, and may serve in it again */
    struct cushim_pool_graph_row *next;
};

/* ---- lists ---- */

/* Hold a block in a list; NULL: no host memory, and the list does not hold it.  The caller holds
 * the pool's lock. */
static struct cushim_pool_graph_row *add_block(struct cushim_pool_graph *graph,
                                               struct cushim_mem_stream_block *block) {
    struct cushim_pool_graph_row *row = malloc(sizeof *row);
    if (!row)
        return NULL;
    *row = (struct cushim_pool_graph_row){.block = block,
                                          .life = cushim_mem_streams_life(block->streams)};
    LL_PREPEND(graph->rows, row);
    graph->bytes += block->bucket_bytes;
    cushim_mem_stream_block_hold(block);
    return row;
}

size_t cushim_pool_graph_bytes(const struct cushim_pool_graph *graph) {
    return graph ? graph->bytes : 0;
}

/* Keep the pool of a heap that is still in that life; NULL: the pool is gone. */
static struct cushim_pool_object *keep_pool(struct cushim_pool_heap *heap, uint64_t life) {
    CUSHIM_LOCKED(&heap->streams.lock);
    bool is_same = cushim_mem_streams_life(&heap->streams) == life;
    return is_same ? cushim_pool_keep_alive(heap->pool) : NULL;
}

static void let_go(const struct cushim_pool_graph_row *row, bool is_graph_gone) {
    struct cushim_mem_stream_block *block = row->block;
    uint32_t life;
    if (!cushim_mem_stream_block_let_go(block, row->life, is_graph_gone, &life))
        return;
    struct cushim_pool_object *pool = keep_pool(cushim_pool_heap_of(block->streams), row->life);
    if (!pool) {
        cushim_mem_stream_block_give(block, row->life);
        return;
    }
    struct cushim_mem_stream_cache *cache = load_relaxed(&block->cache);
    if (!life) { /* no free named a stream, so the block waits for all */
        cushim_futex_lock_enter(&cache->lock);
        cushim_mem_stream_count_live(&cache->counts, -1, block, atomic_load(&block->asked_bytes));
        cushim_futex_lock_leave(&cache->lock);
        cache = block->streams->all;
    }
    cushim_mem_stream_cache_put(cache, life, block);
    cushim_object_release(pool);
}

/* Free a list.  Its live blocks go back if is_graph_gone; otherwise they stay their callers'. */
void cushim_pool_graph_release(struct cushim_pool_graph *graph, bool was_made) {
    struct cushim_pool_graph_row *row, *next;
    struct cushim_address_map_row node;
    if (!graph)
        return;
    LL_FOREACH_SAFE(graph->rows, row, next) {
        if (row->block)
            let_go(row, was_made);
        else if (cushim_address_map_erase(row->address, &node) == CUSHIM_OK)
            cushim_address_map_drop(&node);
        free(row);
    }
    free(graph);
}

/* ---- which capture ---- */

/* The capture of a stream; NULL: none.  The caller holds the pool's lock. */
static struct cushim_pool_graph *find(const struct cushim_pool_object *pool,
                                      const struct cushim_context_object *context,
                                      CUstream stream) {
    struct cushim_pool_graph *graph = pool->freezes;
    while (graph && (graph->stream != stream || graph->context != context))
        graph = graph->next;
    return graph;
}

/* The capture that a thread began, or (thread NULL) the one of that number, on any stream.  The
 * caller holds the pool's lock. */
static struct cushim_pool_graph *find_any(const struct cushim_pool_object *pool, const void *thread,
                                          unsigned long long id) {
    struct cushim_pool_graph *graph = pool->freezes;
    while (graph &&
           (thread ? graph->thread != thread : cushim_stream_capture_id(graph->stream) != id))
        graph = graph->next;
    return graph;
}

bool cushim_pool_captured_by(struct cushim_pool_object *pool,
                             const struct cushim_mem_stream_cache *cache,
                             struct cushim_pool_graph **graph) {
    int n_freezes = atomic_load(&pool->n_freezes);
    *graph = NULL;
    if (!n_freezes &&
        (!cache->stream.fence || !cushim_capture_count(cushim_pool_context_of(cache))))
        return false;
    /* the capture in which the stream takes part; asks the driver, so before the lock */
    unsigned long long id = cache->stream.handle && cushim_mem_stream_cache_has_stream(cache)
                                ? cushim_stream_capture_id(cache->stream.handle)
                                : 0;
    CUSHIM_LOCKED(&pool->lock);
    if (cache->stream.handle == CUSHIM_MEM_STREAM_ALL)
        *graph = find_any(pool, cushim_mem_stream_thread(), 0);
    else
        *graph = find(pool, cushim_pool_context_of(cache), cache->stream.handle);
    if (!*graph && id)
        *graph = find_any(pool, NULL, id);
    return *graph || id;
}

/* ---- in a capture ---- */

static enum cushim_status refuse_host(const struct cushim_pool_call *call) {
    return cushim_fail(call->what, CUSHIM_NOMEM, "host=%zu", sizeof(struct cushim_pool_graph_row));
}

/* Serve by a block that was freed in the same capture on the same stream. */
static bool serve_again(struct cushim_pool_call *call, struct cushim_pool_graph *graph) {
    struct cushim_pool_graph_row *row;
    CUSHIM_LOCKED(&call->pool->lock);
    LL_FOREACH(graph->rows, row) {
        struct cushim_mem_stream_block *block = row->block;
        if (!row->is_freed || !block || row->freed_on != call->cache->stream.handle ||
            call->cache == call->heap->streams.all || block->streams != &call->heap->streams ||
            block->bucket_bytes != call->bucket_bytes)
            continue;
        row->is_freed = false;
        call->block = block;
        cushim_mem_stream_block_use_again(block);
        return true;
    }
    return false;
}

static enum cushim_status serve_hold(struct cushim_pool_call *call,
                                     struct cushim_pool_graph *graph) {
    if (serve_again(call, graph))
        return CUSHIM_OK;
    uint64_t life = cushim_mem_streams_life(&call->heap->streams);
    enum cushim_status status = cushim_pool_serve(call);
    if (status == CUSHIM_NOTFOUND && graph->memory == CUSHIM_GRAPH_MEMORY_REFUSE)
        return cushim_fail(call->what, CUSHIM_CAPTURE, "asked=%zu stream=%p", call->bytes,
                           (void *)graph->stream);
    if (status == CUSHIM_NOTFOUND)
        status = cushim_pool_fetch(call);
    if (status == CUSHIM_NOMEM)
        status = cushim_pool_serve_by_reclaim(call);
    CUSHIM_TRY(status);
    if (CUSHIM_UNDER(&call->pool->lock, add_block(graph, call->block)))
        return CUSHIM_OK;
    cushim_mem_stream_block_give(call->block, life); /* only blocks that are over serve here */
    return refuse_host(call);
}

static void add(struct cushim_pool_object *pool, struct cushim_pool_graph *graph,
                struct cushim_pool_graph_row *node) {
    CUSHIM_LOCKED(&pool->lock);
    LL_PREPEND(graph->rows, node);
}

/* Allocate as a node.  The address is in the address map until the graph is gone. */
static enum cushim_status serve_node(struct cushim_pool_call *call,
                                     struct cushim_pool_graph *graph) {
    CUSHIM_SCOPE scope = {0};
    CUdeviceptr address = 0;
    CUSHIM_TRY(cushim_call_begin_known(&scope, call->what, call->heap->context));
    struct cushim_pool_graph_row *row = calloc(1, sizeof *row);
    if (!row)
        return refuse_host(call);
    CUstream stream =
        call->cache == call->heap->streams.all ? graph->stream : call->cache->stream.handle;
    enum cushim_status status = CUSHIM_CALL(&scope, cuMemAllocAsync, &address, call->bytes, stream);
    if (status == CUSHIM_OK) {
        const struct cushim_address_map_row node = cushim_address_map_row_of(
            CUSHIM_MEMORY_GRAPH, address, call->bytes, call->heap->context, &call->pool->object);
        status = cushim_address_map_record(&node);
    }
    if (status != CUSHIM_OK) {
        free(row);
        return status;
    }
    call->node = row->address = address;
    add(call->pool, graph, row);
    return CUSHIM_OK;
}

enum cushim_status cushim_pool_capture_alloc(struct cushim_pool_call *call,
                                             struct cushim_pool_graph *graph) {
    bool is_node = graph->memory == CUSHIM_GRAPH_MEMORY_NODES &&
                   call->heap->kind == CUSHIM_MEM_DEVICE && CUSHIM_DRIVER(cuMemAllocAsync) &&
                   CUSHIM_DRIVER(cuMemFreeAsync);
    return is_node ? serve_node(call, graph) : serve_hold(call, graph);
}

void cushim_pool_capture_free(const struct cushim_pool_call *call,
                              struct cushim_pool_graph *graph) {
    struct cushim_mem_stream_block *block = call->block;
    struct cushim_pool_object *pool = call->pool;
    struct cushim_pool_graph_row *row;
    CUSHIM_LOCKED(&pool->lock);
    LL_SEARCH_SCALAR(graph->rows, row, block, block);
    row = row ? row : add_block(graph, block);
    if (row) { /* without a row the block is never reused, because nothing tells when it may */
        row->is_freed = atomic_load(&block->n_holds) == 1; /* no other graph holds it */
        row->freed_on = call->cache->stream.handle;
    }
    cushim_mem_stream_block_defer(block, call->cache, call->life);
}

/* Take a node's row off the list of its capture; NULL: the address is no node's. */
static struct cushim_pool_graph_row *take_node(struct cushim_pool_object *pool,
                                               struct cushim_pool_graph *graph, uint64_t address) {
    struct cushim_pool_graph_row *row;
    CUSHIM_LOCKED(&pool->lock);
    LL_SEARCH_SCALAR(graph->rows, row, address, address);
    if (row)
        LL_DELETE(graph->rows, row);
    return row;
}

enum cushim_status cushim_pool_capture_free_node(const struct cushim_pool_call *call,
                                                 struct cushim_pool_graph *graph) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_address_map_row row;
    struct cushim_pool_graph_row *node = take_node(call->pool, graph, call->address);
    if (!node || cushim_address_map_erase(call->address, &row) != CUSHIM_OK) {
        free(node);
        return CUSHIM_NOTFOUND;
    }
    enum cushim_status status = cushim_call_begin_known(&scope, call->what, graph->context);
    if (status == CUSHIM_OK)
        status = CUSHIM_CALL(&scope, cuMemFreeAsync, call->address, graph->stream);
    if (status != CUSHIM_OK) {
        cushim_address_map_restore(&row);
        add(call->pool, graph, node);
        return status;
    }
    cushim_address_map_drop(&row);
    free(node);
    return CUSHIM_OK;
}

/* ---- begin and end ---- */

/* Record fences, so that what was freed on the stream can complete while it captures. */
static void fence_caches(struct cushim_pool_object *pool,
                         const struct cushim_context_object *context, CUstream stream) {
    for (struct cushim_pool_heap *heap = NULL; (heap = cushim_pool_next_heap(pool, heap));) {
        CUSHIM_MEM_EACH_STREAM_CACHE(cache, &heap->streams) {
            if (cache->stream.fence == &context->fence &&
                (cache->stream.handle == stream || cache == heap->streams.all))
                cushim_mem_stream_cache_prove(cache, CUSHIM_MEM_RECORD);
        }
    }
}

enum cushim_status cushim_pool_freeze_stream(struct cushim_scope *scope,
                                             struct cushim_pool_object *pool, CUstream stream,
                                             enum cushim_graph_memory memory) {
    if (!stream || stream == CU_STREAM_LEGACY || memory > CUSHIM_GRAPH_MEMORY_REFUSE)
        return cushim_scope_fail(scope, CUSHIM_INVALID, "stream=%p memory=%d", (void *)stream,
                                 (int)memory);
    struct cushim_pool_graph *graph = malloc(sizeof *graph);
    CUSHIM_FAIL_IF(scope->what, !graph, CUSHIM_NOMEM, "host=%zu", sizeof *graph);
    fence_caches(pool, scope->context, stream);
    *graph = (struct cushim_pool_graph){.context = scope->context,
                                        .stream = stream,
                                        .memory = memory,
                                        .thread = cushim_mem_stream_thread()};
    CUSHIM_LOCKED(&pool->lock);
    if (find(pool, scope->context, stream)) {
        free(graph);
        return cushim_scope_fail(scope, CUSHIM_STATE, "frozen for stream=%p", (void *)stream);
    }
    cushim_object_keep(scope->context);
    LL_PREPEND(pool->freezes, graph);
    atomic_fetch_add(&pool->n_freezes, 1);
    cushim_changes_note();
    return CUSHIM_OK;
}

enum cushim_status cushim_pool_unfreeze_stream(struct cushim_context_object *context,
                                               struct cushim_pool_object *pool, CUstream stream,
                                               struct cushim_pool_graph **out) {
    CUSHIM_CLEAR(out);
    pthread_mutex_lock(&pool->lock);
    struct cushim_pool_graph *graph = find(pool, context, stream);
    if (graph) {
        LL_DELETE(pool->freezes, graph);
        atomic_fetch_sub(&pool->n_freezes, 1);
    }
    pthread_mutex_unlock(&pool->lock);
    if (!graph)
        return CUSHIM_STATE;
    cushim_object_release(graph->context);
    if (!out || !graph->rows)
        cushim_pool_graph_release(graph, false);
    else
        *out = graph;
    return CUSHIM_OK;
}

/* ---- the calls ---- */

enum cushim_status cushim_pool_freeze(struct cushim_pool *p, struct cushim_stream *s,
                                      enum cushim_graph_memory memory) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_stream_use use;
    if ((unsigned)memory > CUSHIM_GRAPH_MEMORY_REFUSE)
        return CUSHIM_FAIL(CUSHIM_INVALID, "memory=%d", (int)memory);
    CUSHIM_ENTER_POOL(p);
    CUSHIM_TRY(cushim_stream_enter(&scope, call.what, s, &use));
    return cushim_pool_freeze_stream(&scope, call.pool, use.handle, memory);
}

enum cushim_status cushim_pool_frozen(struct cushim_pool *p, int *n) {
    CUSHIM_OUT(n);
    CUSHIM_ENTER_POOL(p);
    *n = atomic_load(&call.pool->n_freezes);
    return CUSHIM_OK;
}
