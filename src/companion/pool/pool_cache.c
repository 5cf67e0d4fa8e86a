#include "companion/pool/pool_heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "base/try.h"
#include "companion/capture/known_captures.h"
#include "companion/core/thread.h"

static _Thread_local uintptr_t this_thread __attribute__((tls_model("initial-exec")));

const void *cushim_pool_thread(void) {
    static atomic_uintptr_t n_threads;
    if (!this_thread)
        this_thread = atomic_fetch_add(&n_threads, 1) + 1;
    return (const void *)this_thread;
}

/* ---- buckets ---- */

struct cushim_pool_bucket *cushim_pool_cache_bucket(struct cushim_pool_cache *cache,
                                                    size_t bucket_bytes) {
    struct cushim_pool_bucket *bucket = cushim_pool_buckets_find(&cache->buckets, bucket_bytes);
    if (bucket)
        return bucket;
    const struct cushim_pool_heap *heap = cache->heap;
    cache->recent = NULL; /* it may be outgrown */
    cache->recent_asked = 0;
    return cushim_pool_buckets_make(&cache->buckets, bucket_bytes,
                                    heap->is_free_long ? 0
                                                       : cushim_pool_heap_most(heap, bucket_bytes));
}

struct cushim_pool_cache *cushim_pool_cache_put(struct cushim_pool_cache *cache, uint32_t life,
                                                struct cushim_pool_block *block) {
    cushim_pool_cache_lock(cache);
    bool is_its = cushim_pool_cache_is_of(cache, life);
    if (is_its)
        cushim_pool_cache_push(cache, block);
    cushim_pool_cache_unlock(cache);
    return is_its ? cache : cushim_pool_cache_put(cache->heap->all, cache->heap->all->life, block);
}

void cushim_pool_cache_push_over(struct cushim_pool_cache *cache, struct cushim_pool_block *block) {
    struct cushim_pool_bucket *bucket = cushim_pool_cache_bucket(cache, block->bucket_bytes);
    block->serial = 0;
    block->older = NULL;
    block->newer = bucket->oldest;
    if (bucket->oldest)
        bucket->oldest->older = block;
    else
        bucket->newest = block;
    bucket->oldest = block;
    cushim_pool_age_put(&block->age, &cache->ages, cache->ages.later);
    atomic_store_explicit(&block->cache, cache, memory_order_relaxed);
    cushim_pool_cache_count_in(cache, bucket, block->bucket_bytes);
}

static struct cushim_pool_block *pop_if_over(struct cushim_pool_cache *cache,
                                             struct cushim_pool_bucket *bucket) {
    struct cushim_pool_block *block = bucket ? bucket->oldest : NULL;
    if (!block || !cushim_pool_block_is_over(cache, block))
        return NULL;
    cushim_pool_cache_unlink(cache, bucket, block);
    return block;
}

struct cushim_pool_block *cushim_pool_cache_pop_over(struct cushim_pool_cache *cache,
                                                     size_t bucket_bytes) {
    return pop_if_over(cache, cushim_pool_buckets_find(&cache->buckets, bucket_bytes));
}

/* The bucket that has an idle block: the loose one keeps what it got for want of host memory. */
static struct cushim_pool_bucket *bucket_of(struct cushim_pool_cache *cache,
                                            const struct cushim_pool_block *block) {
    struct cushim_pool_bucket *loose = &cache->buckets.loose;
    const struct cushim_pool_block *at = loose->newest;
    while (at && at != block)
        at = at->older;
    return at ? loose : cushim_pool_buckets_find(&cache->buckets, block->bucket_bytes);
}

struct cushim_pool_block *cushim_pool_cache_pop_earliest(struct cushim_pool_cache *cache,
                                                         uint64_t last_serial, bool must_be_over) {
    cushim_pool_cache_lock(cache);
    struct cushim_pool_block *block =
        cache->ages.later == &cache->ages ? NULL : cushim_pool_age_block(cache->ages.later);
    if (block &&
        (block->serial > last_serial || (must_be_over && !cushim_pool_block_is_over(cache, block))))
        block = NULL;
    if (block)
        cushim_pool_cache_unlink(cache, bucket_of(cache, block), block);
    cushim_pool_cache_unlock(cache);
    return block;
}

static bool is_small(const struct cushim_pool_bucket *bucket) {
    return cushim_pool_bucket_bytes(bucket) <= CUSHIM_MEM_SLAB_LIMIT_BYTES;
}

