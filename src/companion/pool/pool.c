#include "companion/pool/pool.h"

#include <stdlib.h>

#include "cushim/device.h"
#include "cushim/library.h"
#include "memory/reclaim.h"
#include "memory/state/heap_state.h"
#include "base/lock.h"
#include "companion/context/address_map.h"
#include "companion/capture/graph_resources.h"
#include "companion/pool/pool_call.h"
#include "companion/context/pressure.h"
#include "companion/stream/stream.h"

enum { KEEP_BYTES = 32 << 20 };

/* ---- what a thread remembers ---- */

/* NULL: no host memory. */
static struct cushim_pool_memory *memory_of_thread(void) {
    struct cushim_thread *thread = cushim_thread_get();
    if (!thread || thread->pool_memory)
        return thread ? thread->pool_memory : NULL;
    struct cushim_pool_memory *made =
        aligned_alloc(_Alignof(struct cushim_pool_memory), sizeof *made);
    if (made)
        *made = (struct cushim_pool_memory){0};
    return thread->pool_memory = made;
}

/* May the fast path use a cache of the pool? */
static bool is_calm(const struct cushim_pool_object *pool,
                    const struct cushim_mem_stream_cache *cache) {
    const struct cushim_pool_heap *heap = cushim_pool_heap_of(cache->streams);
    struct cushim_context_object *context = cushim_pool_context_of(cache);
    return !atomic_load(&pool->object.is_closed) && !cushim_graph_resources_is_due() &&
           !pool->is_checked && !pool->options.cap_live_bytes && atomic_load(&pool->is_holding) &&
           !atomic_load(&pool->n_freezes) && !cushim_context_is_dead(heap->context) &&
           !cushim_context_is_dead(context) && !cushim_capture_count(context);
}

enum cushim_status cushim_pool_stream_of(const struct cushim_pool_call *call,
                                         struct cushim_stream *s, struct cushim_mem_stream *stream,
                                         struct cushim_pin *pin) {
    *stream = (struct cushim_mem_stream){.handle = (CUstream)s}; /* right for special values */
    if (!cushim_stream_is_special(s) && s != CUSHIM_STREAM_ALL) {
        struct cushim_stream_object *object = cushim_handle_pin(pin, CUSHIM_KIND_STREAM, s);
        if (!object && (!call->address || !cushim_handle_is_closed(CUSHIM_KIND_STREAM, s)))
            return cushim_fail(call->what, CUSHIM_BADHANDLE, "stream=%p", (void *)s);
        stream->fence = object ? &object->object.context->fence : NULL;
        /* if the stream was closed, its work is somewhere in the context's */
        stream->handle = object ? object->handle : CUSHIM_MEM_STREAM_ALL;
    }
    if (stream->handle == CU_STREAM_LEGACY)
        stream->handle = NULL;
    if (stream->handle == CU_STREAM_PER_THREAD)
        stream->thread = cushim_mem_stream_thread();
    return CUSHIM_OK;
}

static enum cushim_status look_up(struct cushim_pool_call *call, struct cushim_stream *s) {
    struct cushim_mem_stream stream;
    CUSHIM_PIN pin = {0};
    CUSHIM_TRY(cushim_pool_stream_of(call, s, &stream, &pin));
    if (!stream.fence)
        stream.fence = &call->heap->context->fence;
    call->cache = cushim_mem_stream_cache_of(&call->heap->streams, &stream, &call->life);
    return call->cache ? CUSHIM_OK
                       : cushim_fail(call->what, CUSHIM_NOMEM, "host=%zu", sizeof *call->cache);
}

/* Whether the handle was not closed.  The cache of a default stream outlives its wrappers. */
static bool is_open(const struct cushim_stream *s) {
    const struct cushim_slot *slot = cushim_slot_of_kind(CUSHIM_KIND_STREAM, (uintptr_t)s);
    return !slot || atomic_load(&slot->handle) == (uintptr_t)s;
}

enum cushim_status cushim_pool_find_cache(struct cushim_pool_call *call, struct cushim_stream *s) {
    const struct cushim_pool_heap *heap = call->heap;
    const void *handle = call->pool->object.handle;
    struct cushim_pool_memory *memory = memory_of_thread();
    /* read first, so that a change during this call makes the row stale */
    uint64_t n_changes = cushim_changes_now();
    if (!memory)
        return look_up(call, s);
    struct cushim_pool_remembered *row = cushim_pool_row(memory, handle, s, (int)heap->kind);
    if (!cushim_pool_row_is_of(row, handle, s) || row->cache->streams != &heap->streams ||
        !cushim_mem_stream_cache_is_of(row->cache, row->life) || !is_open(s)) {
        row->pool = NULL;
        CUSHIM_TRY(look_up(call, s));
        *row = (struct cushim_pool_remembered){
            .pool = handle,
            .stream = call->cache == heap->streams.all ? CUSHIM_STREAM_ALL : s,
            .cache = call->cache,
            .life = call->life,
            .target = cushim_pool_target(heap->context->device, (int)heap->kind)};
    }
    row->n_changes = is_calm(call->pool, row->cache) ? n_changes : 0;
    row->has_preload = load_relaxed(&cushim_capture_preload) >= 0;
    call->cache = row->cache;
    call->life = row->life;
    return CUSHIM_OK;
}

