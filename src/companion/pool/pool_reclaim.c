/*
 * Reclaim: the steps that a pool takes before it reports that memory is out.  It tries the request
 * again after each step.  While a capture is open, no step waits or trims the memory of graphs.
 */
#include <stdio.h>
#include <string.h>

#include "companion/pool/pool_call.h"
#include "memory/reclaim.h"
#include "companion/context/pressure.h"

static void note(struct cushim_pool_call *call, const char *name) {
    size_t n = strlen(call->steps);
    snprintf(call->steps + n, sizeof call->steps - n, "%s%s", n ? "," : "", name);
    atomic_fetch_add_explicit(&call->pool->n_reclaim_steps, 1, memory_order_relaxed);
}

static enum cushim_status retry(struct cushim_pool_call *call) {
    enum cushim_status status = cushim_mem_stream_block_obtain(
        &call->heap->streams, call->bucket_bytes, CUSHIM_MEM_STREAM_FREE, &call->block);
    return status == CUSHIM_NOTFOUND ? cushim_pool_fetch(call) : status;
}

/* Other holders of memory in this context give back what is idle: pools, our driver pool. */
static void ask_others(struct cushim_pool_call *call) {
    CUSHIM_SCOPE scope = {0};
    if (cushim_call_begin_quietly(&scope, call->heap->context))
        (void)CUSHIM_RELAXED(cushim_pressure_ask(call->heap->context, SIZE_MAX));
}

/* Give back idle memory of this pool, then that of all holders in the context. */
static enum cushim_status drain(struct cushim_pool_call *call) {
    enum cushim_mem_effort effort = call->may_wait ? CUSHIM_MEM_RECORD : CUSHIM_MEM_ASK;
    enum cushim_status status = CUSHIM_NOMEM;
    for (int is_all = 0; is_all < 2 && status == CUSHIM_NOMEM; is_all++) {
        cushim_mem_streams_reclaim(&call->heap->streams, is_all ? SIZE_MAX : call->bucket_bytes,
                                   effort);
        cushim_mem_reclaim_trim(call->heap->streams.heap, 0);
        if (is_all)
            ask_others(call);
        status = retry(call);
    }
    return status;
}

/* The request's stream waits, in the device, for the stream that freed a block. */
static enum cushim_status order(struct cushim_pool_call *call) {
    call->block = cushim_mem_stream_cache_serve_behind(call->cache, call->bucket_bytes);
    return call->block ? CUSHIM_OK : CUSHIM_NOMEM;
}

static enum cushim_status sync_all(struct cushim_pool_call *call) {
    struct cushim_scope scope;
    atomic_fetch_add_explicit(&call->pool->n_waits, 1, memory_order_relaxed);
    CUSHIM_TRY(cushim_call_begin_known(&scope, call->what, call->heap->context));
    CUSHIM_TRY(cushim_call_end(&scope, cushim_mem_stream_fence_wait_all(&scope.context->fence)));
    cushim_mem_streams_reclaim(&call->heap->streams, SIZE_MAX, CUSHIM_MEM_WAIT);
    cushim_mem_reclaim_trim(call->heap->streams.heap, 0);
    ask_others(call);
    return retry(call);
}

/* Give back what the driver keeps for graphs. */
static enum cushim_status trim(struct cushim_pool_call *call) {
    if (CUSHIM_DRIVER(cuDeviceGraphMemTrim))
        CUSHIM_DRIVER(cuDeviceGraphMemTrim)(call->heap->context->device);
    return retry(call);
}

/* Try without the rounding to a bucket. */
static enum cushim_status exact(struct cushim_pool_call *call) {
    size_t bytes = cushim_rounded(call->bytes, CUSHIM_MEM_GRAIN_BYTES);
    if (call->bucket_bytes > CUSHIM_MEM_SLAB_LIMIT_BYTES && call->heap->kind == CUSHIM_MEM_DEVICE)
        bytes = cushim_rounded(bytes, CUSHIM_MEM_NATIVE_PAGE_BYTES); /* it has its own pages */
    if (bytes >= call->bucket_bytes)
        return CUSHIM_NOMEM;
    call->bucket_bytes = bytes;
    return retry(call);
}

static enum cushim_status callbacks(struct cushim_pool_call *call) {
    enum cushim_status status = CUSHIM_NOMEM;
    for (;;) {
        pthread_mutex_lock(&call->pool->lock);
        cushim_pool_oom_fn *fn = call->pool->on_oom;
        void *cookie = call->pool->oom_cookie;
        pthread_mutex_unlock(&call->pool->lock);
        if (!fn || status != CUSHIM_NOMEM || fn(call->bytes, cookie) != 1)
            return status;
        status = cushim_pool_serve(call);
        if (status == CUSHIM_NOTFOUND)
            status = drain(call);
    }
}

static enum cushim_status say(struct cushim_pool_call *call) {
    static const char *const entries[] = {"cuMemAlloc", "cuMemAllocManaged", "cuMemHostAlloc"};
    CUSHIM_SCOPE scope = {0};
    CUSHIM_TRY(cushim_call_begin_known(&scope, call->what, call->heap->context));
    return cushim_pressure_fail(&scope, entries[call->heap->kind], call->bytes, call->steps);
}

enum cushim_status cushim_pool_serve_by_reclaim(struct cushim_pool_call *call) {
    static const struct {
        const char *name;
        enum cushim_status (*take)(struct cushim_pool_call *call);
        bool is_for_captures;
    } steps[] = {{"drain", drain, true}, {"order", order, false}, {"sync", sync_all, false},
                 {"trim", trim, false},  {"exact", exact, true},  {"callback", callbacks, true}};
    enum cushim_status status = CUSHIM_NOMEM;
    call->may_wait = !call->is_captured && !cushim_capture_count(call->heap->context);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == CUSHIM_NOMEM; i++) {
        if (!call->may_wait && !steps[i].is_for_captures)
            continue;
        note(call, steps[i].name);
        status = steps[i].take(call);
    }
    return status == CUSHIM_NOMEM ? say(call) : status;
}