size_t cushim_pool_cache_small_bytes(struct cushim_pool_cache *cache) {
    size_t n_bytes = 0;
    struct cushim_pool_bucket *bucket = NULL;
    cushim_pool_cache_lock(cache);
    while ((bucket = cushim_pool_buckets_next(&cache->buckets, bucket)))
        n_bytes += is_small(bucket)
                       ? cushim_pool_bucket_bytes(bucket) * cushim_pool_bucket_count(bucket)
                       : 0;
    cushim_pool_cache_unlock(cache);
    return n_bytes;
}

struct cushim_pool_block *cushim_pool_cache_pop_small(struct cushim_pool_cache *cache) {
    struct cushim_pool_block *list = NULL, *block;
    struct cushim_pool_bucket *bucket = NULL;
    cushim_pool_cache_lock(cache);
    while ((bucket = cushim_pool_buckets_next(&cache->buckets, bucket))) {
        while (is_small(bucket) && (block = pop_if_over(cache, bucket))) {
            block->older = list;
            list = block;
        }
    }
    cushim_pool_cache_unlock(cache);
    return list;
}

size_t cushim_pool_cache_idle_blocks(struct cushim_pool_cache *cache) {
    size_t n = 0;
    struct cushim_pool_bucket *bucket = NULL;
    while ((bucket = cushim_pool_buckets_next(&cache->buckets, bucket)))
        n += cushim_pool_bucket_count(bucket);
    return n;
}

/* ---- which cache ---- */

static bool is_of(const struct cushim_pool_cache *cache, const struct cushim_pool_stream *stream,
                  struct cushim_context_object *context, const void *thread) {
    return cache->kind == stream->kind && !cache->is_gone && cache->context == context &&
           (cache->kind == CUSHIM_POOL_CACHE_STREAM   ? cache->stream == stream->handle
            : cache->kind == CUSHIM_POOL_CACHE_THREAD ? cache->thread == thread
                                                      : true);
}

/* With its lock: its stream went, and all that it has is over. */
static bool is_unused(struct cushim_pool_cache *cache) {
    return cache->is_gone && !cache->role && !cache->n_fences && !cache->has_uncovered &&
           (cache->ages.earlier == &cache->ages ||
            cushim_pool_block_is_over(cache, cushim_pool_age_block(cache->ages.earlier)));
}

/* With its lock.  What is in it is over from here on, and so may serve any stream. */
static void begin(struct cushim_pool_cache *cache, struct cushim_pool_heap *heap,
                  const struct cushim_pool_stream *stream, struct cushim_context_object *context) {
    cache->kind = stream->kind;
    cache->stream =
        stream->kind == CUSHIM_POOL_CACHE_THREAD ? CU_STREAM_PER_THREAD : stream->handle;
    cache->thread = stream->kind == CUSHIM_POOL_CACHE_THREAD ? cushim_pool_thread() : NULL;
    cache->is_ordered = stream->kind != CUSHIM_POOL_CACHE_ALL && heap->kind == CUSHIM_MEM_DEVICE;
    cache->open_serial = atomic_fetch_add(&heap->serial, 1) + 1;
    cache->done_serial = cache->open_serial - 1;
    cache->open_moment = 0;
    cache->open_blocks = cache->open_bytes = 0;
    cache->context = context;
    cushim_pool_cache_end_life(cache);
    atomic_store_explicit(&cache->is_gone, false, memory_order_relaxed);
}

/* With the heap's lock: make an unused one the stream's.  Who comes late may still look at its
 * context, so that stays. */
static bool reuse(struct cushim_pool_cache *cache, struct cushim_pool_heap *heap,
                  const struct cushim_pool_stream *stream, struct cushim_context_object *context) {
    if (!cache->is_gone || (cache->context && cache->context != context))
        return false;
    cushim_pool_cache_lock(cache);
    bool is_ours = is_unused(cache);
    if (is_ours)
        begin(cache, heap, stream, cache->context ? context : cushim_object_keep(context));
    cushim_pool_cache_unlock(cache);
    return is_ours;
}

/* With the heap's lock: the stream's, or one that may become it; NULL: neither. *gone: one of those
 * that may not yet, by turns. */
