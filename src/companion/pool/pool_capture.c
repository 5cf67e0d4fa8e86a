/*
 * Captures of pools: what a captured stream allocates and frees belongs to its capture, then to the
 * graph made of it (pool.h).
 *
 * Lock: freezes, and their lists, are guarded by the pool's lock.
 */
#include <stdlib.h>

#include "base/try.h"
#include "cushim/graph.h"
#include "companion/context/address_map.h"
#include "companion/capture/known_captures.h"
#include "companion/core/changes.h"
#include "companion/pool/pool_request.h"
#include "companion/pool/pool_graph.h"
#include "companion/stream/stream.h"

/* ---- which capture ---- */

/* Under the pool's lock. */
static struct cushim_pool_freeze *find_freeze(struct cushim_pool_object *pool,
                                              const struct cushim_context_object *context,
                                              CUstream stream) {
    struct cushim_pool_freeze *freeze = pool->freezes;
    while (freeze && (freeze->stream != stream || freeze->context != context))
        freeze = freeze->next;
    return freeze;
}

/* Under the pool's lock: the capture whose number is `id`, begun on whichever stream. */
static struct cushim_pool_freeze *find_by_id(struct cushim_pool_object *pool,
                                             unsigned long long id) {
    struct cushim_pool_freeze *freeze = pool->freezes;
    while (freeze && cushim_stream_capture_id(freeze->stream) != id)
        freeze = freeze->next;
    return freeze;
}

static struct cushim_pool_freeze *find_of_thread(struct cushim_pool_object *pool) {
    struct cushim_pool_freeze *freeze = pool->freezes;
    while (freeze && freeze->thread != cushim_pool_thread())
        freeze = freeze->next;
    return freeze;
}

/* The number of the capture that a cache's stream takes part in; 0: none. */
static unsigned long long id_of(const struct cushim_pool_cache *cache) {
    if (cache->of.handle == CUSHIM_POOL_ALL || !cache->of.handle ||
        cushim_pool_cache_is_gone(cache) ||
        (cache->of.thread && cache->of.thread != cushim_pool_thread()))
        return 0;
    return cushim_stream_capture_id(cache->of.handle);
}

enum cushim_pool_captured cushim_pool_captured_by(struct cushim_pool_object *pool,
                                                  const struct cushim_pool_cache *cache,
                                                  struct cushim_pool_freeze *freeze) {
    struct cushim_pool_freeze *found = NULL;
    int n_freezes = atomic_load(&pool->n_freezes);
    if (!n_freezes && (!cache->of.context || !cushim_capture_count(cache->of.context)))
        return CUSHIM_POOL_NOT_CAPTURED;
    unsigned long long id = id_of(cache); /* a question to the driver: without the lock */
    pthread_mutex_lock(&pool->lock);
    if (cache->of.handle == CUSHIM_POOL_ALL)
        found = find_of_thread(pool);
    else
        found = find_freeze(pool, cache->of.context, cache->of.handle);
    if (!found && id)
        found = find_by_id(pool, id);
    if (found)
        *freeze = *found;
    pthread_mutex_unlock(&pool->lock);
    return found ? CUSHIM_POOL_CAPTURED_ATTACHED
           : id  ? CUSHIM_POOL_CAPTURED
                 : CUSHIM_POOL_NOT_CAPTURED;
}

/* ---- in a capture ---- */

static enum cushim_status refuse_host(const struct cushim_pool_request *request) {
    return cushim_fail(request->what, CUSHIM_NOMEM, "host=%zu",
                       sizeof(struct cushim_pool_graph_row));
}

/* A block that was freed in the same capture on the same stream. */
static bool serve_again(struct cushim_pool_request *request, struct cushim_pool_graph *held) {
    for (size_t i = held->n_rows; i-- > 0;) {
        struct cushim_pool_graph_row *row = &held->rows[i];
        if (!row->is_freed || row->freed_on != request->cache->of.handle ||
            request->cache == request->heap->all || row->block->heap != request->heap ||
            row->bucket_bytes != request->bucket_bytes)
            continue;
        row->is_freed = false;
        request->block = row->block;
        cushim_pool_graph_defer(row->block, NULL);
        return true;
    }
    return false;
}

