/*
 * Stream caches: the idle blocks that a stream freed, and when they are over.
 *
 *   streams  what a heap has beside its own parts if its blocks are freed in the order of streams:
 * a table of its blocks, and the stream caches cache    what one stream freed in a heap: buckets of
 * idle blocks, newest first, and its stream fences block    one block while it is out of the free
 * lists: live, idle in a cache, or held by a graph
 *
 * Time is told by the epochs of the fence of the stream's context (memory/fence/fence.h): a block
 * remembers the epoch that it was freed in.  Before a stream fence is recorded its epoch is closed,
 * and so is the cache's open batch; once the fence is complete, what was freed up to that epoch is
 * over, as it is after a wait that began then.
 *
 * A bucket holds the blocks of one size.  Invariant: epochs never rise from new to old, so that the
 * oldest block is over first.
 *
 * Locks, in this order, none held over a callback or a driver call that may wait: that of the
 * streams, of a cache, of the heap.  The stream fences of a cache belong to the thread that has its
 * `role`, which is taken before its lock and held over driver calls; a thread that has another lock
 * only tries to take it.  Streams, caches and blocks are type-stable: nobody frees them, so that a
 * look-up may meet them late.
 */
#ifndef CUSHIM_MEMORY_STREAM_H
#define CUSHIM_MEMORY_STREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <utlist.h>

#include "base/futex.h"
#include "cushim/types.h"
#include "memory/fence/stream_fence.h"
#include "memory/layout/block.h"
#include "memory/cache/stream_buckets.h"

enum {
    CUSHIM_MEM_STREAM_BATCH_BLOCKS = 64, /* a cache records a fence after so many frees, */
    CUSHIM_MEM_STREAM_BATCH_BYTES = 64 << 20,
    CUSHIM_MEM_STREAM_BATCHES = 32,   /* fences of a cache that are not complete */
    CUSHIM_MEM_STREAM_LOG2_CHUNK = 9, /* blocks of a table's chunk */
    CUSHIM_MEM_STREAM_N_CHUNKS = 1 << 14
};

struct cushim_mem_heap;
struct cushim_mem_streams;
struct cushim_mem_stream_cache;

/*
 * Two lines of its own, and all that a hit and a free write is here: the metadata of four small
 * blocks share a line, which streams of several threads would pass to and fro.  That says LIVE
 * until the block is back in the free lists.
 */
struct cushim_mem_stream_block {
    /* set when it comes out of the free lists, constant until it goes back; 0: it is a spare */
    _Alignas(64) atomic_uint_fast64_t address;
    _Atomic uint32_t state; /* enum cushim_mem_state: LIVE, else DEFERRED */
    atomic_uint n_holds;    /* captures and graphs that keep it; written under the streams' lock */
    atomic_size_t asked_bytes; /* while it is LIVE */
    size_t bucket_bytes;       /* as the address */
    /* the cache's lock */
    struct cushim_mem_stream_block *newer, *older; /* in a bucket; older: among the spares, too */
    struct cushim_mem_stream_block *earlier,
        *later;                              /* idle in the cache, by when they were freed */
    uint64_t epoch;                          /* that it was freed in */
    struct cushim_mem_stream_bucket *bucket; /* that it is idle in */
    /* LIVE: the cache of the stream that it was allocated for.  Idle: the cache that it lies in.
     * Held by a graph: the cache of the stream that freed it. */
    _Atomic(struct cushim_mem_stream_cache *) cache;
    struct cushim_mem_streams *streams; /* constant for good, as is the index */
    struct cushim_mem_blockref ref;     /* as the address */
    uint32_t index;                     /* in the table; its metadata has it as `user` */
    /* The streams' lock: the life of its cache when it was freed while held, so that the last
     * holder takes it back; 0: it was not. */
    uint32_t deferred_life;
    /* Marks of the thread that has the block, for the owner of the heap. */
    bool is_poisoned, is_shared;
};

_Static_assert(sizeof(struct cushim_mem_stream_block) == 128, "two lines");

static inline uint64_t
cushim_mem_stream_block_address(const struct cushim_mem_stream_block *block) {
    return atomic_load_explicit(&block->address, memory_order_acquire);
}

static inline bool cushim_mem_stream_block_is_live(const struct cushim_mem_stream_block *block) {
    return atomic_load_explicit(&block->state, memory_order_acquire) == CUSHIM_MEM_LIVE;
}