static struct cushim_pool_cache *find(struct cushim_pool_heap *heap,
                                      const struct cushim_pool_stream *stream,
                                      struct cushim_pool_cache **gone) {
    struct cushim_context_object *context = stream->context ? stream->context : heap->context;
    const void *thread = stream->kind == CUSHIM_POOL_CACHE_THREAD ? cushim_pool_thread() : NULL;
    struct cushim_pool_cache *first = atomic_load_explicit(&heap->caches, memory_order_relaxed);
    struct cushim_pool_cache *cache = first;
    size_t n_gone = 0;
    while (cache && !is_of(cache, stream, context, thread))
        cache = cache->next;
    if (cache)
        return cache;
    for (cache = first; cache && !reuse(cache, heap, stream, context); cache = cache->next) {
        if (cache->is_gone && n_gone++ <= heap->n_turns)
            *gone = cache;
    }
    heap->n_turns = heap->n_turns + 1 < n_gone ? heap->n_turns + 1 : 0;
    return cache;
}

/* With the heap's lock. */
static struct cushim_pool_cache *make(struct cushim_pool_heap *heap,
                                      const struct cushim_pool_stream *stream) {
    struct cushim_pool_cache *cache =
        aligned_alloc(_Alignof(struct cushim_pool_cache), sizeof *cache);
    if (!cache)
        return NULL;
    *cache = (struct cushim_pool_cache){
        .heap = heap,
        .ages = {&cache->ages, &cache->ages},
        .next = atomic_load_explicit(&heap->caches, memory_order_relaxed)};
    begin(cache, heap, stream,
          cushim_object_keep(stream->context ? stream->context : heap->context));
    atomic_store_explicit(&heap->caches, cache, memory_order_release);
    return cache;
}

struct cushim_pool_cache *cushim_pool_cache_of(struct cushim_pool_heap *heap,
                                               const struct cushim_pool_stream *stream,
                                               const char *what, uint32_t *life) {
    struct cushim_pool_cache *gone = NULL;
    pthread_mutex_lock(&heap->lock);
    struct cushim_pool_cache *cache = find(heap, stream, &gone);
    if (!cache && gone) { /* is it over by now? */
        pthread_mutex_unlock(&heap->lock);
        cushim_pool_cache_prove(gone, what, CUSHIM_POOL_RECORD);
        pthread_mutex_lock(&heap->lock);
        cache = find(heap, stream, &gone);
    }
    if (!cache)
        cache = make(heap, stream);
    if (cache)
        *life = atomic_load_explicit(&cache->life, memory_order_relaxed);
    pthread_mutex_unlock(&heap->lock);
    return cache;
}

/* ---- what is over ---- */

static bool take_role(struct cushim_pool_cache *cache, bool must) {
    for (;;) {
        cushim_pool_cache_lock(cache);
        bool is_ours = !cache->role;
        if (is_ours || must)
            cache->role = is_ours ? 1 : 2;
        cushim_pool_cache_unlock(cache);
        if (is_ours || !must)
            return is_ours;
        cushim_futex_wait(&cache->role, 2, CUSHIM_FUTEX_LONG_NS);
    }
}

static void leave_role(struct cushim_pool_cache *cache) {
    cushim_pool_cache_lock(cache);
    bool has_sleepers = cache->role == 2;
    cache->role = 0;
    cushim_pool_cache_unlock(cache);
    if (has_sleepers)
        cushim_futex_wake(&cache->role);
}

static void note_done(struct cushim_pool_cache *cache, uint64_t serial) {
    cushim_pool_cache_lock(cache);
    if (cache->done_serial < serial)
        cache->done_serial = serial;
    cushim_pool_cache_unlock(cache);
}

/* With the cache's lock: begin the next batch; returns the serial of the one that ends. */
static uint64_t turn(struct cushim_pool_cache *cache) {
    uint64_t serial = cache->open_serial;
    cache->open_serial = atomic_fetch_add(&cache->heap->serial, 1) + 1;
    cache->open_blocks = cache->open_bytes = 0;
    return serial;
}

/* In the role: a wait of the library, or the end of the context, has covered the open batch. */
static void look_past(struct cushim_pool_cache *cache) {
    bool is_dead = cushim_context_is_dead(cache->context);
    cushim_pool_cache_lock(cache);
    if ((cache->open_blocks || cache->has_uncovered) &&
        (is_dead || cushim_stream_fence_is_past(cache->context, cache->open_moment))) {
        cache->done_serial = turn(cache);
        cache->has_uncovered = false;
    }
    cushim_pool_cache_unlock(cache);
}

