#include "companion/pool/pool_cache.h"

#include <stdlib.h>

#include "base/try.h"
#include "companion/capture/known_captures.h"
#include "companion/core/thread.h"

static _Thread_local uintptr_t this_thread __attribute__((tls_model("initial-exec")));

const void *cushim_mem_stream_thread(void) {
    static atomic_uintptr_t n_threads;
    if (!this_thread)
        this_thread = atomic_fetch_add(&n_threads, 1) + 1;
    return (const void *)this_thread;
}

/* ---- buckets ---- */

/* The bucket of a size, made at need; where there is no memory for one, the loose one. */
static struct cushim_mem_stream_bucket *find_or_make(struct cushim_mem_stream_cache *cache,
                                                     size_t bucket_bytes) {
    struct cushim_mem_stream_bucket *bucket =
        cushim_mem_stream_buckets_find(&cache->buckets, bucket_bytes);
    if (bucket)
        return bucket;
    const struct cushim_pool_heap *heap = cache->heap;
    cache->recent = NULL; /* it may go, if it is empty */
    cache->recent_asked = 0;
    return cushim_mem_stream_buckets_make(
        &cache->buckets, bucket_bytes,
        heap->is_free_long ? 0 : cushim_pool_heap_most(heap, bucket_bytes));
}

struct cushim_mem_stream_cache *cushim_mem_stream_cache_put(struct cushim_mem_stream_cache *cache,
                                                            uint32_t life,
                                                            struct cushim_mem_stream_block *block) {
    struct cushim_mem_stream_cache *all = cache->heap->all;
    cushim_futex_lock_enter(&cache->lock);
    bool is_its = !cushim_mem_stream_cache_is_gone(cache) &&
                  (cache == all || cushim_mem_stream_cache_is_of(cache, life));
    if (is_its)
        cushim_mem_stream_cache_push_in(cache, find_or_make(cache, block->bucket_bytes), block);
    cushim_futex_lock_leave(&cache->lock);
    if (is_its)
        return cache;
    return cache == all ? NULL : cushim_mem_stream_cache_put(all, 0, block);
}

static struct cushim_mem_stream_block *pop_if_over(struct cushim_mem_stream_cache *cache,
                                                   struct cushim_mem_stream_bucket *bucket) {
    struct cushim_mem_stream_block *block = bucket ? cushim_mem_stream_bucket_oldest(bucket) : NULL;
    if (!block || !cushim_mem_stream_block_is_over(cache, block))
        return NULL;
    cushim_mem_stream_cache_unlink(cache, bucket, block);
    return block;
}

struct cushim_mem_stream_block *cushim_mem_stream_cache_take(struct cushim_mem_stream_cache *cache,
                                                             size_t bucket_bytes, uint32_t life) {
    struct cushim_mem_stream_block *block;
    if (!cache->idle_bytes)
        return NULL;
    cushim_futex_lock_enter(&cache->lock);
    struct cushim_mem_stream_bucket *bucket =
        cushim_mem_stream_buckets_find(&cache->buckets, bucket_bytes);
    if (bucket && life && cache->is_ordered && cushim_mem_stream_cache_is_of(cache, life))
        block = cushim_mem_stream_cache_pop_from(cache, bucket);
    else
        block = pop_if_over(cache, bucket);
    cushim_futex_lock_leave(&cache->lock);
    return block;
}

size_t cushim_mem_stream_cache_count(struct cushim_mem_stream_cache *cache, size_t bucket_bytes) {
    if (!cache->idle_bytes)
        return 0;
    cushim_futex_lock_enter(&cache->lock);
    const struct cushim_mem_stream_bucket *bucket =
        cushim_mem_stream_buckets_find(&cache->buckets, bucket_bytes);
    size_t n = bucket ? bucket->n : 0;
    cushim_futex_lock_leave(&cache->lock);
    return n;
}

struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_earliest(struct cushim_mem_stream_cache *cache, uint64_t last_epoch,
                                     bool must_be_over) {
    if (!cache->idle_bytes)
        return NULL;
    cushim_futex_lock_enter(&cache->lock);
    struct cushim_mem_stream_block *block =
        cache->ages.later == &cache->ages ? NULL : cushim_mem_stream_age_block(cache->ages.later);
    if (block && (block->epoch > last_epoch ||
                  (must_be_over && !cushim_mem_stream_block_is_over(cache, block))))
        block = NULL;
    if (block)
        cushim_mem_stream_cache_unlink(cache, block->bucket, block);
    cushim_futex_lock_leave(&cache->lock);
    return block;
}

static bool is_small(const struct cushim_mem_stream_bucket *bucket) {
    return bucket->bucket_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES;
}

size_t cushim_mem_stream_cache_small_bytes(struct cushim_mem_stream_cache *cache) {
    size_t n_bytes = 0;
    struct cushim_mem_stream_bucket *bucket = NULL;
    cushim_futex_lock_enter(&cache->lock);
    while ((bucket = cushim_mem_stream_buckets_next(&cache->buckets, bucket)))
        n_bytes += is_small(bucket) ? bucket->bucket_bytes * bucket->n : 0;
    cushim_futex_lock_leave(&cache->lock);
    return n_bytes;
}

struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_small(struct cushim_mem_stream_cache *cache) {
    struct cushim_mem_stream_block *list = NULL, *block;
    struct cushim_mem_stream_bucket *bucket = NULL;
    cushim_futex_lock_enter(&cache->lock);
    while ((bucket = cushim_mem_stream_buckets_next(&cache->buckets, bucket))) {
        while (is_small(bucket) && (block = pop_if_over(cache, bucket))) {
            block->older = list;
            list = block;
        }
    }
    cushim_futex_lock_leave(&cache->lock);
    return list;
}

/* ---- which cache ---- */

static bool is_of(const struct cushim_mem_stream_cache *cache,
                  const struct cushim_mem_stream *stream) {
    return !cushim_mem_stream_cache_is_gone(cache) && cache->of.context == stream->context &&
           cache->of.handle == stream->handle && cache->of.thread == stream->thread;
}

/* With its lock: that of the block that was freed last; 0: it has none. */
static uint64_t latest_epoch(struct cushim_mem_stream_cache *cache) {
    struct cushim_mem_stream_age *last = cache->ages.earlier;
    return last == &cache->ages ? 0 : cushim_mem_stream_age_block(last)->epoch;
}

/* With its lock: what is freed from here on is of the next batch; returns the last epoch of this.
 */
static uint64_t close_batch(struct cushim_mem_stream_cache *cache) {
    cache->closed_epoch = cushim_mem_fence_close(&cache->of.context->fence);
    cache->open_blocks = cache->open_bytes = 0;
    return cache->closed_epoch;
}

/* With its lock.  What is in it is over from here on, and so may serve any stream. */
static void begin(struct cushim_mem_stream_cache *cache, struct cushim_pool_heap *heap,
                  const struct cushim_mem_stream *stream) {
    cache->of = *stream;
    cache->is_ordered = stream->handle != CUSHIM_MEM_STREAM_ALL && heap->kind == CUSHIM_MEM_DEVICE;
    close_batch(cache);
    cache->done_epoch = cache->covered_epoch = cache->closed_epoch;
    atomic_fetch_add(&cache->life, 1);
}

/* With the heap's lock: make one the stream's whose own went, and all that it has is over.  Who
 * comes late may still look at its context, so that stays. */