static enum cushim_status serve_hold(struct cushim_pool_request *request,
                                     const struct cushim_pool_freeze *freeze) {
    pthread_mutex_lock(&request->pool->lock);
    bool is_again = serve_again(request, freeze->held);
    pthread_mutex_unlock(&request->pool->lock);
    if (is_again)
        return CUSHIM_OK;
    enum cushim_status status = cushim_pool_serve(request);
    if (status == CUSHIM_NOTFOUND && freeze->memory == CUSHIM_GRAPH_MEMORY_REFUSE)
        return cushim_fail(request->what, CUSHIM_CAPTURE, "asked=%zu stream=%p", request->bytes,
                           (void *)freeze->stream);
    if (status == CUSHIM_NOTFOUND)
        status = cushim_pool_fetch(request);
    if (status == CUSHIM_NOMEM)
        status = cushim_pool_serve_by_reclaim(request);
    CUSHIM_TRY(status);
    pthread_mutex_lock(&request->pool->lock);
    bool is_held = cushim_pool_graph_add_block(freeze->held, request->block) != NULL;
    pthread_mutex_unlock(&request->pool->lock);
    if (is_held)
        return CUSHIM_OK;
    cushim_pool_cache_lock(request->cache); /* over: that is why it served */
    cushim_pool_cache_push_over(request->cache, request->block);
    cushim_pool_cache_unlock(request->cache);
    return refuse_host(request);
}

/* Allocation as a node: the address is the ledger's until the graph is gone. */
static enum cushim_status serve_node(struct cushim_pool_request *request,
                                     const struct cushim_pool_freeze *freeze, cushim_devptr *node) {
    struct cushim_scope scope;
    CUdeviceptr address = 0;
    CUSHIM_TRY(cushim_call_begin_known(&scope, request->what, request->heap->context));
    pthread_mutex_lock(&request->pool->lock);
    struct cushim_pool_graph_row *row = cushim_pool_graph_add(freeze->held);
    size_t index = freeze->held->n_rows - 1;
    if (row)
        row->is_over = true;
    pthread_mutex_unlock(&request->pool->lock);
    CUstream stream =
        request->cache == request->heap->all ? freeze->stream : request->cache->of.handle;
    enum cushim_status status =
        row ? CUSHIM_CALL(&scope, cuMemAllocAsync, &address, request->bytes, stream)
            : refuse_host(request);
    if (status == CUSHIM_OK)
        status = cushim_address_map_record(&(struct cushim_address_map_row){
            .start = address,
            .bytes = request->bytes,
            .kind = CUSHIM_MEMORY_GRAPH,
            .context = request->heap->context,
            .owner = &request->pool->object,
        });
    if (status == CUSHIM_OK) {
        pthread_mutex_lock(&request->pool->lock);
        freeze->held->rows[index].address = address;
        freeze->held->rows[index].is_over = false;
        pthread_mutex_unlock(&request->pool->lock);
        *node = address;
    }
    return cushim_call_end(&scope, status);
}

enum cushim_status cushim_pool_capture_alloc(struct cushim_pool_request *request,
                                             const struct cushim_pool_freeze *freeze,
                                             cushim_devptr *node) {
    bool is_node = freeze->memory == CUSHIM_GRAPH_MEMORY_NODES &&
                   request->heap->kind == CUSHIM_MEM_DEVICE && CUSHIM_DRIVER(cuMemAllocAsync) &&
                   CUSHIM_DRIVER(cuMemFreeAsync);
    return is_node ? serve_node(request, freeze, node) : serve_hold(request, freeze);
}

enum cushim_status cushim_pool_capture_free(const struct cushim_pool_freeze *freeze,
                                            struct cushim_pool_block *block,
                                            struct cushim_pool_cache *cache) {
    struct cushim_pool_object *pool = block->heap->pool;
    pthread_mutex_lock(&pool->lock);
    struct cushim_pool_graph_row *row = cushim_pool_graph_find(freeze->held, block);
    if (!row)
        row = cushim_pool_graph_add_block(freeze->held, block);
    if (row) {
        row->is_freed = atomic_load(&block->n_holds) == 1; /* no other graph uses it */
        row->freed_on = cache->of.handle;
    }
    cushim_pool_graph_defer(block, cache);
    pthread_mutex_unlock(&pool->lock);
    /* Without host memory to note it, it is never reused: nobody could say when it may be. */
    return CUSHIM_OK;
}