/* ---- for the address map and memory pressure ---- */

static bool find(uint64_t address, struct cushim_address_map_row *row) {
    struct cushim_mem_stream_block *block = cushim_pool_block(address);
    if (!block || !cushim_mem_stream_block_is_live(block))
        return false;
    uint64_t start = cushim_mem_stream_block_address(block);
    size_t bytes = load_relaxed(&block->asked_bytes);
    if (address - start >= bytes)
        return false;
    struct cushim_pool_heap *heap = cushim_pool_heap_of(block->streams);
    CUSHIM_LOCKED(&heap->streams.lock);
    if (atomic_load(&heap->streams.is_lost))
        return false;
    *row = (struct cushim_address_map_row){
        .start = start,
        .bytes = bytes,
        .kind = (enum cushim_memory_kind)heap->kind,
        .flags = heap->streams.heap->flags,
        .context = cushim_object_keep(heap->context),
        .owner = (struct cushim_object *)cushim_pool_keep_alive(heap->pool),
        .is_shared = !block->ref.extent->segment->is_dedicated};
    return true;
}

static size_t give(struct cushim_context_object *context, size_t bytes) {
    size_t n_bytes = 0;
    struct cushim_pool_heap *heap = NULL;
    while (n_bytes < bytes && (heap = cushim_pool_heap_next(heap))) {
        pthread_mutex_lock(&heap->streams.lock);
        bool is_meant = heap->context == context && heap->kind != CUSHIM_MEM_PINNED &&
                        !atomic_load(&heap->streams.is_lost);
        /* so that the heap does not become another pool's meanwhile */
        struct cushim_pool_object *pool = is_meant ? cushim_pool_keep_alive(heap->pool) : NULL;
        pthread_mutex_unlock(&heap->streams.lock);
        if (!pool) /* a heap without a pool keeps nothing idle */
            continue;
        cushim_mem_streams_reclaim(&heap->streams, bytes - n_bytes, CUSHIM_MEM_RECORD);
        n_bytes += cushim_mem_reclaim_trim(heap->streams.heap, 0);
        cushim_object_release(pool);
    }
    return n_bytes;
}

static void count(struct cushim_context_object *context, struct cushim_pressure_held *held) {
    struct cushim_pool_heap *heap = NULL;
    while ((heap = cushim_pool_heap_next(heap))) {
        if (heap->context != context || heap->kind != CUSHIM_MEM_DEVICE ||
            atomic_load(&heap->streams.is_lost))
            continue;
        size_t idle_bytes = cushim_mem_streams_idle_bytes(&heap->streams);
        size_t used_bytes = atomic_load(&heap->streams.heap->live_bytes);
        held->cached_bytes += idle_bytes + atomic_load(&heap->streams.heap->free_segment_bytes);
        held->live_bytes += cushim_less(used_bytes, idle_bytes);
        held->reusable_bytes += cushim_mem_reclaim_reusable_bytes(heap->streams.heap);
    }
}

/* Free a live block whose pool is gone. */
static bool release(const char *what, uint64_t start, bool is_host, enum cushim_status *status) {
    struct cushim_mem_stream_block *block = cushim_pool_block(start);
    (void)what;
    if (!block || is_host != (cushim_pool_heap_of(block->streams)->kind == CUSHIM_MEM_PINNED) ||
        !cushim_mem_stream_block_free_orphan(block, start))
        return false;
    *status = CUSHIM_OK;
    return true;
}

static struct cushim_pressure pressure = {
    .give = give, .count = count, .release = release, .find = find};

/* ---- pools ---- */

/* Slots have exactly the size asked for, because the pool rounds requests to its own buckets. */
static void begin_all(void) {
    cushim_mem_sizeclass_choose(CUSHIM_MEM_EXACT);
    cushim_pressure_add(&pressure);
}