static bool reuse(struct cushim_mem_stream_cache *cache, struct cushim_pool_heap *heap,
                  const struct cushim_mem_stream *stream) {
    if ((cache->of.context && cache->of.context != stream->context) ||
        !cushim_mem_stream_cache_is_gone(cache) || !cushim_futex_lock_take(&cache->role))
        return false;
    cushim_futex_lock_enter(&cache->lock);
    bool is_ours = !cache->n_fences && latest_epoch(cache) <= cache->done_epoch;
    if (is_ours && !cache->of.context)
        cushim_object_keep(stream->context);
    if (is_ours)
        begin(cache, heap, stream);
    cushim_futex_lock_leave(&cache->lock);
    cushim_futex_lock_leave(&cache->role);
    return is_ours;
}

/* With the heap's lock: the stream's, or one that may become it; NULL: neither. *gone: one of those
 * that may not yet, by turns. */
static struct cushim_mem_stream_cache *find(struct cushim_pool_heap *heap,
                                            const struct cushim_mem_stream *stream,
                                            struct cushim_mem_stream_cache **gone) {
    struct cushim_mem_stream_cache *first =
        atomic_load_explicit(&heap->caches, memory_order_relaxed);
    struct cushim_mem_stream_cache *cache = first;
    size_t n_gone = 0;
    while (cache && !is_of(cache, stream))
        cache = cache->next;
    if (cache)
        return cache;
    for (cache = first; cache && !reuse(cache, heap, stream); cache = cache->next) {
        if (cushim_mem_stream_cache_is_gone(cache) && n_gone++ <= heap->n_turns)
            *gone = cache;
    }
    heap->n_turns = heap->n_turns + 1 < n_gone ? heap->n_turns + 1 : 0;
    return cache;
}

/* With the heap's lock. */
static struct cushim_mem_stream_cache *make(struct cushim_pool_heap *heap,
                                            const struct cushim_mem_stream *stream) {
    struct cushim_mem_stream_cache *cache =
        aligned_alloc(_Alignof(struct cushim_mem_stream_cache), sizeof *cache);
    if (!cache)
        return NULL;
    *cache = (struct cushim_mem_stream_cache){
        .heap = heap,
        .ages = {&cache->ages, &cache->ages},
        .next = atomic_load_explicit(&heap->caches, memory_order_relaxed)};
    reuse(cache, heap, stream);
    atomic_store_explicit(&heap->caches, cache, memory_order_release);
    return cache;
}

