#include "memory/cache/stream.h"

#include <stdlib.h>

#include "base/try.h"
#include "base/lock.h"

static _Thread_local uintptr_t this_thread __attribute__((tls_model("initial-exec")));

const void *cushim_mem_stream_thread(void) {
    static atomic_uintptr_t n_threads;
    if (!this_thread)
        this_thread = atomic_fetch_add(&n_threads, 1) + 1;
    return (const void *)this_thread;
}

/* ---- buckets ---- */

/* Find or make the bucket of a size; the loose bucket if host memory is out. */
static struct cushim_mem_stream_bucket *find_or_make(struct cushim_mem_stream_cache *cache,
                                                     size_t bucket_bytes) {
    struct cushim_mem_stream_bucket *bucket =
        cushim_mem_stream_buckets_find(&cache->buckets, bucket_bytes);
    if (bucket)
        return bucket;
    const struct cushim_mem_streams *streams = cache->streams;
    size_t n_most = cushim_most(streams->most_bytes / bucket_bytes, streams->most_blocks);
    cache->recent = NULL; /* it may be dropped, if it is empty */
    cache->recent_asked = 0;
    return cushim_mem_stream_buckets_make(&cache->buckets, bucket_bytes, n_most);
}

struct cushim_mem_stream_cache *cushim_mem_stream_cache_put(struct cushim_mem_stream_cache *cache,
                                                            uint32_t life,
                                                            struct cushim_mem_stream_block *block) {
    struct cushim_mem_stream_cache *all = cache->streams->all;
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
    if (!cache->idle_bytes)
        return NULL;
    CUSHIM_FUTEX_LOCKED(&cache->lock);
    struct cushim_mem_stream_bucket *bucket =
        cushim_mem_stream_buckets_find(&cache->buckets, bucket_bytes);
    return bucket && life && cache->is_ordered && cushim_mem_stream_cache_is_of(cache, life)
               ? cushim_mem_stream_cache_pop_from(cache, bucket)
               : pop_if_over(cache, bucket);
}

size_t cushim_mem_stream_cache_count(struct cushim_mem_stream_cache *cache, size_t bucket_bytes) {
    if (!cache->idle_bytes)
        return 0;
    CUSHIM_FUTEX_LOCKED(&cache->lock);
    const struct cushim_mem_stream_bucket *bucket =
        cushim_mem_stream_buckets_find(&cache->buckets, bucket_bytes);
    return bucket ? bucket->n : 0;
}

struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_earliest(struct cushim_mem_stream_cache *cache, uint64_t last_epoch,
                                     bool must_be_over) {
    if (!cache->idle_bytes)
        return NULL;
    CUSHIM_FUTEX_LOCKED(&cache->lock);
    struct cushim_mem_stream_block *block = cache->earliest;
    if (!block || block->epoch > last_epoch ||
        (must_be_over && !cushim_mem_stream_block_is_over(cache, block)))
        return NULL;
    cushim_mem_stream_cache_unlink(cache, block->bucket, block);
    return block;
}

struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_fitting(struct cushim_mem_stream_cache *cache, size_t bucket_bytes,
                                    size_t most_bytes, uint32_t life) {
    struct cushim_mem_stream_bucket *bucket = NULL;
    struct cushim_mem_stream_block *best = NULL;
    CUSHIM_FUTEX_LOCKED(&cache->lock);
    bool is_known = life && cushim_mem_stream_cache_is_of(cache, life);
    while ((bucket = cushim_mem_stream_buckets_next(&cache->buckets, bucket))) {
        struct cushim_mem_stream_block *oldest = cushim_mem_stream_bucket_oldest(bucket);
        if (oldest && oldest->bucket_bytes >= bucket_bytes && oldest->bucket_bytes <= most_bytes &&
            (!best || oldest->bucket_bytes < best->bucket_bytes) &&
            (is_known || cushim_mem_stream_block_is_over(cache, oldest)))
            best = oldest;
    }
    if (best)
        cushim_mem_stream_cache_unlink(cache, best->bucket, best);
    return best;
}

