/*
 * The parts of a pool, for the pool's own files (pool*.c).
 *
 *   pool    a handle's object: options, heaps, the captures it is attached to
 *   heap    what a pool has in one context of one kind: a heap of the engine, with stream caches
 *           (memory/cache/stream.h)
 *
 * Locks, in this order, none held over a callback or a driver call that may wait: pool, streams,
 * cache, the engine's heap.  Heaps are type-stable: nobody frees them, so that a look-up may meet
 * them late.
 */
#ifndef CUSHIM_COMPANION_POOL_INTERNAL_H
#define CUSHIM_COMPANION_POOL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/policy.h"
#include "memory/provider/provider.h"
#include "memory/stats.h"
#include "companion/pool/pool.h"
#include "memory/stream_blocks.h"
#include "memory/stream_heap.h"
#include "memory/cache/stream.h"
#include "companion/pool/pool_round.h"
#include "memory/stream_reclaim.h"

enum { CUSHIM_POOL_N_KINDS = 3 };

struct cushim_pool_heap {
    struct cushim_mem_streams
        streams; /* first; of the engine's heap, which stands behind this one */
    struct cushim_mem_stats stats;
    struct cushim_mem_policy policy;
    _Atomic(struct cushim_pool_object *) pool; /* NULL: it is gone; under the streams' lock */
    /* constant while in use */
    struct cushim_context_object *context; /* kept by the streams */
    enum cushim_mem_kind kind;
    struct cushim_pool_options options;      /* of the pool what its caches need */
    _Atomic(struct cushim_pool_heap *) next; /* of the pool */
};

static inline struct cushim_pool_heap *cushim_pool_heap_of(struct cushim_mem_streams *streams) {
    return (struct cushim_pool_heap *)streams;
}

/* The next heap of all pools, `heap` NULL: the first; no lock. */
static inline struct cushim_pool_heap *cushim_pool_heap_next(struct cushim_pool_heap *heap) {
    return cushim_pool_heap_of(cushim_mem_streams_next_used(heap ? &heap->streams : NULL));
}

/* The context of a cache's stream. */
static inline struct cushim_context_object *
cushim_pool_context_of(const struct cushim_mem_stream_cache *cache) {
    return cushim_context_of_fence(cache->stream.fence);
}

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
    atomic_size_t live_bytes; /* only if there is a cap */
    atomic_uint_fast64_t n_refused, n_waits, n_reclaim_steps, n_damaged;
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

/* The next of a pool's heaps, `heap` NULL: the first; no lock. */
static inline struct cushim_pool_heap *cushim_pool_next_heap(struct cushim_pool_object *pool,
                                                             struct cushim_pool_heap *heap) {
    return atomic_load_explicit(heap ? &heap->next : &pool->heaps, memory_order_acquire);
}

/* Keep a pool unless it is being finished or is none (NULL); the streams' lock keeps heap->pool. */
static inline struct cushim_pool_object *cushim_pool_keep_alive(struct cushim_pool_object *pool) {
    unsigned n = pool ? atomic_load(&pool->object.n_references) : 0;
    while (n && !atomic_compare_exchange_weak(&pool->object.n_references, &n, n + 1)) {
    }
    return n ? pool : NULL;
}

/*
 * ---- pool_heap.c ----
 *
 * One page map serves all heaps of the process.  What goes back to the driver is the pool's to say.
 * A heap whose pool is gone stays until its last live or held block is freed; then, and at once if
 * its context died, it may be another pool's.
 */

extern struct cushim_mem_blocks cushim_pool_blocks;

/* The block that a pool holds and that covers an address, in whatever heap and state; NULL: none.
 * No lock: it may go back meanwhile, unless it is the caller's own. */
static inline struct cushim_mem_stream_block *cushim_pool_block(uint64_t address) {
    return cushim_mem_stream_block_find(&cushim_pool_blocks, address);
}

/**
 * The heap of a device and kind, made at need.
 * @param dev  ordinal or -1
 * @return CUSHIM_OK | BADDEVICE | DEADCONTEXT | NOMEM | the driver's; the text is set
 */
enum cushim_status cushim_pool_heap_find(struct cushim_pool_object *pool, const char *what, int dev,
                                         enum cushim_memory_kind kind,
                                         struct cushim_pool_heap **out);

/* Where the segments of each kind come from. */
extern const struct cushim_mem_provider *const cushim_pool_providers[CUSHIM_POOL_N_KINDS];

#endif