/* In the role: which fences are complete? */
static void ask(struct cushim_pool_cache *cache) {
    while (cache->n_fences) {
        struct cushim_pool_fence *fence = &cache->fences[cache->first_fence];
        if (!cushim_stream_fence_is_complete(fence->fence))
            return;
        note_done(cache, fence->serial);
        cushim_stream_fence_release(fence->fence);
        cache->first_fence = (cache->first_fence + 1) % CUSHIM_POOL_N_FENCES;
        cache->n_fences--;
    }
}

/* Only its own thread can record on a thread's default stream, and nobody on one that is gone. */
static bool needs_whole(const struct cushim_pool_cache *cache) {
    return cache->kind == CUSHIM_POOL_CACHE_ALL || cache->is_gone ||
           (cache->kind == CUSHIM_POOL_CACHE_THREAD && cache->thread != cushim_pool_thread());
}

/* May a fence be recorded?  Asked first, so that no refusal becomes the thread's last error. */
static bool is_free_of_captures(struct cushim_scope *scope, struct cushim_pool_cache *cache,
                                bool is_whole) {
    CUstreamCaptureStatus state;
    if (is_whole || !cache->stream)
        return cushim_capture_count(scope->context) == 0;
    return cushim_capture_of_stream(scope, cache->stream, &state) == CUSHIM_OK &&
           state == CU_STREAM_CAPTURE_STATUS_NONE;
}

/* In the role and the scope of the stream's context. */
static enum cushim_status record(struct cushim_scope *scope, struct cushim_pool_cache *cache) {
    struct cushim_stream_fence *fence;
    bool is_whole = needs_whole(cache);
    if (cache->n_fences == CUSHIM_POOL_N_FENCES)
        return CUSHIM_NOTREADY;
    if (!is_free_of_captures(scope, cache, is_whole))
        return CUSHIM_CAPTURE;
    /* The next batch begins first: whoever freed into this one did so before the record. */
    cushim_pool_cache_lock(cache);
    uint64_t serial = turn(cache);
    cache->has_uncovered = true;
    cushim_pool_cache_unlock(cache);
    CUSHIM_TRY(is_whole ? cushim_stream_fence_record_all(scope, &fence)
                        : cushim_stream_fence_record(scope, cache->stream, &fence));
    cushim_pool_cache_lock(cache);
    cache->has_uncovered = false;
    cushim_pool_cache_unlock(cache);
    unsigned last = (cache->first_fence + cache->n_fences++) % CUSHIM_POOL_N_FENCES;
    cache->fences[last] = (struct cushim_pool_fence){fence, serial};
    return CUSHIM_OK;
}

/* In the role: wait for all fences, which makes `ask` find them complete. */
static enum cushim_status wait_for_fences(struct cushim_scope *scope,
                                          struct cushim_pool_cache *cache) {
    unsigned last = (cache->first_fence + cache->n_fences - 1) % CUSHIM_POOL_N_FENCES;
    return cache->n_fences ? cushim_stream_fence_wait(scope, cache->fences[last].fence) : CUSHIM_OK;
}

static enum cushim_status record_and_wait(struct cushim_scope *scope,
                                          struct cushim_pool_cache *cache,
                                          enum cushim_pool_effort effort) {
    enum cushim_status status = CUSHIM_OK;
    cushim_pool_cache_lock(cache);
    bool is_due = cache->open_blocks || cache->has_uncovered;
    cushim_pool_cache_unlock(cache);
    if (is_due && effort == CUSHIM_POOL_WAIT && cache->n_fences == CUSHIM_POOL_N_FENCES) {
        status = wait_for_fences(scope, cache); /* makes room for one more */
        ask(cache);
    }
    if (is_due && status == CUSHIM_OK)
        status = record(scope, cache);
    if (effort == CUSHIM_POOL_WAIT) {
        enum cushim_status waited = wait_for_fences(scope, cache);
        status = status == CUSHIM_OK ? waited : status;
    }
    return status;
}

enum cushim_status cushim_pool_cache_prove(struct cushim_pool_cache *cache, const char *what,
                                           enum cushim_pool_effort effort) {
    enum cushim_status status = CUSHIM_OK;
    struct cushim_scope scope;
    if (!take_role(cache, effort == CUSHIM_POOL_WAIT))
        return CUSHIM_OK;
    if (!cache->context) { /* of a life of the heap that is over */
        leave_role(cache);
        return CUSHIM_OK;
    }
    look_past(cache);
    ask(cache);
    cushim_pool_cache_lock(cache);
    bool is_due = cache->open_blocks || cache->has_uncovered ||
                  (effort == CUSHIM_POOL_WAIT && cache->n_fences);
    cushim_pool_cache_unlock(cache);
    if (is_due && effort != CUSHIM_POOL_ASK && !cushim_context_is_dead(cache->context)) {
        status = cushim_call_begin_known(&scope, what, cache->context);
        if (status == CUSHIM_OK)
            status = cushim_call_end(&scope, record_and_wait(&scope, cache, effort));
        ask(cache);
    }
    leave_role(cache);
    return status;
}