/* It is the caller's: asked_bytes were written before. */
static inline void cushim_mem_stream_block_set_live(struct cushim_mem_stream_block *block) {
    atomic_store_explicit(&block->state, CUSHIM_MEM_LIVE, memory_order_release);
}

/*
 * LIVE -> DEFERRED, of several threads one.
 *
 * The caller found the block by its address without a lock.  Blocks are type-stable, but between
 * that look and the exchange a block that another thread freed may have gone to the free lists and
 * come out at another address, so the address is looked at once more: after the exchange the block
 * is ours, and stays where it is.  Only a program that frees an address twice at once gets there.
 */
static inline bool cushim_mem_stream_block_take(struct cushim_mem_stream_block *block,
                                                uint64_t address) {
    uint32_t live = CUSHIM_MEM_LIVE;
    if (!atomic_compare_exchange_strong(&block->state, &live, CUSHIM_MEM_DEFERRED))
        return false;
    if (__builtin_expect(cushim_mem_stream_block_address(block) == address, 1))
        return true;
    cushim_mem_stream_block_set_live(block);
    return false;
}

/* A batch of frees that has a stream fence, and the epoch up to which that covers them. */
struct cushim_mem_stream_batch {
    struct cushim_mem_stream_fence fence;
    uint64_t epoch;
};

struct cushim_mem_stream_counts {
    uint64_t n_hits, n_misses, n_frees;
    /* by what this cache was named for; may be below 0 */
    int64_t live_blocks, live_bytes, asked_bytes;
};

/* A block is live, or (sign -1) no more; with the lock of the cache that is named. */
static inline void cushim_mem_stream_count_live(struct cushim_mem_stream_counts *counts,
                                                int64_t sign,
                                                const struct cushim_mem_stream_block *block,
                                                size_t asked_bytes) {
    counts->live_blocks += sign;
    counts->live_bytes += sign * (int64_t)block->bucket_bytes;
    counts->asked_bytes += sign * (int64_t)asked_bytes;
}

/* A stream as a request or a free names it. */
struct cushim_mem_stream {
    struct cushim_mem_fence *fence; /* of its context */
    CUstream handle;                /* NULL: legacy; or CUSHIM_MEM_STREAM_ALL */
    const void *thread; /* whose own default stream it is, CU_STREAM_PER_THREAD; else NULL */
};

/* All streams of a context, as the public header names them. */
#define CUSHIM_MEM_STREAM_ALL ((CUstream)CUSHIM_STREAM_ALL)

/* What a hit and a free touch stands first, in three lines. */
struct cushim_mem_stream_cache {
    _Alignas(128) struct cushim_futex_lock lock; /* most caches are one thread's */
    /* Odd: a stream's.  Rises, under the lock, when the stream or its owner goes: a thread that
     * comes late sees that it is theirs no more.  Read without the lock, too. */
    atomic_uint life;
    bool is_ordered; /* its blocks serve its own stream at once */
    struct cushim_mem_stream_bucket
        *recent;         /* of buckets: the last that a hit or a free was of, or NULL */
    size_t recent_asked; /* a request of so many bytes is `recent`'s, in order; 0: unknown */
    struct cushim_mem_stream stream; /* its context is kept; constant while in use */
    uint64_t closed_epoch;           /* later frees are of the open batch */
    struct cushim_mem_stream_counts counts;
    atomic_size_t idle_bytes;       /* read unlocked too */
    size_t least_idle_bytes;        /* since cushim_mem_stream_cache_fallen */
    size_t open_blocks, open_bytes; /* idle blocks of the open batch */
    uint64_t done_epoch;            /* what was freed up to it is over, */
    uint64_t covered_epoch;         /* or has a fence; of the role */
    struct cushim_mem_stream_buckets buckets;
    struct cushim_mem_stream_block
        *earliest;                 /* of all idle blocks, by utlist.h: epochs never fall */
    struct cushim_futex_lock role; /* the thread that has it records and asks, and has the fences */
    struct cushim_mem_stream_batch batches[CUSHIM_MEM_STREAM_BATCHES];
    unsigned first_batch;
    atomic_uint n_batches;                /* read without the role, too */
    struct cushim_mem_streams *streams;   /* constant for good */
    struct cushim_mem_stream_cache *next; /* of the streams: rises at the head only */
};

struct cushim_mem_stream_table {
    _Atomic(struct cushim_mem_stream_block *) chunks[CUSHIM_MEM_STREAM_N_CHUNKS];
    uint32_t n_blocks; /* ever made, */
    uint32_t n_used;   /* and of those out of the free lists */
    struct cushim_mem_stream_block *spare;
};