struct cushim_mem_stream_cache *cushim_mem_stream_cache_of(struct cushim_pool_heap *heap,
                                                           const struct cushim_mem_stream *stream,
                                                           const char *what, uint32_t *life) {
    struct cushim_mem_stream_cache *gone = NULL;
    pthread_mutex_lock(&heap->lock);
    struct cushim_mem_stream_cache *cache = find(heap, stream, &gone);
    if (!cache && gone) { /* is it over by now? */
        pthread_mutex_unlock(&heap->lock);
        cushim_mem_stream_cache_prove(gone, what, CUSHIM_MEM_RECORD);
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

/* In the role: what was freed up to a epoch is over.  True: all that is idle is, or has a fence.
 */
static bool note_done(struct cushim_mem_stream_cache *cache, uint64_t epoch) {
    cushim_futex_lock_enter(&cache->lock);
    cache->done_epoch = cushim_most(cache->done_epoch, epoch);
    cache->covered_epoch = cushim_most(cache->covered_epoch, epoch);
    bool is_covered = latest_epoch(cache) <= cache->covered_epoch;
    if (is_covered && cache->closed_epoch < cache->covered_epoch) {
        cache->closed_epoch = cache->covered_epoch;
        cache->open_blocks = cache->open_bytes = 0;
    }
    cushim_futex_lock_leave(&cache->lock);
    return is_covered;
}

/* In the role: of the fences, the eldest is 0. */
static struct cushim_mem_stream_batch *fence_at(struct cushim_mem_stream_cache *cache, unsigned i) {
    return &cache->fences[(cache->first_fence + i) % CUSHIM_MEM_STREAM_FENCES];
}

static void drop_first_fence(struct cushim_mem_stream_cache *cache) {
    cushim_mem_stream_fence_release(&fence_at(cache, 0)->fence);
    cache->first_fence = (cache->first_fence + 1) % CUSHIM_MEM_STREAM_FENCES;
    cache->n_fences--;
}

/* In the role: which fences are complete? */
static void ask(struct cushim_mem_stream_cache *cache) {
    while (cache->n_fences && cushim_mem_stream_fence_is_complete(&fence_at(cache, 0)->fence)) {
        note_done(cache, fence_at(cache, 0)->epoch);
        drop_first_fence(cache);
    }
}

/* Only its own thread can record on a thread's default stream, and nobody on one that is gone. */
static bool needs_whole(const struct cushim_mem_stream_cache *cache) {
    return cache->of.handle == CUSHIM_MEM_STREAM_ALL || cushim_mem_stream_cache_is_gone(cache) ||
           (cache->of.thread && cache->of.thread != cushim_mem_stream_thread());
}

/* In the role and the scope of the stream's context. */
static enum cushim_status record(struct cushim_scope *scope,
                                 struct cushim_mem_stream_cache *cache) {
    struct cushim_mem_stream_batch *next = fence_at(cache, cache->n_fences);
    bool is_whole = needs_whole(cache);
    if (cache->n_fences == CUSHIM_MEM_STREAM_FENCES)
        return CUSHIM_NOTREADY;
    /* The next batch begins first: whoever freed into this one did so before the record. */
    cushim_futex_lock_enter(&cache->lock);
    uint64_t epoch = close_batch(cache);
    cushim_futex_lock_leave(&cache->lock);
    /* a refusal is not to be the thread's last error */
    CUSHIM_TRY(cushim_mem_stream_fence_record(&scope->context->fence, NULL,
                                              is_whole ? NULL : &cache->of.handle, &next->fence));
    cache->covered_epoch = next->epoch = epoch;
    cache->n_fences++;
    return CUSHIM_OK;
}

/* In the role: wait for all fences, which makes `ask` find them complete. */
static enum cushim_status wait_for_fences(struct cushim_scope *scope,
                                          struct cushim_mem_stream_cache *cache) {
    return cache->n_fences ? cushim_mem_stream_fence_wait(
                                 &fence_at(cache, cache->n_fences - 1)->fence, scope->what)
                           : CUSHIM_OK;
}

static enum cushim_status record_and_wait(struct cushim_scope *scope,
                                          struct cushim_mem_stream_cache *cache, bool is_covered,
                                          bool must_wait) {
    if (must_wait) { /* which makes room for one more */
        CUSHIM_TRY(wait_for_fences(scope, cache));
        ask(cache);
    }
    if (!is_covered)
        CUSHIM_TRY(record(scope, cache));
    return must_wait ? wait_for_fences(scope, cache) : CUSHIM_OK;
}

/* In the role. */
static enum cushim_status prove(struct cushim_mem_stream_cache *cache, const char *what,
                                enum cushim_mem_effort effort) {
    struct cushim_context_object *context = cache->of.context;
    struct cushim_scope scope;
    if (!context) /* of a life of the heap that is over */
        return CUSHIM_OK;
    bool is_dead = cushim_context_is_dead(context);
    bool is_covered =
        note_done(cache, is_dead ? UINT64_MAX : cushim_mem_fence_done(&context->fence));
    bool must_wait = effort == CUSHIM_MEM_WAIT;
    ask(cache);
    if (is_dead || effort == CUSHIM_MEM_ASK || (is_covered && !(must_wait && cache->n_fences)))
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_call_begin_known(&scope, what, context));
    enum cushim_status status =
        cushim_call_end(&scope, record_and_wait(&scope, cache, is_covered, must_wait));
    ask(cache);
    return status;
}

enum cushim_status cushim_mem_stream_cache_prove(struct cushim_mem_stream_cache *cache,
                                                 const char *what, enum cushim_mem_effort effort) {
    if (effort == CUSHIM_MEM_WAIT)
        cushim_futex_lock_enter(&cache->role);
    else if (!cushim_futex_lock_take(&cache->role))
        return CUSHIM_OK;
    enum cushim_status status = prove(cache, what, effort);
    cushim_futex_lock_leave(&cache->role);
    return status;
}

static enum cushim_status order_behind(struct cushim_mem_stream_fence *fence, const char *what,
                                       const struct cushim_mem_stream_cache *after) {
    struct cushim_scope scope;
    CUSHIM_TRY(cushim_call_begin_known(&scope, what, after->of.context));
    return cushim_call_end(&scope, cushim_mem_stream_fence_order(fence, &after->of.context->fence,
                                                                 what, after->of.handle));
}

enum cushim_status cushim_mem_stream_cache_order(struct cushim_mem_stream_cache *cache,
                                                 const char *what, uint64_t epoch,
                                                 const struct cushim_mem_stream_cache *after) {
    unsigned i = 0;
    cushim_futex_lock_enter(&cache->role);
    while (i < cache->n_fences && fence_at(cache, i)->epoch < epoch)
        i++;
    enum cushim_status status = epoch <= cache->done_epoch ? CUSHIM_OK
                                : i == cache->n_fences
                                    ? CUSHIM_NOTFOUND
                                    : order_behind(&fence_at(cache, i)->fence, what, after);
    cushim_futex_lock_leave(&cache->role);
    return status;
}

/* ---- streams that go, and waits for them ---- */

/* What could not be fenced yet waits for the whole context. */
static void leave(struct cushim_mem_stream_cache *cache) {
    cushim_futex_lock_enter(&cache->lock);
    if (!cushim_mem_stream_cache_is_gone(cache))
        atomic_fetch_add(&cache->life, 1);
    cache->is_ordered = false;
    cache->recent_asked = 0;
    cushim_futex_lock_leave(&cache->lock);
}

void cushim_mem_stream_cache_end(struct cushim_mem_stream_cache *cache, const char *what) {
    cushim_mem_stream_cache_prove(cache, what, CUSHIM_MEM_RECORD);
    leave(cache);
}

void cushim_thread_end_pools(void) {
    struct cushim_pool_heap *heap = NULL;
    const void *thread = (const void *)this_thread;
    while (thread && (heap = cushim_pool_heap_next(heap))) {
        pthread_mutex_lock(&heap->lock);
        for (struct cushim_mem_stream_cache *cache = NULL;
             (cache = cushim_mem_streams_next(heap, cache));) {
            if (cache->of.thread == thread)
                leave(cache);
        }
        pthread_mutex_unlock(&heap->lock);
    }
}

void cushim_mem_stream_cache_waited(struct cushim_mem_stream_cache *cache, uint32_t life,
                                    uint64_t begun) {
    if (!cushim_futex_lock_take(&cache->role))
        return;
    if (cushim_mem_stream_cache_is_of(cache, life)) /* no other stream gets it without the role */
        note_done(cache, begun);
    cushim_futex_lock_leave(&cache->role);
}

void cushim_mem_stream_cache_forget(struct cushim_mem_stream_cache *cache) {
    cushim_futex_lock_enter(&cache->role);
    while (cache->n_fences)
        drop_first_fence(cache);
    leave(cache); /* before all else: who comes late puts nothing in */
    cushim_futex_lock_enter(&cache->lock);
    cushim_mem_stream_buckets_clear(&cache->buckets);
    cache->ages = (struct cushim_mem_stream_age){&cache->ages, &cache->ages};
    cache->recent = NULL;
    cache->counts = (struct cushim_mem_stream_counts){0};
    cache->idle_bytes = cache->least_idle_bytes = 0;
    cache->open_blocks = cache->open_bytes = 0;
    cushim_futex_lock_leave(&cache->lock);
    cushim_futex_lock_leave(&cache->role);
}