static bool is_small(const struct cushim_mem_stream_bucket *bucket) {
    return bucket->bucket_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES;
}

size_t cushim_mem_stream_cache_small_bytes(struct cushim_mem_stream_cache *cache) {
    size_t n_bytes = 0;
    struct cushim_mem_stream_bucket *bucket = NULL;
    CUSHIM_FUTEX_LOCKED(&cache->lock);
    while ((bucket = cushim_mem_stream_buckets_next(&cache->buckets, bucket)))
        n_bytes += is_small(bucket) ? bucket->bucket_bytes * bucket->n : 0;
    return n_bytes;
}

struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_small(struct cushim_mem_stream_cache *cache) {
    struct cushim_mem_stream_block *list = NULL, *block;
    struct cushim_mem_stream_bucket *bucket = NULL;
    CUSHIM_FUTEX_LOCKED(&cache->lock);
    while ((bucket = cushim_mem_stream_buckets_next(&cache->buckets, bucket))) {
        while (is_small(bucket) && (block = pop_if_over(cache, bucket))) {
            block->older = list;
            list = block;
        }
    }
    return list;
}

/* ---- which cache ---- */

static bool is_of(const struct cushim_mem_stream_cache *cache,
                  const struct cushim_mem_stream *stream) {
    return !cushim_mem_stream_cache_is_gone(cache) && cache->stream.fence == stream->fence &&
           cache->stream.handle == stream->handle && cache->stream.thread == stream->thread;
}

/* The epoch of the last free into the cache; 0: it is empty.  The caller holds its lock. */
static uint64_t latest_epoch(const struct cushim_mem_stream_cache *cache) {
    return cache->earliest ? cache->earliest->earlier->epoch : 0; /* a ring that way */
}

/* Close the open batch and return its last epoch.  Later frees are in the next batch.  The caller
 * holds the cache's lock. */
static uint64_t close_batch(struct cushim_mem_stream_cache *cache) {
    cache->closed_epoch = cushim_mem_fence_close(cache->stream.fence);
    cache->open_blocks = cache->open_bytes = 0;
    return cache->closed_epoch;
}

/* Give a stream a cache whose own stream is gone, if all its blocks are over.  The fence and its
 * context stay, because a late thread may still use them.  The caller holds the streams' lock. */
static bool reuse(struct cushim_mem_stream_cache *cache, const struct cushim_mem_stream *stream) {
    if ((cache->stream.fence && cache->stream.fence != stream->fence) ||
        !cushim_mem_stream_cache_is_gone(cache) || !cushim_futex_lock_take(&cache->role))
        return false;
    cushim_futex_lock_enter(&cache->lock);
    bool is_ours = !cache->n_batches && latest_epoch(cache) <= cache->done_epoch;
    if (is_ours && !cache->stream.fence)
        stream->fence->host->keep(stream->fence);
    if (is_ours) { /* its blocks are over, and may serve any stream from now on */
        cache->stream = *stream;
        cache->is_ordered = stream->handle != CUSHIM_MEM_STREAM_ALL && cache->streams->has_order;
        cache->done_epoch = cache->covered_epoch = close_batch(cache);
        atomic_fetch_add(&cache->life, 1);
    }
    cushim_futex_lock_leave(&cache->lock);
    cushim_futex_lock_leave(&cache->role);
    return is_ours;
}

/* The cache of the stream, or one that can become it; NULL: neither.  *gone is a cache without a
 * stream that cannot yet, in turn.  The caller holds the streams' lock. */