/* What the owner of a heap is told; the last two under the streams' lock. */
struct cushim_mem_streams_owner {
    /* A block goes to the free lists, so that nobody finds its address any more. */
    void (*block_went)(uint64_t address);
    /* The context is gone, and all that was in the heap is forgotten. */
    void (*forgot)(struct cushim_mem_streams *streams);
    /* The owner goes: from here on nobody reaches it by way of the heap. */
    void (*leave)(struct cushim_mem_streams *streams);
};

struct cushim_mem_streams {
    /* constant for good */
    struct cushim_mem_heap *heap;
    void (*forget)(struct cushim_mem_streams *streams); /* all blocks and caches, in an abandon */
    /* constant while in use */
    const struct cushim_mem_streams_owner *owner;
    struct cushim_mem_stream_cache *all; /* the cache of ALL */
    size_t most_bytes, most_blocks; /* a bucket may have, so that a free need not look after it */
    size_t keep_bytes;              /* so much may be idle in any case */
    uint64_t poll_ns;               /* a request for ALL waits so long for stream fences */
    bool has_order;                 /* a block serves the stream that freed it at once */
    pthread_mutex_t lock;           /* the table, the list of caches, and what follows */
    bool is_orphan;                 /* its owner is gone: what comes back goes to the driver */
    /* It is not open yet; or its context is gone, or the last block of an orphan is back, and the
     * thread that set it forgets all that is in it.  Set under the lock. */
    atomic_bool is_lost;
    bool is_forgotten; /* that is done */
    size_t n_turns;    /* which cache that is gone is asked after next */
    /* the most that was live in the running second and in the one before */
    size_t peak_bytes[2];
    uint64_t peak_since_ns;
    struct cushim_mem_stream_table table;
    _Atomic(struct cushim_mem_stream_cache *) caches;
    atomic_size_t held_blocks, held_bytes;  /* that captures and graphs keep */
    atomic_uint_fast64_t n_evicted;         /* idle blocks that went to the free lists */
    struct cushim_mem_streams *next_of_all; /* constant */
    atomic_bool is_used;
};

/* The next of all caches, `cache` NULL: the first; no lock. */
static inline struct cushim_mem_stream_cache *
cushim_mem_streams_next(const struct cushim_mem_streams *streams,
                        struct cushim_mem_stream_cache *cache) {
    return cache ? cache->next : atomic_load_explicit(&streams->caches, memory_order_acquire);
}

/* With its lock: is it the stream's still that it was at `life`? */
static inline bool cushim_mem_stream_cache_is_of(const struct cushim_mem_stream_cache *cache,
                                                 uint32_t life) {
    return atomic_load_explicit(&cache->life, memory_order_relaxed) == life;
}

/* Its stream went: never ordered again; without its lock, too. */
static inline bool cushim_mem_stream_cache_is_gone(const struct cushim_mem_stream_cache *cache) {
    return !(atomic_load_explicit(&cache->life, memory_order_acquire) & 1);
}

/* A value of the calling thread's own, never another's. */
const void *cushim_mem_stream_thread(void);

/* ---- of a heap ---- */

/* The heap serves a context of that fence from now on.  False: no host memory. */
bool cushim_mem_streams_begin(struct cushim_mem_streams *streams, struct cushim_mem_fence *fence);

/* Its blocks and caches are forgotten; it keeps no context from now on. */
void cushim_mem_streams_end(struct cushim_mem_streams *streams);

/*
 * The cache of a stream, made at need; NULL: no host memory.  Takes the streams' lock.
 *
 * One whose stream went becomes another's once all that it has is over, so there are never many
 * more than streams at once.  A call that found it before may come late: a caller that relies on
 * stream order compares *life with the cache's under its lock; another one's is CUSHIM_STREAM_ALL's
 * business.
 */
struct cushim_mem_stream_cache *cushim_mem_stream_cache_of(struct cushim_mem_streams *streams,
                                                           const struct cushim_mem_stream *stream,
                                                           uint32_t *life);

/* See memory/stream_heap.h, of one heap. */
void cushim_mem_stream_caches_note(struct cushim_mem_streams *streams,
                                   struct cushim_mem_fence *fence, CUstream handle, uint64_t begun);

void cushim_mem_stream_caches_end_thread(struct cushim_mem_streams *streams);

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

