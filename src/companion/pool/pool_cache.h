/*
 * Stream caches: the idle blocks that one stream freed, and when they are over (parts:
 * pool_internal.h).
 *
 * A bucket holds the blocks of one size, the newest first.  Invariant: epochs never rise from new
 * to old, so that the oldest block is over first.
 */
#ifndef CUSHIM_COMPANION_POOL_CACHE_H
#define CUSHIM_COMPANION_POOL_CACHE_H

#include <utlist.h>

#include "companion/pool/pool_internal.h"

/* A value of the calling thread's own, never another's. */
const void *cushim_mem_stream_thread(void);

/*
 * The cache of a stream in a heap, made at need; NULL: no host memory.  Takes the heap's lock.
 *
 * One whose stream went becomes another's once all that it has is over, so there are never many
 * more than streams at once.  A call that found it before may come late: whoever relies on stream
 * order compares *life with the cache's under its lock; another one's is CUSHIM_STREAM_ALL's
 * business.
 */
struct cushim_mem_stream_cache *cushim_mem_stream_cache_of(struct cushim_pool_heap *heap,
                                                           const struct cushim_mem_stream *stream,
                                                           const char *what, uint32_t *life);

/* ---- all with the cache's lock ---- */

/* The bucket of a size, or NULL, and remembered: a stream asks for one size again and again. */
static inline struct cushim_mem_stream_bucket *
cushim_mem_stream_cache_recent(struct cushim_mem_stream_cache *cache, size_t bucket_bytes) {
    struct cushim_mem_stream_bucket *bucket = cache->recent;
    if (__builtin_expect(!bucket || bucket->bucket_bytes != bucket_bytes, 0)) {
        cache->recent = bucket = cushim_mem_stream_buckets_find(&cache->buckets, bucket_bytes);
        cache->recent_asked = 0;
    }
    return bucket;
}

static inline bool cushim_mem_stream_block_is_over(const struct cushim_mem_stream_cache *cache,
                                                   const struct cushim_mem_stream_block *block) {
    return block->epoch <= cache->done_epoch;
}

/* The block of a bucket that is over first; NULL: it has none. */
static inline struct cushim_mem_stream_block *
cushim_mem_stream_bucket_oldest(const struct cushim_mem_stream_bucket *bucket) {
    return bucket->newest ? bucket->newest->newer : NULL; /* a ring that way */
}

/* The block of an age that is not the ring's own. */
static inline struct cushim_mem_stream_block *
cushim_mem_stream_age_block(struct cushim_mem_stream_age *age) {
    return (
        struct cushim_mem_stream_block *)(void *)((char *)age -
                                                  offsetof(struct cushim_mem_stream_block, age));
}

/* Take an idle block out of its cache; the bucket is its own. */
static inline void cushim_mem_stream_cache_unlink(struct cushim_mem_stream_cache *cache,
                                                  struct cushim_mem_stream_bucket *bucket,
                                                  struct cushim_mem_stream_block *block) {
    DL_DELETE2(bucket->newest, block, newer, older);
    block->age.later->earlier = block->age.earlier;
    block->age.earlier->later = block->age.later;
    bucket->n--;
    size_t idle_bytes = cache->idle_bytes - block->bucket_bytes;
    atomic_store_explicit(&cache->idle_bytes, idle_bytes, memory_order_relaxed);
    if (idle_bytes < cache->least_idle_bytes)
        cache->least_idle_bytes = idle_bytes;
    if (block->epoch > cache->closed_epoch) {
        cache->open_blocks--;
        cache->open_bytes -= block->bucket_bytes;
    }
}

/* By how much what is live has fallen, as far as this cache tells, from its highest since the last
 * call: a hit takes from what is idle, a free adds to it. */
static inline size_t cushim_mem_stream_cache_fallen(struct cushim_mem_stream_cache *cache) {
    size_t idle_bytes = cache->idle_bytes;
    size_t fallen_bytes = idle_bytes - cache->least_idle_bytes;
    cache->least_idle_bytes = idle_bytes;
    return fallen_bytes;
}

/* Put a block in as the newest of its bucket, in the open batch.  The caller freed it by an
 * exchange before. */