static void finish(struct cushim_object *object) {
    struct cushim_pool_object *pool = (struct cushim_pool_object *)object;
    while (pool->freezes) {
        struct cushim_pool_graph *graph = pool->freezes;
        cushim_pool_unfreeze_stream(graph->context, pool, graph->stream, NULL);
    }
    struct cushim_pool_heap *heap = atomic_load(&pool->heaps), *next;
    for (; heap; heap = next) {
        next = atomic_load(&heap->next);
        cushim_mem_streams_close(&heap->streams);
    }
    cushim_object_release(pool->context);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* A percentage is of the calling thread's device; it is 0 if there is no device. */
static size_t amount_bytes(struct cushim_amount amount) {
    size_t whole_bytes = 0;
    if (amount.is_percent && cushim_available())
        cushim_device_memory(-1, &whole_bytes);
    return cushim_amount_bytes(amount, whole_bytes);
}

/* Single devices may have limits of their own; then it is the calling thread's that counts. */
static size_t limit_bytes(const char *limits) {
    int device = 0;
    if (strchr(limits, ':') && cushim_available())
        cushim_device_current(&device);
    return amount_bytes(cushim_limits_of(limits, device));
}

void cushim_pool_options_default(struct cushim_pool_options *options) {
    if (!options)
        return;
    const struct cushim_options *settings = cushim_settings();
    *options = (struct cushim_pool_options){
        .struct_size = sizeof *options,
        .policy = settings->buckets,
        .steps = 8,
        .poll_us = 50,
        .cap_bucket_blocks = 64,
        .cap_bucket_bytes = (size_t)64 << 20,
        .cap_live_bytes = limit_bytes(settings->limit),
        .keep_bytes =
            cushim_amount_is_auto(settings->keep) ? KEEP_BYTES : amount_bytes(settings->keep),
    };
    if (options->cap_live_bytes == SIZE_MAX)
        options->cap_live_bytes = 0;
}

static enum cushim_status make(const char *what, const struct cushim_pool_options *options,
                               struct cushim_context_object *context, struct cushim_pool **p) {
    struct cushim_pool_object *pool = calloc(1, sizeof *pool);
    CUSHIM_FAIL_IF(what, !pool, CUSHIM_NOMEM, "host=%zu", sizeof *pool);
    pool->options = *options;
    pool->is_checked = cushim_settings()->check != 0;
    atomic_init(&pool->is_holding, true);
    pthread_mutex_init(&pool->lock, NULL);
    pool->context = cushim_object_keep(context);
    cushim_object_init(&pool->object, CUSHIM_KIND_POOL, NULL, finish);
    return cushim_object_open(&pool->object, p);
}

enum cushim_status cushim_pool_create(const struct cushim_pool_options *given,
                                      struct cushim_pool **p) {
    static pthread_once_t begun = PTHREAD_ONCE_INIT;
    struct cushim_pool_options options;
    CUSHIM_SCOPE scope = {0};
    CUSHIM_OUT(p);
    CUSHIM_TRY(cushim_driver_use(__func__));
    cushim_pool_options_default(&options);
    CUSHIM_TRY(cushim_struct_size_take(__func__, &options, sizeof options, given));
    if (options.policy < CUSHIM_POOL_POLICY_FINE || options.policy > CUSHIM_POOL_POLICY_EXACT ||
        (options.steps != 8 && options.steps != 16) || options.dedicated < 0 ||
        options.dedicated > 1)
        return CUSHIM_FAIL(CUSHIM_INVALID, "policy=%d steps=%d dedicated=%d", options.policy,
                           options.steps, options.dedicated);
    pthread_once(&begun, begin_all);
    if (options.ctx)
        CUSHIM_TRY(cushim_call_begin_context(&scope, __func__, options.ctx));
    return make(__func__, &options, scope.context, p);
}

enum cushim_status cushim_pool_destroy(struct cushim_pool *p) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_pool_object *pool;
    if (!p)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_call_begin_destroy(&scope, __func__, CUSHIM_KIND_POOL, p, &pool));
    cushim_changes_note(); /* finish ends the lives of its caches, after the last pin */
    return CUSHIM_OK;
}

enum cushim_status cushim_pool_begin(struct cushim_pool_call *call, const char *what,
                                     struct cushim_pool *p) {
    call->what = what;
    CUSHIM_TRY(cushim_check_given(what, "p", p));
    CUSHIM_TRY(cushim_driver_use(what));
    call->pool = cushim_handle_pin(&call->pin, CUSHIM_KIND_POOL, p);
    return call->pool ? CUSHIM_OK : cushim_fail(what, CUSHIM_BADHANDLE, "pool=%p", (void *)p);
}

enum cushim_status cushim_pool_on_oom(struct cushim_pool *p, cushim_pool_oom_fn *fn, void *cookie) {
    CUSHIM_ENTER_POOL(p);
    CUSHIM_LOCKED(&call.pool->lock);
    call.pool->on_oom = fn;
    call.pool->oom_cookie = cookie;
    return CUSHIM_OK;
}

enum cushim_status cushim_pool_bucket(struct cushim_pool *p, size_t bytes, size_t *block_bytes) {
    CUSHIM_OUT(block_bytes);
    CUSHIM_FAIL_IF(__func__, bytes > SIZE_MAX / 2, CUSHIM_INVALID, "asked=%zu", bytes);
    CUSHIM_ENTER_POOL(p);
    *block_bytes = cushim_pool_round(&call.pool->options, bytes);
    return CUSHIM_OK;
}