static struct cushim_mem_stream_cache *find(struct cushim_mem_streams *streams,
                                            const struct cushim_mem_stream *stream,
                                            struct cushim_mem_stream_cache **gone) {
    struct cushim_mem_stream_cache *first = cushim_mem_streams_next(streams, NULL), *cache = first;
    size_t n_gone = 0;
    while (cache && !is_of(cache, stream))
        cache = cache->next;
    if (cache)
        return cache;
    for (cache = first; cache && !reuse(cache, stream); cache = cache->next) {
        if (cushim_mem_stream_cache_is_gone(cache) && n_gone++ <= streams->n_turns)
            *gone = cache;
    }
    streams->n_turns = streams->n_turns + 1 < n_gone ? streams->n_turns + 1 : 0;
    return cache;
}

/* The caller holds the streams' lock. */
static struct cushim_mem_stream_cache *make(struct cushim_mem_streams *streams,
                                            const struct cushim_mem_stream *stream) {
    struct cushim_mem_stream_cache *cache =
        aligned_alloc(_Alignof(struct cushim_mem_stream_cache), sizeof *cache);
    if (!cache)
        return NULL;
    *cache = (struct cushim_mem_stream_cache){.streams = streams,
                                              .next = cushim_mem_streams_next(streams, NULL)};
    reuse(cache, stream);
    store_release(&streams->caches, cache);
    return cache;
}

struct cushim_mem_stream_cache *cushim_mem_stream_cache_of(struct cushim_mem_streams *streams,
                                                           const struct cushim_mem_stream *stream,
                                                           uint32_t *life) {
    struct cushim_mem_stream_cache *gone = NULL;
    pthread_mutex_lock(&streams->lock);
    struct cushim_mem_stream_cache *cache = find(streams, stream, &gone);
    if (!cache && gone) { /* it may be over by now */
        pthread_mutex_unlock(&streams->lock);
        cushim_mem_stream_cache_prove(gone, CUSHIM_MEM_RECORD);
        pthread_mutex_lock(&streams->lock);
        cache = find(streams, stream, &gone);
    }
    if (!cache)
        cache = make(streams, stream);
    if (cache)
        *life = load_relaxed(&cache->life);
    pthread_mutex_unlock(&streams->lock);
    return cache;
}

/* ---- what is over ---- */

/* Blocks freed up to an epoch are over.  True: all idle blocks are over or have a fence.  The
 * caller has the role. */
static bool note_done(struct cushim_mem_stream_cache *cache, uint64_t epoch) {
    CUSHIM_FUTEX_LOCKED(&cache->lock);
    cache->done_epoch = cushim_most(cache->done_epoch, epoch);
    cache->covered_epoch = cushim_most(cache->covered_epoch, epoch);
    bool is_covered = latest_epoch(cache) <= cache->covered_epoch;
    if (is_covered && cache->closed_epoch < cache->covered_epoch) {
        cache->closed_epoch = cache->covered_epoch;
        cache->open_blocks = cache->open_bytes = 0;
    }
    return is_covered;
}

/* The pending batch of an index; 0 is the oldest.  The caller has the role. */
static struct cushim_mem_stream_batch *batch_at(struct cushim_mem_stream_cache *cache, unsigned i) {
    return &cache->batches[(cache->first_batch + i) % CUSHIM_MEM_STREAM_BATCHES];
}

static void drop_first_batch(struct cushim_mem_stream_cache *cache) {
    cushim_mem_stream_fence_release(&batch_at(cache, 0)->fence);
    cache->first_batch = (cache->first_batch + 1) % CUSHIM_MEM_STREAM_BATCHES;
    cache->n_batches--;
}

/* Query the fences, and drop those that are complete.  The caller has the role. */
static void ask(struct cushim_mem_stream_cache *cache) {
    while (cache->n_batches && cushim_mem_stream_fence_is_complete(&batch_at(cache, 0)->fence)) {
        note_done(cache, batch_at(cache, 0)->epoch);
        drop_first_batch(cache);
    }
}