static inline void cushim_mem_stream_cache_push_in(struct cushim_mem_stream_cache *cache,
                                                   struct cushim_mem_stream_bucket *bucket,
                                                   struct cushim_mem_stream_block *block) {
    size_t bucket_bytes = block->bucket_bytes;
    block->epoch = cushim_mem_fence_tag(&cache->of.context->fence);
    block->bucket = bucket;
    DL_PREPEND2(bucket->newest, block, newer, older);
    block->age =
        (struct cushim_mem_stream_age){.later = &cache->ages, .earlier = cache->ages.earlier};
    cache->ages.earlier->later = &block->age;
    cache->ages.earlier = &block->age;
    atomic_store_explicit(&block->cache, cache, memory_order_relaxed);
    bucket->n++;
    size_t idle_bytes = cache->idle_bytes + bucket_bytes;
    atomic_store_explicit(&cache->idle_bytes, idle_bytes, memory_order_relaxed);
    cache->open_blocks++;
    cache->open_bytes += bucket_bytes;
}

/*
 * Without a lock: into the cache that it was freed into, if that is the stream's still, else behind
 * all work of the context (any life will do for the cache of ALL).  Returns where it is.
 *
 * NULL: the heap's context ended, so the table forgets the block, and nobody may touch it.  The
 * caller keeps the pool, so that the heap is not another pool's by then.
 */
struct cushim_mem_stream_cache *cushim_mem_stream_cache_put(struct cushim_mem_stream_cache *cache,
                                                            uint32_t life,
                                                            struct cushim_mem_stream_block *block);

/* The newest of a bucket; NULL: there is none.  Stream order: of an ordered cache alone. */
static inline struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_from(struct cushim_mem_stream_cache *cache,
                                 struct cushim_mem_stream_bucket *bucket) {
    struct cushim_mem_stream_block *block = bucket->newest;
    if (block)
        cushim_mem_stream_cache_unlink(cache, bucket, block);
    return block;
}

/* ---- without a lock ---- */

/* The newest of a bucket, for the stream that had the cache at `life` (0: for nobody); else the
 * oldest if it is over, or NULL. */
struct cushim_mem_stream_block *cushim_mem_stream_cache_take(struct cushim_mem_stream_cache *cache,
                                                             size_t bucket_bytes, uint32_t life);

/* How many blocks of a bucket there are just now. */
size_t cushim_mem_stream_cache_count(struct cushim_mem_stream_cache *cache, size_t bucket_bytes);

/* The idle block that was freed first, if that was at `last_epoch` at the latest and it is
 * over (or whatever it is, where any will do); NULL: none. */
struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_earliest(struct cushim_mem_stream_cache *cache, uint64_t last_epoch,
                                     bool must_be_over);

/* Bytes of idle blocks that share segments with others. */
size_t cushim_mem_stream_cache_small_bytes(struct cushim_mem_stream_cache *cache);

/* All of those that are over, as a list by `older`. */
struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_small(struct cushim_mem_stream_cache *cache);

/* ---- without a lock: driver calls ---- */

enum cushim_mem_effort {
    CUSHIM_MEM_ASK,    /* the fences there are */
    CUSHIM_MEM_RECORD, /* and make one for the open batch */
    CUSHIM_MEM_WAIT    /* and wait for them */
};

/**
 * See what is over.
 * @return CUSHIM_OK | what the driver said to a wait, or to a fence that was to be waited for;
 * CUSHIM_CAPTURE where a capture forbids the fence
 * Where another thread has the role, ASK and RECORD do nothing; WAIT waits for it.
 */
enum cushim_status cushim_mem_stream_cache_prove(struct cushim_mem_stream_cache *cache,
                                                 const char *what, enum cushim_mem_effort effort);

/**
 * Let a stream wait for what the cache freed, by the device.
 * @param epoch  of the block in question
 * @return CUSHIM_OK | CUSHIM_NOTFOUND (there is no fence for it) | what the driver said
 */
enum cushim_status cushim_mem_stream_cache_order(struct cushim_mem_stream_cache *cache,
                                                 const char *what, uint64_t epoch,
                                                 const struct cushim_mem_stream_cache *after);

/* The stream is about to go: its blocks are fenced, and the cache is no stream's any more. */
void cushim_mem_stream_cache_end(struct cushim_mem_stream_cache *cache, const char *what);

/* A wait for the stream is over that began at the epoch `begun`: what was freed before is over,
 * if the cache is the stream's still that it was at `life`. */
void cushim_mem_stream_cache_waited(struct cushim_mem_stream_cache *cache, uint32_t life,
                                    uint64_t begun);

/* The cache is empty from here on, and no stream's; its blocks are the caller's business. */
void cushim_mem_stream_cache_forget(struct cushim_mem_stream_cache *cache);

#endif