/* Is it a node's memory of this capture?  It is noted as freed, or as not. */
static bool note_node(struct cushim_pool_object *pool, const struct cushim_pool_freeze *freeze,
                      uint64_t address, bool is_freed) {
    pthread_mutex_lock(&pool->lock);
    struct cushim_pool_graph_row *row = NULL;
    for (size_t i = 0; i < freeze->held->n_rows && !row; i++) {
        struct cushim_pool_graph_row *at = &freeze->held->rows[i];
        row = !at->block && at->address == address && at->is_over != is_freed ? at : NULL;
    }
    if (row)
        row->is_over = is_freed;
    pthread_mutex_unlock(&pool->lock);
    return row != NULL;
}

enum cushim_status cushim_pool_capture_free_node(const char *what, struct cushim_pool_object *pool,
                                                 const struct cushim_pool_freeze *freeze,
                                                 uint64_t address) {
    struct cushim_scope scope;
    struct cushim_address_map_row row;
    if (!note_node(pool, freeze, address, true))
        return CUSHIM_NOTFOUND;
    if (cushim_address_map_erase(address, &row) != CUSHIM_OK)
        return CUSHIM_NOTFOUND;
    enum cushim_status status = cushim_call_begin_known(&scope, what, freeze->context);
    if (status == CUSHIM_OK)
        status =
            cushim_call_end(&scope, CUSHIM_CALL(&scope, cuMemFreeAsync, address, freeze->stream));
    if (status != CUSHIM_OK) {
        cushim_address_map_restore(&row);
        note_node(pool, freeze, address, false);
        return status;
    }
    cushim_address_map_drop(&row);
    return CUSHIM_OK;
}

/* ---- begin and end ---- */

/* What was freed on the stream so far can become complete while it captures. */
static void fence_caches(struct cushim_pool_object *pool,
                         const struct cushim_context_object *context, CUstream stream,
                         const char *what) {
    for (struct cushim_pool_heap *heap = NULL; (heap = cushim_pool_next_heap(pool, heap));) {
        for (struct cushim_pool_cache *cache = NULL;
             (cache = cushim_pool_next_cache(heap, cache));) {
            if (cache->of.context == context && (cache->of.handle == stream || cache == heap->all))
                cushim_pool_cache_prove(cache, what, CUSHIM_POOL_RECORD);
        }
    }
}

enum cushim_status cushim_pool_freeze_stream(struct cushim_scope *scope,
                                             struct cushim_pool_object *pool, CUstream stream,
                                             enum cushim_graph_memory memory) {
    if (!stream || stream == CU_STREAM_LEGACY || memory > CUSHIM_GRAPH_MEMORY_REFUSE)
        return cushim_scope_fail(scope, CUSHIM_INVALID, "stream=%p memory=%d", (void *)stream,
                                 (int)memory);
    struct cushim_pool_freeze *freeze = calloc(1, sizeof *freeze);
    struct cushim_pool_graph *held = calloc(1, sizeof *held);
    if (!freeze || !held) {
        free(freeze);
        free(held);
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host=%zu", sizeof *freeze);
    }
    fence_caches(pool, scope->context, stream, scope->what);
    *freeze = (struct cushim_pool_freeze){.context = scope->context,
                                          .stream = stream,
                                          .memory = memory,
                                          .thread = cushim_pool_thread(),
                                          .held = held};
    pthread_mutex_lock(&pool->lock);
    bool is_there = find_freeze(pool, scope->context, stream) != NULL;
    if (!is_there) {
        cushim_object_keep(scope->context);
        freeze->next = pool->freezes;
        pool->freezes = freeze;
        atomic_fetch_add(&pool->n_freezes, 1);
        cushim_changes_note();
    }
    pthread_mutex_unlock(&pool->lock);
    if (!is_there)
        return CUSHIM_OK;
    free(freeze);
    free(held);
    return cushim_scope_fail(scope, CUSHIM_STATE, "frozen for stream=%p", (void *)stream);
}