/* In the role: the fence that covers a serial, or NULL. */
static struct cushim_stream_fence *fence_of(const struct cushim_pool_cache *cache,
                                            uint64_t serial) {
    for (unsigned i = 0; i < cache->n_fences; i++) {
        const struct cushim_pool_fence *fence =
            &cache->fences[(cache->first_fence + i) % CUSHIM_POOL_N_FENCES];
        if (fence->serial >= serial)
            return fence->fence;
    }
    return NULL;
}

static enum cushim_status order_in_role(struct cushim_pool_cache *cache, const char *what,
                                        uint64_t serial, const struct cushim_pool_cache *after) {
    struct cushim_scope scope;
    struct cushim_stream_fence *fence = fence_of(cache, serial);
    if (!fence)
        return CUSHIM_NOTFOUND;
    CUSHIM_TRY(cushim_call_begin_known(&scope, what, after->context));
    return cushim_call_end(&scope, cushim_stream_fence_order(&scope, fence, after->stream));
}

enum cushim_status cushim_pool_cache_order(struct cushim_pool_cache *cache, const char *what,
                                           uint64_t serial, const struct cushim_pool_cache *after) {
    take_role(cache, true);
    enum cushim_status status = order_in_role(cache, what, serial, after);
    leave_role(cache);
    return status;
}

/* ---- streams that go, and waits for them ---- */

static void leave(struct cushim_pool_cache *cache) {
    cushim_pool_cache_lock(cache);
    cache->is_gone = true; /* what could not be fenced now waits for the whole context */
    cushim_pool_cache_end_life(cache);
    cache->is_ordered = false;
    cushim_pool_cache_unlock(cache);
}

void cushim_pool_cache_end(struct cushim_pool_cache *cache, const char *what) {
    cushim_pool_cache_prove(cache, what, CUSHIM_POOL_RECORD);
    leave(cache);
}

void cushim_thread_end_pools(void) {
    struct cushim_pool_heap *heap = NULL;
    const void *thread = (const void *)this_thread;
    while (thread && (heap = cushim_pool_heap_next(heap))) {
        pthread_mutex_lock(&heap->lock);
        for (struct cushim_pool_cache *cache = NULL;
             (cache = cushim_pool_next_cache(heap, cache));) {
            if (cache->kind == CUSHIM_POOL_CACHE_THREAD && cache->thread == thread &&
                !cache->is_gone)
                leave(cache);
        }
        pthread_mutex_unlock(&heap->lock);
    }
}

void cushim_pool_cache_waited(struct cushim_pool_cache *cache, uint64_t begun) {
    if (!take_role(cache, false))
        return;
    cushim_pool_cache_lock(cache);
    if ((cache->open_blocks || cache->has_uncovered) && cache->open_moment <= begun) {
        cache->done_serial = turn(cache);
        cache->has_uncovered = false;
    }
    cushim_pool_cache_unlock(cache);
    leave_role(cache);
}

void cushim_pool_cache_forget(struct cushim_pool_cache *cache) {
    take_role(cache, true);
    for (; cache->n_fences; cache->n_fences--) {
        cushim_stream_fence_release(cache->fences[cache->first_fence].fence);
        cache->first_fence = (cache->first_fence + 1) % CUSHIM_POOL_N_FENCES;
    }
    cushim_pool_cache_lock(cache);
    cushim_pool_buckets_clear(&cache->buckets);
    cache->ages = (struct cushim_pool_age){&cache->ages, &cache->ages};
    cache->recent = NULL;
    cache->recent_asked = 0;
    cache->counts = (struct cushim_pool_counts){0};
    atomic_store_explicit(&cache->idle_bytes, 0, memory_order_relaxed);
    cache->least_idle_bytes = 0;
    cache->open_blocks = cache->open_bytes = 0;
    cache->has_uncovered = false;
    cache->is_gone = true;
    cushim_pool_cache_end_life(cache);
    cushim_pool_cache_unlock(cache);
    leave_role(cache);
}
