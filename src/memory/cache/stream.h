/*
 * Stream caches: the idle blocks that a stream freed.  A block is over once the work that was
 * submitted before its free is complete.
 *
 *   streams  the part of a heap whose blocks are freed in stream order:
 *            the table of its blocks, and its stream caches
 *   cache    what one stream freed in a heap:
 *            buckets of idle blocks, newest first, and stream fences
 *   block    a block while it is out of the free lists:
 *            live, idle in a cache, or held by a graph
 *
 * The epochs of the fence of the stream's context tell the time (memory/fence/fence.h), and a block
 * remembers the epoch in which it was freed.  A record of a stream fence first closes the epoch and
 * the cache's open batch.  Once the fence is complete, the blocks freed up to that epoch are over.
 * So they are after a wait that began then.
 *
 * A bucket holds the blocks of one size.  Invariant: epochs never rise from new to old, so that the
 * oldest block is over first.
 *
 * Locks are taken in this order: streams, cache, heap.  None is held over a callback or over a
 * driver call that may wait.  The thread that has a cache's `role` owns its stream fences.  A
 * thread takes the role before the cache's lock, and keeps it over driver calls.  If it has another
 * lock, it only tries to take the role.  Streams, caches and blocks are type-stable: no thread
 * frees them, because a lookup without a lock may still read one.
 */
#pragma once

#include <utlist.h>

#include "base/futex.h"
#include "cushim/types.h"
#include "memory/fence/stream_fence.h"
#include "memory/layout/block.h"
#include "memory/cache/stream_buckets.h"

enum {
    CUSHIM_MEM_STREAM_BATCH_BLOCKS = 64, /* a cache records a fence after this many frees */
    CUSHIM_MEM_STREAM_BATCH_BYTES = 64 << 20,
    CUSHIM_MEM_STREAM_BATCHES = 32,   /* most pending fences of a cache */
    CUSHIM_MEM_STREAM_LOG2_CHUNK = 9, /* blocks of a table's chunk */
    CUSHIM_MEM_STREAM_N_CHUNKS = 1 << 14
};

/*
 * A block has two cache lines of its own, and hits and frees write its state there.  In the heap's
 * metadata four small blocks share a line, for which threads would compete.  So the metadata says
 * LIVE until the block is back in the free lists.
 */
struct cushim_mem_stream_block {
    /* constant while the block is out of the free lists; 0: a spare block */
    _Alignas(64) atomic_uint_fast64_t address;
    _Atomic uint32_t state; /* enum cushim_mem_state: LIVE, else DEFERRED */
    atomic_uint n_holds;    /* captures and graphs that hold it; written under the streams' lock */
    atomic_size_t asked_bytes; /* while it is LIVE */
    size_t bucket_bytes;       /* constant like the address */
    /* guarded by the cache's lock */
    struct cushim_mem_stream_block *newer, *older;   /* in a bucket; older: also among spares */
    struct cushim_mem_stream_block *earlier, *later; /* idle in the cache, in the order of frees */
    uint64_t epoch;                                  /* of its free */
    struct cushim_mem_stream_bucket *bucket;         /* while it is idle */
    /* Live: the cache of the stream that allocated it.  Idle: the cache that has it.  Held by a
     * graph: the cache of the stream that freed it. */
    _Atomic(struct cushim_mem_stream_cache *) cache;
    struct cushim_mem_streams *streams; /* constant, like the index */
    struct cushim_mem_blockref ref;     /* constant like the address */
    uint32_t index;                     /* in the table; the metadata's `user` */
    /* Guarded by the streams' lock.  The life of its cache if it was freed while held, so that the
     * last holder puts it back; else 0. */
    uint32_t deferred_life;
    /* Marks for the owner of the heap, written by the thread that has the block. */
    bool is_poisoned, is_shared;
};

_Static_assert(sizeof(struct cushim_mem_stream_block) == 128, "two lines");

static inline uint64_t
cushim_mem_stream_block_address(const struct cushim_mem_stream_block *block) {
    return load_acquire(&block->address);
}

static inline bool cushim_mem_stream_block_is_live(const struct cushim_mem_stream_block *block) {
    return load_acquire(&block->state) == CUSHIM_MEM_LIVE;
}