enum cushim_status cushim_pool_unfreeze_stream(struct cushim_context_object *context,
                                               struct cushim_pool_object *pool, CUstream stream,
                                               struct cushim_pool_graph **out) {
    if (out)
        *out = NULL;
    pthread_mutex_lock(&pool->lock);
    struct cushim_pool_freeze **at = &pool->freezes, *freeze;
    while ((freeze = *at) && (freeze->stream != stream || freeze->context != context))
        at = &freeze->next;
    if (freeze) {
        *at = freeze->next;
        atomic_fetch_sub(&pool->n_freezes, 1);
    }
    pthread_mutex_unlock(&pool->lock);
    if (!freeze)
        return CUSHIM_STATE;
    struct cushim_pool_graph *held = freeze->held;
    cushim_object_release(freeze->context);
    free(freeze);
    for (size_t i = 0; i < held->n_rows; i++)
        held->rows[i].is_freed = false;
    if (!out || !held->n_rows)
        cushim_pool_graph_drop(held, false);
    else
        *out = held;
    return CUSHIM_OK;
}

/* ---- the calls ---- */

enum cushim_status cushim_pool_freeze(struct cushim_pool *p, struct cushim_stream *s,
                                      enum cushim_graph_memory memory) {
    struct cushim_pool_call call;
    struct cushim_scope scope;
    struct cushim_stream_use use;
    if ((unsigned)memory > CUSHIM_GRAPH_MEMORY_REFUSE)
        return CUSHIM_FAIL(CUSHIM_INVALID, "memory=%d", (int)memory);
    CUSHIM_TRY(cushim_pool_begin(&call, __func__, p));
    enum cushim_status status = cushim_stream_enter(&scope, call.what, s, &use);
    if (status == CUSHIM_OK) {
        status = cushim_pool_freeze_stream(&scope, call.pool, use.handle, memory);
        cushim_stream_let_go(&use);
        status = cushim_call_end(&scope, status);
    }
    return cushim_pool_end(&call, status);
}

static enum cushim_status unfreeze(struct cushim_pool_call *call, struct cushim_scope *scope,
                                   CUstream stream, struct cushim_graph **g) {
    struct cushim_pool_graph *held = NULL;
    if (g && !cushim_graph_of_held)
        return cushim_scope_fail(scope, CUSHIM_NOTSUPPORTED, "graphs");
    if (cushim_pool_unfreeze_stream(scope->context, call->pool, stream, g ? &held : NULL) !=
        CUSHIM_OK)
        return cushim_scope_fail(scope, CUSHIM_STATE, "not frozen for stream=%p", (void *)stream);
    if (!g)
        return CUSHIM_OK;
    enum cushim_status status = cushim_graph_of_held(call->what, scope->context, held, g);
    if (status != CUSHIM_OK && held)
        cushim_pool_graph_drop(held, false);
    return status;
}

enum cushim_status cushim_pool_unfreeze(struct cushim_pool *p, struct cushim_stream *s,
                                        struct cushim_graph **g) {
    struct cushim_pool_call call;
    struct cushim_scope scope;
    struct cushim_stream_use use;
    if (g)
        *g = NULL;
    CUSHIM_TRY(cushim_pool_begin(&call, __func__, p));
    enum cushim_status status = cushim_stream_enter(&scope, call.what, s, &use);
    if (status == CUSHIM_OK) {
        status = unfreeze(&call, &scope, use.handle, g);
        cushim_stream_let_go(&use);
        status = cushim_call_end(&scope, status);
    }
    return cushim_pool_end(&call, status);
}

enum cushim_status cushim_pool_frozen(struct cushim_pool *p, int *n) {
    struct cushim_pool_call call;
    if (!n)
        return CUSHIM_FAIL(CUSHIM_INVALID, "n=NULL");
    *n = 0;
    CUSHIM_TRY(cushim_pool_begin(&call, __func__, p));
    *n = atomic_load(&call.pool->n_freezes);
    return cushim_pool_end(&call, CUSHIM_OK);
}