/* Take an idle block out of its cache; the bucket is its own. */
static inline void cushim_mem_stream_cache_unlink(struct cushim_mem_stream_cache *cache,
                                                  struct cushim_mem_stream_bucket *bucket,
                                                  struct cushim_mem_stream_block *block) {
    DL_DELETE2(bucket->newest, block, newer, older);
    DL_DELETE2(cache->earliest, block, earlier, later);
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
    block->epoch = cushim_mem_fence_tag(cache->stream.fence);
    block->bucket = bucket;
    DL_PREPEND2(bucket->newest, block, newer, older);
    DL_APPEND2(cache->earliest, block, earlier, later);
    atomic_store_explicit(&block->cache, cache, memory_order_relaxed);
    bucket->n++;
    size_t idle_bytes = cache->idle_bytes + bucket_bytes;
    atomic_store_explicit(&cache->idle_bytes, idle_bytes, memory_order_relaxed);
    cache->open_blocks++;
    cache->open_bytes += bucket_bytes;
}

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

/*
 * Into the cache that the block was freed into, if that is the stream's still, else behind all work
 * of the context (any life will do for the cache of ALL).  Returns where it is.
 *
 * NULL: the heap's context ended, so the table forgets the block, and nobody may touch it.  The
 * caller keeps the owner, so that the heap is not another owner's by then.
 */
struct cushim_mem_stream_cache *cushim_mem_stream_cache_put(struct cushim_mem_stream_cache *cache,
                                                            uint32_t life,
                                                            struct cushim_mem_stream_block *block);

/* The newest of a bucket, for the stream that had the cache at `life` (0: for nobody); else the
 * oldest if it is over, or NULL. */
struct cushim_mem_stream_block *cushim_mem_stream_cache_take(struct cushim_mem_stream_cache *cache,
                                                             size_t bucket_bytes, uint32_t life);

/* How many blocks of a bucket there are just now. */
size_t cushim_mem_stream_cache_count(struct cushim_mem_stream_cache *cache, size_t bucket_bytes);

/* The idle block that was freed first, if that was at `last_epoch` at the latest and it is over (or
 * whatever it is, if any will do); NULL: none. */
struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_earliest(struct cushim_mem_stream_cache *cache, uint64_t last_epoch,
                                     bool must_be_over);

/* The smallest block from `bucket_bytes` to `most_bytes`, and of its size the oldest: for a caller
 * that knows the cache at `life` any block, else (or 0) one that is over.  NULL: none. */
struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_fitting(struct cushim_mem_stream_cache *cache, size_t bucket_bytes,
                                    size_t most_bytes, uint32_t life);

/* Bytes of idle blocks that share segments with others. */
size_t cushim_mem_stream_cache_small_bytes(struct cushim_mem_stream_cache *cache);

/* All of those that are over, as a list by `older`. */
struct cushim_mem_stream_block *
cushim_mem_stream_cache_pop_small(struct cushim_mem_stream_cache *cache);

/* The cache is empty from here on, and no stream's; its blocks are the caller's business. */
void cushim_mem_stream_cache_forget(struct cushim_mem_stream_cache *cache);

/* ---- without a lock: driver calls ---- */

enum cushim_mem_effort {
    CUSHIM_MEM_ASK,    /* the stream fences there are */
    CUSHIM_MEM_RECORD, /* and make one for the open batch */
    CUSHIM_MEM_WAIT    /* and wait for them */
};

/**
 * See what is over.
 * @return CUSHIM_OK | what the driver said to a wait, or to a fence that was to be waited for |
 *         CUSHIM_CAPTURE (a capture forbids the fence)
 * If another thread has the role, ASK and RECORD do nothing; WAIT waits for it.
 */
enum cushim_status cushim_mem_stream_cache_prove(struct cushim_mem_stream_cache *cache,
                                                 enum cushim_mem_effort effort);

/**
 * Let a stream wait for what the cache freed, by the device.
 * @param epoch  of the block in question
 * @return CUSHIM_OK | CUSHIM_NOTFOUND (there is no fence for it) | what the driver said
 */
enum cushim_status cushim_mem_stream_cache_order(struct cushim_mem_stream_cache *cache,
                                                 uint64_t epoch,
                                                 const struct cushim_mem_stream_cache *after);

/* A wait for the stream is over that closed the epoch `begun` before: what was freed up to then is
 * over, if the cache is the stream's still that it was at `life`. */
void cushim_mem_stream_cache_waited(struct cushim_mem_stream_cache *cache, uint32_t life,
                                    uint64_t begun);

#endif