/* The block is the caller's, which has written asked_bytes. */
static inline void cushim_mem_stream_block_set_live(struct cushim_mem_stream_block *block) {
    store_release(&block->state, CUSHIM_MEM_LIVE);
}

/*
 * LIVE -> DEFERRED; of several threads, one succeeds.
 *
 * The caller found the block by its address without a lock.  Blocks are type-stable, but another
 * thread may have freed this one before the exchange.  Then it may have gone to the free lists and
 * come out at another address.  So the address is compared again after the exchange, because from
 * then on the block is ours and stays in place.  Only a program that frees an address twice at the
 * same time gets there.
 */
static inline bool cushim_mem_stream_block_take(struct cushim_mem_stream_block *block,
                                                uint64_t address) {
    uint32_t live = CUSHIM_MEM_LIVE;
    if (!atomic_compare_exchange_strong(&block->state, &live, CUSHIM_MEM_DEFERRED))
        return false;
    if (likely(cushim_mem_stream_block_address(block) == address))
        return true;
    cushim_mem_stream_block_set_live(block);
    return false;
}

/* A batch of frees with its stream fence, and the last epoch that the fence covers. */
struct cushim_mem_stream_batch {
    struct cushim_mem_stream_fence fence;
    uint64_t epoch;
};

struct cushim_mem_stream_counts {
    uint64_t n_hits, n_misses, n_frees;
    /* of allocations and frees that named this cache; may be below 0 */
    int64_t live_blocks, live_bytes, asked_bytes;
};

/* Count a block as live, or no longer (sign -1).  The caller holds the lock of the named cache. */
static inline void cushim_mem_stream_count_live(struct cushim_mem_stream_counts *counts,
                                                int64_t sign,
                                                const struct cushim_mem_stream_block *block,
                                                size_t asked_bytes) {
    counts->live_blocks += sign;
    counts->live_bytes += sign * (int64_t)block->bucket_bytes;
    counts->asked_bytes += sign * (int64_t)asked_bytes;
}

/* A stream that an allocation or a free names. */
struct cushim_mem_stream {
    struct cushim_mem_fence *fence; /* of its context */
    CUstream handle;                /* NULL: legacy; or CUSHIM_MEM_STREAM_ALL */
    const void *thread; /* of CU_STREAM_PER_THREAD, the thread's own default stream; else NULL */
};

/* All streams of a context, as the public header names them. */
#define CUSHIM_MEM_STREAM_ALL ((CUstream)CUSHIM_STREAM_ALL)

/* The fields that hits and frees use come first, in three cache lines. */
struct cushim_mem_stream_cache {
    _Alignas(128) struct cushim_futex_lock lock; /* most caches are one thread's */
    /* Odd while the cache is a stream's.  Rises, under the lock, when the stream or the owner goes,
     * so that a late thread sees that the cache is no longer theirs.  Also read without the lock.
     */
    atomic_uint life;
    bool is_ordered;                         /* blocks serve its own stream before they are over */
    struct cushim_mem_stream_bucket *recent; /* the bucket of the last hit or free, or NULL */
    size_t recent_asked; /* a request for this many bytes is served by `recent`; 0: unknown */
    struct cushim_mem_stream stream; /* constant while in use; its context is kept */
    uint64_t closed_epoch;           /* later frees are in the open batch */
    struct cushim_mem_stream_counts counts;
    atomic_size_t idle_bytes;       /* also read without the lock */
    size_t least_idle_bytes;        /* since the last cushim_mem_stream_cache_fallen */
    size_t open_blocks, open_bytes; /* idle in the open batch */
    uint64_t done_epoch;            /* blocks freed up to it are over */
    uint64_t covered_epoch;         /* or have a fence; the role's */
    struct cushim_mem_stream_buckets buckets;
    struct cushim_mem_stream_block
        *earliest;                 /* first of all idle blocks, by utlist.h; epochs never fall */
    struct cushim_futex_lock role; /* of the thread that records and queries the fences */
    struct cushim_mem_stream_batch batches[CUSHIM_MEM_STREAM_BATCHES];
    unsigned first_batch;
    atomic_uint n_batches;                /* also read without the role */
    struct cushim_mem_streams *streams;   /* constant */
    struct cushim_mem_stream_cache *next; /* of the streams; the list grows at its head only */
};

