/*
 * The parts of a pool, for the pool's own files (pool*.c).
 *
 *   pool    a handle's object: options, heaps, the captures it is attached to
 *   heap    what a pool has in one context of one kind: a heap of the allocator, a table of blocks,
 *           the caches
 *   cache   what one stream freed in a heap: buckets of idle blocks, newest first, and its fences
 *   block   one block while it is out of the allocator's free lists: live, idle in a cache, or held
 *           by a graph
 *
 * Time is that of a context (stream_fence.h): a block remembers the epoch that it was freed at.
 * Before a fence is recorded on a cache's stream its epoch is closed, and so is the cache's open
 * batch; once the fence is complete, what was freed up to that epoch is over, as it is after a
 * wait that began then.
 *
 * Locks, in this order, none held over a callback or a driver call that may wait: pool, heap,
 * cache, the allocator's.  A cache's fences belong to whoever has its `role`, which is taken before
 * its lock and held over driver calls; who has another lock only tries to take it.  Heaps, caches
 * and blocks are type-stable: nobody frees them, so that a look-up of the ledger may meet them
 * late.
 */
#ifndef CUSHIM_COMPANION_POOL_INTERNAL_H
#define CUSHIM_COMPANION_POOL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/futex.h"
#include "memory/layout/block.h"
#include "memory/policy.h"
#include "memory/provider/provider.h"
#include "memory/stats.h"
#include "memory/fence/stream_fence.h"
#include "companion/pool/pool.h"
#include "companion/pool/pool_buckets.h"

enum {
    CUSHIM_POOL_N_KINDS = 3,
    CUSHIM_MEM_STREAM_BATCH_BLOCKS = 64, /* a cache records a fence after so many frees, */
    CUSHIM_MEM_STREAM_BATCH_BYTES = 64 << 20,
    CUSHIM_MEM_STREAM_FENCES = 32,    /* fences of a cache that are not complete */
    CUSHIM_MEM_STREAM_LOG2_CHUNK = 9, /* blocks of a table's chunk */
    CUSHIM_MEM_STREAM_N_CHUNKS = 1 << 14
};

struct cushim_pool_heap;
struct cushim_mem_stream_cache;

/* A ring: who is put in or taken out has two neighbours, and no end to look for. */
struct cushim_mem_stream_age {
    struct cushim_mem_stream_age *later, *earlier;
};

/*
 * Two lines of its own, and all that a hit and a free write is here: the cells of four small blocks
 * share a line, which streams of several threads would pass to and fro.  A cell stays LIVE until
 * the block is back in the free lists.
 */
