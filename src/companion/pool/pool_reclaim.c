/*
 * Reclaim: what a pool does before it says that memory is out (COMPANION 2.9).  The request is
 * tried again after each step.  In a capture nothing is waited for and nothing of graphs trimmed.
 */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "companion/capture/known_captures.h"
#include "companion/pool/pool_request.h"
#include "companion/context/pressure.h"

enum { STEPS_BYTES = 64 };

struct reclaim {
    struct cushim_pool_request *request;
    char steps[STEPS_BYTES]; /* their names, as they were taken */
    bool is_captured;        /* no wait, and nothing that a capture forbids */
};

static void note(struct reclaim *reclaim, const char *name) {
    size_t n = strlen(reclaim->steps);
    snprintf(reclaim->steps + n, sizeof reclaim->steps - n, "%s%s", n ? "," : "", name);
    atomic_fetch_add_explicit(&reclaim->request->pool->n_reclaim_steps, 1, memory_order_relaxed);
}

static enum cushim_status retry(struct cushim_pool_request *request) {
    enum cushim_status status = cushim_pool_serve_free_lists(request, true);
    return status == CUSHIM_NOTFOUND ? cushim_pool_fetch(request) : status;
}

/* Others of this context give back what they hold: further pools, the driver's pool of ours. */
static void ask_others(struct cushim_pool_request *request) {
    struct cushim_scope scope;
    if (!cushim_call_begin_quietly(&scope, request->heap->context))
        return;
    CUstreamCaptureMode mode = cushim_capture_relax();
    cushim_pressure_ask(request->heap->context, SIZE_MAX);
    cushim_capture_back(mode);
    cushim_call_end(&scope, CUSHIM_OK);
}

/* Idle memory of this context goes, whichever pool has it. */
static enum cushim_status drain(struct reclaim *reclaim) {
    struct cushim_pool_request *request = reclaim->request;
    enum cushim_pool_effort effort = reclaim->is_captured ? CUSHIM_POOL_ASK : CUSHIM_POOL_RECORD;
    enum cushim_status status = CUSHIM_NOMEM;
    for (int is_all = 0; is_all < 2 && status == CUSHIM_NOMEM; is_all++) {
        cushim_pool_reclaim(request->heap, request->what, is_all ? SIZE_MAX : request->bucket_bytes,
                            effort, NULL);
        cushim_pool_give_back(request->heap, request->what, 0);
        if (is_all)
            ask_others(request);
        status = retry(request);
    }
    return status;
}

/* The smallest idle block that fits without much waste, over or not; it stays where it is. */
static bool find_pending(struct cushim_pool_request *request, struct cushim_pool_cache *cache,
                         size_t *bucket_bytes, uint64_t *serial) {
    bool has = false;
    const struct cushim_pool_bucket *bucket = NULL;
    cushim_pool_cache_lock(cache);
    while ((bucket = cushim_pool_buckets_next(&cache->buckets, bucket))) {
        size_t its_bytes = bucket->bucket_bytes;
        if (bucket->oldest && its_bytes >= request->bucket_bytes &&
            its_bytes / 2 <= request->bucket_bytes && (!has || its_bytes < *bucket_bytes)) {
            *bucket_bytes = its_bytes;
            *serial = bucket->oldest->serial;
            has = true;
        }
    }
    cushim_pool_cache_unlock(cache);
    return has;
}

/* Take the oldest block of a bucket, if it was freed no later than the serial that was waited for.
 */
static bool take_ordered(struct cushim_pool_request *request, struct cushim_pool_cache *cache,
                         size_t bucket_bytes, uint64_t serial) {
    cushim_pool_cache_lock(cache);
    struct cushim_pool_bucket *bucket = cushim_pool_buckets_find(&cache->buckets, bucket_bytes);
    if (bucket && bucket->oldest && bucket->oldest->serial <= serial) {
        request->block = bucket->oldest;
        cushim_pool_cache_unlink(cache, bucket, bucket->oldest);
    }
    cushim_pool_cache_unlock(cache);
    return request->block != NULL;
}

static bool take_over(struct cushim_pool_request *request, struct cushim_pool_cache *cache,
                      size_t bucket_bytes) {
    cushim_pool_cache_lock(cache);
    request->block = cushim_pool_cache_pop_over(cache, bucket_bytes);
    cushim_pool_cache_unlock(cache);
    return request->block != NULL;
}

/* The named stream waits, in the device, for the stream that freed a block. */
static enum cushim_status order(struct reclaim *reclaim) {
    struct cushim_pool_request *request = reclaim->request;
    struct cushim_pool_cache *cache = NULL;
    if (!request->cache->is_ordered)
        return CUSHIM_NOMEM;
    while ((cache = cushim_pool_next_cache(request->heap, cache))) {
        size_t bucket_bytes = 0;
        uint64_t serial = 0;
        if (!find_pending(request, cache, &bucket_bytes, &serial))
            continue;
        cushim_pool_cache_prove(cache, request->what, CUSHIM_POOL_RECORD);
        enum cushim_status status =
            cache == request->cache
                ? CUSHIM_OK
                : cushim_pool_cache_order(cache, request->what, serial, request->cache);
        if (status == CUSHIM_OK && take_ordered(request, cache, bucket_bytes, serial))
            return CUSHIM_OK;
        if (status == CUSHIM_NOTFOUND && take_over(request, cache, bucket_bytes))
            return CUSHIM_OK; /* its fence is complete by now */
    }
    return CUSHIM_NOMEM;
}