struct cushim_mem_stream_table {
    _Atomic(struct cushim_mem_stream_block *) chunks[CUSHIM_MEM_STREAM_N_CHUNKS];
    uint32_t n_blocks; /* ever made */
    uint32_t n_used;   /* blocks out of the free lists */
    struct cushim_mem_stream_block *spare;
};

/* Callbacks to the owner of a heap; the last two under the streams' lock. */
struct cushim_mem_streams_owner {
    /* A block goes to the free lists, so no lookup finds its address from now on. */
    void (*block_went)(uint64_t address);
    /* The context is gone, and the heap's blocks are forgotten. */
    void (*forgot)(struct cushim_mem_streams *streams);
    /* The owner goes: the heap must not refer to it from now on. */
    void (*leave)(struct cushim_mem_streams *streams);
};

struct cushim_mem_streams {
    /* constant */
    struct cushim_mem_heap *heap;
    void (*forget)(struct cushim_mem_streams *streams); /* forget all when it is abandoned */
    /* constant while in use */
    const struct cushim_mem_streams_owner *owner;
    struct cushim_mem_stream_cache *all; /* the cache of CUSHIM_STREAM_ALL */
    size_t most_bytes, most_blocks; /* up to these, a free into a bucket need not check the caps */
    uint64_t poll_ns;               /* how long a request for ALL waits for stream fences */
    bool has_order;                 /* a block serves the stream that freed it before it is over */
    pthread_mutex_t lock;           /* guards the table, the list of caches, and what follows */
    bool is_orphan;                 /* its owner is gone, so freed memory goes to the driver */
    /* The heap is not open yet, its context is gone, or the last block of an orphan is back.  The
     * thread that sets it, under the lock, forgets the heap's blocks and caches. */
    atomic_bool is_lost;
    bool is_forgotten; /* the thread that set is_lost is done */
    size_t n_turns;    /* which of the caches without a stream to query next */
    struct cushim_mem_stream_table table;
    _Atomic(struct cushim_mem_stream_cache *) caches;
    atomic_size_t held_blocks, held_bytes;  /* by captures and graphs */
    atomic_uint_fast64_t n_evicted;         /* idle blocks that went to the free lists */
    struct cushim_mem_streams *next_of_all; /* constant */
    atomic_bool is_used;
};

/* The next cache; `cache` NULL: the first.  Takes no lock. */
static inline struct cushim_mem_stream_cache *
cushim_mem_streams_next(const struct cushim_mem_streams *streams,
                        struct cushim_mem_stream_cache *cache) {
    return cache ? cache->next : load_acquire(&streams->caches);
}

#define CUSHIM_MEM_EACH_STREAM_CACHE(cache, streams)                                               \
    for (struct cushim_mem_stream_cache *cache = NULL;                                             \
         (cache = cushim_mem_streams_next((streams), cache));)

/* Whether the cache still belongs to the stream of `life`.  The caller holds its lock. */
static inline bool cushim_mem_stream_cache_is_of(const struct cushim_mem_stream_cache *cache,
                                                 uint32_t life) {
    return load_relaxed(&cache->life) == life;
}

/* Whether the cache's stream is gone, so that the cache has no order.  Needs no lock. */
static inline bool cushim_mem_stream_cache_is_gone(const struct cushim_mem_stream_cache *cache) {
    return !(load_acquire(&cache->life) & 1);
}

/* A value for the calling thread that no other thread ever gets. */
const void *cushim_mem_stream_thread(void);

/* Whether the calling thread can name the cache's stream to the driver.  A thread's default stream
 * takes records by that thread only, and a stream that is gone takes none. */
static inline bool cushim_mem_stream_cache_has_stream(const struct cushim_mem_stream_cache *cache) {
    return cache->stream.handle != CUSHIM_MEM_STREAM_ALL &&
           !cushim_mem_stream_cache_is_gone(cache) &&
           (!cache->stream.thread || cache->stream.thread == cushim_mem_stream_thread());
}

/* ---- of a heap ---- */

/* Begin to serve the context of a fence.  False: no host memory. */
bool cushim_mem_streams_begin(struct cushim_mem_streams *streams, struct cushim_mem_fence *fence);