/* The caller has the role, and the stream's context is current. */
static enum cushim_status record(struct cushim_mem_stream_cache *cache) {
    struct cushim_mem_stream_batch *next = batch_at(cache, cache->n_batches);
    bool is_whole = !cushim_mem_stream_cache_has_stream(cache);
    if (cache->n_batches == CUSHIM_MEM_STREAM_BATCHES)
        return CUSHIM_NOTREADY;
    /* the batch is closed first, so that all frees in it come before the record */
    cushim_futex_lock_enter(&cache->lock);
    uint64_t epoch = close_batch(cache);
    cushim_futex_lock_leave(&cache->lock);
    /* without a name, because a refusal must not become the thread's last error */
    CUSHIM_TRY(cushim_mem_stream_fence_record(
        cache->stream.fence, NULL, is_whole ? NULL : &cache->stream.handle, &next->fence));
    cache->covered_epoch = next->epoch = epoch;
    cache->n_batches++;
    return CUSHIM_OK;
}

/* Wait for all fences, so that `ask` finds them complete.  The caller has the role. */
static enum cushim_status wait_for_fences(struct cushim_mem_stream_cache *cache) {
    return cache->n_batches
               ? cushim_mem_stream_fence_wait(&batch_at(cache, cache->n_batches - 1)->fence, NULL)
               : CUSHIM_OK;
}

static enum cushim_status record_and_wait(struct cushim_mem_stream_cache *cache, bool is_covered,
                                          bool must_wait) {
    CUSHIM_ENTERED entered = NULL;
    CUSHIM_TRY(cushim_mem_stream_fence_enter(cache->stream.fence, &entered));
    if (must_wait) { /* which makes room for another fence */
        CUSHIM_TRY(wait_for_fences(cache));
        ask(cache);
    }
    if (!is_covered)
        CUSHIM_TRY(record(cache));
    return must_wait ? wait_for_fences(cache) : CUSHIM_OK;
}

/* The caller has the role. */
static enum cushim_status prove(struct cushim_mem_stream_cache *cache,
                                enum cushim_mem_effort effort) {
    struct cushim_mem_fence *fence = cache->stream.fence;
    bool must_wait = effort == CUSHIM_MEM_WAIT;
    if (!fence) /* the heap's use is over */
        return CUSHIM_OK;
    bool is_gone = cushim_mem_fence_is_gone(fence);
    bool is_covered = note_done(cache, is_gone ? UINT64_MAX : cushim_mem_fence_done(fence));
    ask(cache);
    if (is_gone || effort == CUSHIM_MEM_ASK || (is_covered && !(must_wait && cache->n_batches)))
        return CUSHIM_OK;
    enum cushim_status status = record_and_wait(cache, is_covered, must_wait);
    ask(cache);
    return status;
}

enum cushim_status cushim_mem_stream_cache_prove(struct cushim_mem_stream_cache *cache,
                                                 enum cushim_mem_effort effort) {
    if (effort == CUSHIM_MEM_WAIT)
        cushim_futex_lock_enter(&cache->role);
    else if (!cushim_futex_lock_take(&cache->role))
        return CUSHIM_OK;
    enum cushim_status status = prove(cache, effort);
    cushim_futex_lock_leave(&cache->role);
    return status;
}

static enum cushim_status order_behind(struct cushim_mem_stream_fence *stream_fence,
                                       const struct cushim_mem_stream *stream) {
    CUSHIM_ENTERED entered = NULL;
    CUSHIM_TRY(cushim_mem_stream_fence_enter(stream->fence, &entered));
    return cushim_mem_stream_fence_order(stream_fence, stream->fence, NULL, stream->handle);
}

enum cushim_status cushim_mem_stream_cache_order(struct cushim_mem_stream_cache *cache,
                                                 uint64_t epoch,
                                                 const struct cushim_mem_stream_cache *after) {
    unsigned i = 0;
    CUSHIM_FUTEX_LOCKED(&cache->role);
    while (i < cache->n_batches && batch_at(cache, i)->epoch < epoch)
        i++;
    if (epoch <= cache->done_epoch)
        return CUSHIM_OK;
    return i == cache->n_batches ? CUSHIM_NOTFOUND
                                 : order_behind(&batch_at(cache, i)->fence, &after->stream);
}