static enum cushim_status synchronise(struct cushim_pool_request *request) {
    struct cushim_scope scope;
    CUSHIM_TRY(cushim_call_begin_known(&scope, request->what, request->heap->context));
    return cushim_call_end(&scope, cushim_stream_fence_wait_all(&scope));
}

static enum cushim_status sync(struct reclaim *reclaim) {
    struct cushim_pool_request *request = reclaim->request;
    enum cushim_status status = CUSHIM_OK;
    atomic_fetch_add_explicit(&request->pool->n_waits, 1, memory_order_relaxed);
    CUSHIM_TRY(synchronise(request));
    cushim_pool_reclaim(request->heap, request->what, SIZE_MAX, CUSHIM_POOL_WAIT, &status);
    cushim_pool_give_back(request->heap, request->what, 0);
    ask_others(request);
    return retry(request);
}

/* What the driver keeps for graphs. */
static enum cushim_status trim(struct reclaim *reclaim) {
    struct cushim_pool_request *request = reclaim->request;
    if (CUSHIM_DRIVER(cuDeviceGraphMemTrim))
        CUSHIM_DRIVER(cuDeviceGraphMemTrim)(request->heap->context->device);
    return retry(request);
}

/* No more than was asked for. */
static enum cushim_status exact(struct reclaim *reclaim) {
    struct cushim_pool_request *request = reclaim->request;
    size_t bytes = cushim_pool_round_to(request->bytes, CUSHIM_MEM_GRAIN_BYTES);
    if (request->bucket_bytes > CUSHIM_MEM_SLAB_LIMIT_BYTES &&
        request->heap->kind == CUSHIM_MEM_DEVICE)
        bytes = cushim_pool_round_to(bytes, CUSHIM_MEM_NATIVE_PAGE_BYTES); /* pages are its own */
    if (bytes >= request->bucket_bytes)
        return CUSHIM_NOMEM;
    request->bucket_bytes = bytes;
    return retry(request);
}

static enum cushim_status callbacks(struct reclaim *reclaim) {
    struct cushim_pool_request *request = reclaim->request;
    enum cushim_status status = CUSHIM_NOMEM;
    for (;;) {
        pthread_mutex_lock(&request->pool->lock);
        cushim_pool_oom_fn *fn = request->pool->on_oom;
        void *cookie = request->pool->oom_cookie;
        pthread_mutex_unlock(&request->pool->lock);
        if (!fn || status != CUSHIM_NOMEM || fn(request->bytes, cookie) != 1)
            return status;
        status = cushim_pool_serve(request);
        if (status == CUSHIM_NOTFOUND)
            status = drain(reclaim);
    }
}

static enum cushim_status say(struct reclaim *reclaim) {
    struct cushim_pool_request *request = reclaim->request;
    struct cushim_scope scope;
    size_t free_bytes = 0, total_bytes = 0;
    struct cushim_context_object *context = request->heap->context;
    CUSHIM_TRY(cushim_call_begin_known(&scope, request->what, context));
    if (CUSHIM_DRIVER(cuMemGetInfo_v2))
        CUSHIM_DRIVER(cuMemGetInfo_v2)(&free_bytes, &total_bytes);
    struct cushim_pressure_held held = cushim_pressure_sum(context);
    static const char *const entries[] = {"cuMemAlloc", "cuMemAllocManaged", "cuMemHostAlloc"};
    return cushim_call_end(
        &scope, cushim_scope_fail_cu(&scope, entries[request->heap->kind], CUDA_ERROR_OUT_OF_MEMORY,
                                     "device=%d asked=%zu free=%zu total=%zu pools_cached=%zu "
                                     "pools_live=%zu steps=%s",
                                     context->device, request->bytes, free_bytes, total_bytes,
                                     held.cached_bytes, held.live_bytes, reclaim->steps));
}

enum cushim_status cushim_pool_serve_by_reclaim(struct cushim_pool_request *request) {
    static const struct {
        const char *name;
        enum cushim_status (*take)(struct reclaim *reclaim);
        bool is_for_captures;
    } steps[] = {{"drain", drain, true}, {"order", order, false}, {"sync", sync, false},
                 {"trim", trim, false},  {"exact", exact, true},  {"callback", callbacks, true}};
    struct reclaim reclaim = {.request = request,
                              .is_captured = request->is_captured ||
                                             cushim_capture_count(request->heap->context) != 0};
    enum cushim_status status = CUSHIM_NOMEM;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == CUSHIM_NOMEM; i++) {
        if (reclaim.is_captured && !steps[i].is_for_captures)
            continue;
        note(&reclaim, steps[i].name);
        status = steps[i].take(&reclaim);
    }
    return status == CUSHIM_NOMEM ? say(&reclaim) : status;
}