/* End the use of a heap whose blocks and caches are forgotten.  It keeps no context from now on. */
void cushim_mem_streams_end(struct cushim_mem_streams *streams);

/*
 * Find or make the cache of a stream; NULL: no host memory.  Takes the streams' lock.
 *
 * A cache whose stream is gone serves another stream once its blocks are over, so there are never
 * many more caches than streams.  A call may have found the cache before that.  So a caller that
 * relies on stream order compares *life with the cache's, under its lock.  If they differ, it
 * treats its stream as CUSHIM_STREAM_ALL.
 */
struct cushim_mem_stream_cache *cushim_mem_stream_cache_of(struct cushim_mem_streams *streams,
                                                           const struct cushim_mem_stream *stream,
                                                           uint32_t *life);

/* As in memory/stream_heap.h, for one heap. */
void cushim_mem_stream_caches_note(struct cushim_mem_streams *streams,
                                   struct cushim_mem_fence *fence, CUstream handle, uint64_t begun);

void cushim_mem_stream_caches_end_thread(struct cushim_mem_streams *streams);

/* ---- the caller holds the cache's lock ---- */

/* The bucket of a size, or NULL.  Remembers it, because a stream often repeats a size. */
static inline struct cushim_mem_stream_bucket *
cushim_mem_stream_cache_recent(struct cushim_mem_stream_cache *cache, size_t bucket_bytes) {
    struct cushim_mem_stream_bucket *bucket = cache->recent;
    if (unlikely(!bucket || bucket->bucket_bytes != bucket_bytes)) {
        cache->recent = bucket = cushim_mem_stream_buckets_find(&cache->buckets, bucket_bytes);
        cache->recent_asked = 0;
    }
    return bucket;
}

static inline bool cushim_mem_stream_block_is_over(const struct cushim_mem_stream_cache *cache,
                                                   const struct cushim_mem_stream_block *block) {
    return block->epoch <= cache->done_epoch;
}

/* The block of a bucket that will be over first; NULL: the bucket is empty. */
static inline struct cushim_mem_stream_block *
cushim_mem_stream_bucket_oldest(const struct cushim_mem_stream_bucket *bucket) {
    return bucket->newest ? bucket->newest->newer : NULL; /* a ring that way */
}

/* Take an idle block out of its cache and bucket. */
static inline void cushim_mem_stream_cache_unlink(struct cushim_mem_stream_cache *cache,
                                                  struct cushim_mem_stream_bucket *bucket,
                                                  struct cushim_mem_stream_block *block) {
    DL_DELETE2(bucket->newest, block, newer, older);
    DL_DELETE2(cache->earliest, block, earlier, later);
    bucket->n--;
    size_t idle_bytes = cache->idle_bytes - block->bucket_bytes;
    store_relaxed(&cache->idle_bytes, idle_bytes);
    if (idle_bytes < cache->least_idle_bytes)
        cache->least_idle_bytes = idle_bytes;
    if (block->epoch > cache->closed_epoch) {
        cache->open_blocks--;
        cache->open_bytes -= block->bucket_bytes;
    }
}

/* By how much live memory has fallen from its peak since the last call, as far as this cache tells:
 * a hit lowers the idle bytes, and a free raises them. */
static inline size_t cushim_mem_stream_cache_fallen(struct cushim_mem_stream_cache *cache) {
    size_t idle_bytes = cache->idle_bytes;
    size_t fallen_bytes = idle_bytes - cache->least_idle_bytes;
    cache->least_idle_bytes = idle_bytes;
    return fallen_bytes;
}

/* Put a block in as the newest of its bucket, in the open batch.  The caller has made it DEFERRED
 * by an exchange. */
static inline void cushim_mem_stream_cache_push_in(struct cushim_mem_stream_cache *cache,
                                                   struct cushim_mem_stream_bucket *bucket,
                                                   struct cushim_mem_stream_block *block) {
    size_t bucket_bytes = block->bucket_bytes;
    block->epoch = cushim_mem_fence_tag(cache->stream.fence);
    block->bucket = bucket;
    DL_PREPEND2(bucket->newest, block, newer, older);
    DL_APPEND2(cache->earliest, block, earlier, later);
    store_relaxed(&block->cache, cache);
    bucket->n++;
    size_t idle_bytes = cache->idle_bytes + bucket_bytes;
    store_relaxed(&cache->idle_bytes, idle_bytes);
    cache->open_blocks++;
    cache->open_bytes += bucket_bytes;
}