/* ---- streams that are destroyed, and waits for streams ---- */

/* The cache loses its stream.  Blocks without a fence wait for the whole context. */
static void leave(struct cushim_mem_stream_cache *cache) {
    CUSHIM_FUTEX_LOCKED(&cache->lock);
    if (!cushim_mem_stream_cache_is_gone(cache))
        atomic_fetch_add(&cache->life, 1);
    cache->is_ordered = false;
    cache->recent_asked = 0;
}

void cushim_mem_stream_cache_waited(struct cushim_mem_stream_cache *cache, uint32_t life,
                                    uint64_t begun) {
    if (!cushim_futex_lock_take(&cache->role))
        return;
    /* no other stream gets the cache without the role */
    if (cushim_mem_stream_cache_is_of(cache, life))
        note_done(cache, begun);
    cushim_futex_lock_leave(&cache->role);
}

void cushim_mem_stream_caches_note(struct cushim_mem_streams *streams,
                                   struct cushim_mem_fence *fence, CUstream handle,
                                   uint64_t begun) {
    const struct cushim_mem_stream stream = {.fence = fence, .handle = handle};
    CUSHIM_MEM_EACH_STREAM_CACHE(cache, streams) {
        pthread_mutex_lock(&streams->lock);
        uint32_t life = cache->life; /* no other stream gets the cache during the lock */
        bool is_it = is_of(cache, &stream);
        pthread_mutex_unlock(&streams->lock);
        if (is_it && begun) {
            cushim_mem_stream_cache_waited(cache, life, begun);
        } else if (is_it && handle) {
            cushim_mem_stream_cache_prove(cache, CUSHIM_MEM_RECORD);
            leave(cache);
        }
    }
}

void cushim_mem_stream_caches_end_thread(struct cushim_mem_streams *streams) {
    CUSHIM_LOCKED(&streams->lock);
    for (struct cushim_mem_stream_cache *cache = NULL;
         this_thread && (cache = cushim_mem_streams_next(streams, cache));) {
        if (cache->stream.thread == (const void *)this_thread)
            leave(cache);
    }
}

/* ---- of a heap ---- */

bool cushim_mem_streams_begin(struct cushim_mem_streams *streams, struct cushim_mem_fence *fence) {
    const struct cushim_mem_stream all = {.fence = fence, .handle = CUSHIM_MEM_STREAM_ALL};
    uint32_t life;
    atomic_store(&streams->held_blocks, 0);
    atomic_store(&streams->held_bytes, 0);
    atomic_store(&streams->n_evicted, 0);
    streams->all = cushim_mem_stream_cache_of(streams, &all, &life);
    return streams->all != NULL;
}

void cushim_mem_streams_end(struct cushim_mem_streams *streams) {
    CUSHIM_MEM_EACH_STREAM_CACHE(cache, streams) {
        struct cushim_mem_fence *fence = cache->stream.fence;
        cache->stream.fence = NULL;
        cache->counts = (struct cushim_mem_stream_counts){0}; /* a late call may have counted */
        if (fence)
            fence->host->let_go(fence);
    }
}

void cushim_mem_stream_cache_forget(struct cushim_mem_stream_cache *cache) {
    cushim_futex_lock_enter(&cache->role);
    while (cache->n_batches)
        drop_first_batch(cache);
    leave(cache); /* first, so that a late thread adds no block */
    cushim_futex_lock_enter(&cache->lock);
    cushim_mem_stream_buckets_clear(&cache->buckets);
    cache->earliest = NULL;
    cache->recent = NULL;
    cache->counts = (struct cushim_mem_stream_counts){0};
    cache->idle_bytes = cache->least_idle_bytes = 0;
    cache->open_blocks = cache->open_bytes = 0;
    cushim_futex_lock_leave(&cache->lock);
    cushim_futex_lock_leave(&cache->role);
}