struct cushim_mem_stream_block {
    /* set when it comes out of the free lists, constant until it goes back; 0: it is a spare */
    _Alignas(64) atomic_uint_fast64_t address;
    _Atomic uint32_t state;    /* enum cushim_mem_state: LIVE, else DEFERRED */
    atomic_uint n_holds;       /* captures and graphs that keep it; written under the heap's lock */
    atomic_size_t asked_bytes; /* while it is LIVE */
    size_t bucket_bytes;       /* as the address */
    /* the cache's lock */
    struct cushim_mem_stream_block *newer,
        *older;                              /* in a bucket; older: among the spares, heap's lock */
    struct cushim_mem_stream_age age;        /* idle in the cache, by when they were freed */
    uint64_t epoch;                          /* that it was freed at */
    struct cushim_mem_stream_bucket *bucket; /* that it is idle in */
    /* of its first use while live, where it is idle, or whose stream freed it while it is kept */
    _Atomic(struct cushim_mem_stream_cache *) cache;
    struct cushim_pool_heap *heap;  /* constant for good, as is the index */
    struct cushim_mem_blockref ref; /* as the address */
    uint32_t index;                 /* in the table */
    /* The heap's lock: of its cache when it was freed while held, so that who lets go last takes it
     * back; 0: it was not. */
    uint32_t deferred_life;
    bool is_poisoned; /* of whoever has the block (pool_check.c) */
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
 * Who found the block by its address did so without a lock.  Blocks are type-stable, but between
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

/* A fence on its way, and the epoch up to which it covers what was freed. */
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

/* What a stream argument names. */
struct cushim_mem_stream {
    struct cushim_context_object *context; /* of the stream */
    CUstream handle;                       /* NULL: legacy; or CUSHIM_MEM_STREAM_ALL */
    const void *thread; /* whose own default stream it is, CU_STREAM_PER_THREAD; else NULL */
};

/* All streams of a context. */
#define CUSHIM_MEM_STREAM_ALL ((CUstream)CUSHIM_STREAM_ALL)

/* What a hit and a free touch stands first, in three lines. */
struct cushim_mem_stream_cache {
    _Alignas(128) struct cushim_futex_lock lock; /* most caches are one thread's */
    /* Odd: a stream's.  Rises, under the lock, where the stream or its pool goes: who comes late
     * sees that it is theirs no more; read without the lock, too. */
    atomic_uint life;
    bool is_ordered; /* its blocks serve its own stream at once */
    struct cushim_mem_stream_bucket
        *recent;         /* of buckets: the last that a hit or a free was of, or NULL */
    size_t recent_asked; /* a request of so many bytes is `recent`'s, in order; 0: unknown */
    struct cushim_mem_stream of; /* its context is kept; constant while in use */
    uint64_t closed_epoch;       /* later frees are of the open batch */
    struct cushim_mem_stream_counts counts;
    atomic_size_t idle_bytes;       /* read unlocked too */
    size_t least_idle_bytes;        /* since cushim_mem_stream_cache_fallen */
    size_t open_blocks, open_bytes; /* idle blocks of the open batch */
    uint64_t done_epoch;            /* what was freed up to it is over, */
    uint64_t covered_epoch;         /* or has a fence; of the role */
    struct cushim_mem_stream_buckets buckets;
    /* all idle blocks: `later` is the earliest, `earlier` the latest; epochs never rise between */
    struct cushim_mem_stream_age ages;
    struct cushim_futex_lock role; /* who has it records and asks, and has the fences */
    struct cushim_mem_stream_batch fences[CUSHIM_MEM_STREAM_FENCES];
    unsigned first_fence;
    atomic_uint n_fences;                 /* read without the role, too */
    struct cushim_pool_heap *heap;        /* constant for good */
    struct cushim_mem_stream_cache *next; /* of the heap: rises at the head only */
};

struct cushim_mem_stream_table {
    _Atomic(struct cushim_mem_stream_block *) chunks[CUSHIM_MEM_STREAM_N_CHUNKS];
    uint32_t n_blocks; /* ever made, */
    uint32_t n_used;   /* and of those out of the free lists */
    struct cushim_mem_stream_block *spare;
};

struct cushim_pool_heap {
    /* the allocator's, which stands behind this one: few are compiled anew when that changes */
    struct cushim_mem_heap *core;
    struct cushim_mem_stats core_stats;
    struct cushim_mem_policy core_policy;
    pthread_mutex_t lock; /* the table, the list of caches, who owns it */
    _Atomic(struct cushim_pool_object *)
        pool; /* written under the lock; NULL: the pool is gone, or the heap is closed */
    struct cushim_context_object *context; /* kept; constant while in use */
    enum cushim_mem_kind kind;
    atomic_bool is_lost; /* the context died, or the last block went with the pool: one thread
                            forgets all that is in it; set under the lock */
    bool is_forgotten;   /* and is done; under the lock */
    _Atomic(struct cushim_mem_stream_cache *) caches;
    /* constant while in use: the cache of ALL, and of the pool what its caches need */
    struct cushim_mem_stream_cache *all;
    struct cushim_pool_options options;
    bool is_free_long; /* a cap or the check: no free takes the fast path */
    struct cushim_mem_stream_table table;
    size_t n_turns; /* the lock: which cache that is gone is asked after next */
    /* the lock: the most that was live in the running second and in the one before */
    size_t peak_bytes[2];
    uint64_t peak_since_ns;
    atomic_size_t graph_blocks, graph_bytes;
    _Atomic(struct cushim_pool_heap *) next; /* of the pool */
    struct cushim_pool_heap *next_of_all;    /* constant: every heap ever made */
    atomic_bool is_used;
};

/* A capture that the pool is attached to, and what it got: a graph's from its end on. */
struct cushim_pool_graph {
    struct cushim_context_object *context; /* of the stream; kept until the end */
    CUstream stream;
    enum cushim_graph_memory memory;
    const void *thread;                 /* that began it */
    struct cushim_pool_graph_row *rows; /* the latest first */
    size_t bytes;                       /* of the blocks among them */
    struct cushim_pool_graph *next;
};

struct cushim_pool_object {
    struct cushim_object object;
    struct cushim_context_object *context; /* of opts.ctx; kept; NULL: primary ones */
    struct cushim_pool_options options;    /* constant; copied into heaps */
    atomic_bool is_holding;                /* freed blocks are kept */
    atomic_bool has_lost; /* a context of its died: addresses it does not know may be from there */
    bool is_checked;      /* CUSHIM_CHECK; constant */
    atomic_size_t live_bytes; /* only where there is a cap */
    atomic_uint_fast64_t n_refused, n_evicted, n_waits, n_reclaim_steps, n_damaged;
    _Atomic(struct cushim_pool_heap *) heaps;
    atomic_int n_freezes;
    pthread_mutex_t lock; /* the rest, and making of heaps */
    struct cushim_pool_graph *freezes;
    cushim_pool_oom_fn *on_oom;
    void *oom_cookie;
};

/*
 * The bucket of a request in a heap: what the pool rounds to, and of device memory above 1 MiB
 * whole pages of the driver, since each such block has its own; it serves what rounds to the same.
 */
static inline size_t cushim_pool_heap_bucket(const struct cushim_pool_heap *heap, size_t bytes) {
    size_t n_bytes = cushim_pool_round(&heap->options, bytes);
    return n_bytes > CUSHIM_MEM_SLAB_LIMIT_BYTES && heap->kind == CUSHIM_MEM_DEVICE
               ? cushim_rounded(n_bytes, CUSHIM_MEM_NATIVE_PAGE_BYTES)
               : n_bytes;
}

/* How many idle blocks of a bucket a heap keeps, over all its caches. */
static inline size_t cushim_pool_heap_most(const struct cushim_pool_heap *heap,
                                           size_t bucket_bytes) {
    return cushim_most(heap->options.cap_bucket_bytes / bucket_bytes,
                       heap->options.cap_bucket_blocks);
}

/* The next of all caches that a heap has, `cache` NULL: the first; no lock. */
static inline struct cushim_mem_stream_cache *
cushim_mem_streams_next(const struct cushim_pool_heap *heap,
                        struct cushim_mem_stream_cache *cache) {
    return cache ? cache->next : atomic_load_explicit(&heap->caches, memory_order_acquire);
}

/* The same of a pool's heaps. */
static inline struct cushim_pool_heap *cushim_pool_next_heap(struct cushim_pool_object *pool,
                                                             struct cushim_pool_heap *heap) {
    return atomic_load_explicit(heap ? &heap->next : &pool->heaps, memory_order_acquire);
}

/* Keep a pool unless it is being finished or is none (NULL); the heap's lock keeps heap->pool. */
static inline struct cushim_pool_object *cushim_pool_keep_alive(struct cushim_pool_object *pool) {
    unsigned n = pool ? atomic_load(&pool->object.n_references) : 0;
    while (n && !atomic_compare_exchange_weak(&pool->object.n_references, &n, n + 1)) {
    }
    return n ? pool : NULL;
}

/* ---- caches ---- */

/* With its lock: is it the stream's still that it was at `life`? */
static inline bool cushim_mem_stream_cache_is_of(const struct cushim_mem_stream_cache *cache,
                                                 uint32_t life) {
    return atomic_load_explicit(&cache->life, memory_order_relaxed) == life;
}

/* Its stream went: never ordered again; without its lock, too. */
static inline bool cushim_mem_stream_cache_is_gone(const struct cushim_mem_stream_cache *cache) {
    return !(atomic_load_explicit(&cache->life, memory_order_acquire) & 1);
}

/*
 * ---- pool_heap.c ----
 *
 * Blocks come out of the free lists of the heap's allocator into the table, and go back when they
 * are idle and over: past its caches and fences, and what goes back to the driver is the pool's to
 * say.  While the pool has a block, `user` in its metadata is its index in the table.  One
 * page map serves all heaps of the process.  A heap whose pool is gone stays until its last live or
 * held block is freed; then, and at once where its context died, it may be another pool's.
 */

extern struct cushim_mem_blocks cushim_pool_blocks;

/**
 * The heap of a device and kind, made at need.
 * @param dev  ordinal or -1
 * @return CUSHIM_OK | BADDEVICE | DEADCONTEXT | NOMEM | the driver's; the text is set
 */
enum cushim_status cushim_pool_heap_find(struct cushim_pool_object *pool, const char *what, int dev,
                                         enum cushim_memory_kind kind,
                                         struct cushim_pool_heap **out);

/* The next heap of all that are in use, `heap` NULL: the first; no lock. */
struct cushim_pool_heap *cushim_pool_heap_next(struct cushim_pool_heap *heap);

enum cushim_mem_stream_from {
    CUSHIM_MEM_STREAM_CUT,  /* the free lists, and there what is cut already, up to 1 MiB */
    CUSHIM_MEM_STREAM_FREE, /* all of them */
    CUSHIM_MEM_STREAM_NEW   /* a new segment */
};

/**
 * Take a block.
 * @param block  LIVE, and on no cache
 * @return CUSHIM_OK | CUSHIM_NOTFOUND (none is free) | CUSHIM_NOMEM (host memory is out, or that of
 * the driver) | CUSHIM_STATE (the heap is closed) | another status of the driver
 * Threads  any; NEW: the heap's context is current
 * Stream   no driver call; NEW: valid while any thread captures
 */
enum cushim_status cushim_pool_heap_take(struct cushim_pool_heap *heap, size_t bucket_bytes,
                                         enum cushim_mem_stream_from from,
                                         struct cushim_mem_stream_block **block);

/* The block that a pool holds and that covers an address, in whatever heap and state; NULL: none.
 * No lock: it may go back meanwhile, unless it is the caller's own. */
struct cushim_mem_stream_block *cushim_pool_block(uint64_t address);

/* The block with an index below table.n_blocks, in use or not. */
struct cushim_mem_stream_block *cushim_mem_streams_at(struct cushim_pool_heap *heap,
                                                      uint32_t index);

/* A block that is being freed is held: true, and it comes back when its last holder is gone, behind
 * the work of `cache`, which had that life. */
bool cushim_mem_stream_block_defer(struct cushim_mem_stream_block *block,
                                   struct cushim_mem_stream_cache *cache, uint32_t life);

/* Which life of its allocator a heap is in.  Each context that it serves is another one. */
uint64_t cushim_pool_heap_life(const struct cushim_pool_heap *heap);

/*
 * A block that is idle, over, and on no cache goes back to the free lists; the last of a heap
 * without a pool closes it.  Nothing happens if `life` is over, because the block was forgotten
 * then.  The caller read that life before it took the block, and has kept the pool since, or took
 * the block under the heap's lock.
 */
void cushim_pool_heap_give(struct cushim_pool_heap *heap, struct cushim_mem_stream_block *block,
                           uint64_t life);

/* Forget all whose context died, without a driver call: their addresses may be handed out again
 * from now on. */
void cushim_pool_heap_lose_dead(void);

/* The pool is being finished. */
void cushim_pool_heap_close(struct cushim_pool_heap *heap, const char *what);

/* Where the segments of each kind come from. */
extern const struct cushim_mem_provider *const cushim_pool_providers[CUSHIM_POOL_N_KINDS];

#endif