/* Take the newest block of a bucket, in stream order, so of an ordered cache only; NULL: none. */
static inline struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_from(struct cushim_mem_stream_cache *cache,
                                 struct cushim_mem_stream_bucket *bucket) {
    struct cushim_mem_stream_block *block = bucket->newest;
    if (block)
        cushim_mem_stream_cache_unlink(cache, bucket, block);
    return block;
}

/* ---- without a lock ---- */

/*
 * Put a block into a cache if that still belongs to the stream of `life`, and otherwise into the
 * cache of ALL, for which any life will do.  Returns the cache that got the block.
 *
 * NULL: the heap's context ended, so the table forgets the block, and no thread may use it.  The
 * caller keeps the owner, so that the heap does not become another owner's meanwhile.
 */
struct cushim_mem_stream_cache *cushim_mem_stream_cache_put(struct cushim_mem_stream_cache *cache,
                                                            uint32_t life,
                                                            struct cushim_mem_stream_block *block);

/* Take a block of a bucket: the newest if an ordered cache still belongs to the stream of `life`
 * (0: no stream), and otherwise the oldest if it is over.  NULL: none. */
struct cushim_mem_stream_block *cushim_mem_stream_cache_take(struct cushim_mem_stream_cache *cache,
                                                             size_t bucket_bytes, uint32_t life);

/* The number of blocks of a bucket. */
size_t cushim_mem_stream_cache_count(struct cushim_mem_stream_cache *cache, size_t bucket_bytes);

/* Take the idle block that was freed first if that was no later than `last_epoch` and, if
 * must_be_over, the block is over; NULL: none. */
struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_earliest(struct cushim_mem_stream_cache *cache, uint64_t last_epoch,
                                     bool must_be_over);

/* Take the oldest block of the smallest size from `bucket_bytes` to `most_bytes`; NULL: none.  It
 * must be over unless the cache still belongs to the stream of `life`, which is not 0. */
struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_fitting(struct cushim_mem_stream_cache *cache, size_t bucket_bytes,
                                    size_t most_bytes, uint32_t life);

/* The bytes of idle blocks that share segments with others. */
size_t cushim_mem_stream_cache_small_bytes(struct cushim_mem_stream_cache *cache);

/* Take all of those blocks that are over, as a list by `older`. */
struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_small(struct cushim_mem_stream_cache *cache);

/* Empty the cache and end its life.  Its blocks are the caller's to forget. */
void cushim_mem_stream_cache_forget(struct cushim_mem_stream_cache *cache);

/* ---- without a lock: driver calls ---- */

enum cushim_mem_effort {
    CUSHIM_MEM_ASK,    /* query the stream fences */
    CUSHIM_MEM_RECORD, /* and record one for the open batch */
    CUSHIM_MEM_WAIT    /* and wait for them */
};

/**
 * Find out what is over.  If another thread has the role, ASK and RECORD do nothing; WAIT waits for
 * it.
 * @return CUSHIM_OK | the driver's status of a wait, or of a record before it |
 *         CUSHIM_CAPTURE (a capture forbids the fence)
 */
enum cushim_status cushim_mem_stream_cache_prove(struct cushim_mem_stream_cache *cache,
                                                 enum cushim_mem_effort effort);

/**
 * Let the stream of `after` wait in the device for a free into the cache.
 * @param epoch  of the free
 * @return CUSHIM_OK | CUSHIM_NOTFOUND (no fence covers it) | the driver's status
 */
enum cushim_status cushim_mem_stream_cache_order(struct cushim_mem_stream_cache *cache,
                                                 uint64_t epoch,
                                                 const struct cushim_mem_stream_cache *after);

/* A wait for the stream is over, which closed the epoch `begun` first.  Blocks freed up to that
 * epoch are over if the cache still belongs to the stream of `life`. */
void cushim_mem_stream_cache_waited(struct cushim_mem_stream_cache *cache, uint32_t life,
                                    uint64_t begun);
