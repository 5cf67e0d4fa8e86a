/*
 * The parts of a pool, for the pool's own files (pool*.c).
 *
 *   pool    the object of a handle: options, heaps, attached captures
 *   heap    the memory of one kind that a pool has in one context: a heap of the engine with stream
 *           caches (memory/cache/stream.h)
 *
 * Locks are taken in this order: pool, streams, cache, the engine's heap.  None is held over a
 * callback or over a driver call that may wait.  Heaps are type-stable: no thread frees them,
 * because a lookup without a lock may still read one.
 */
#pragma once

#include "memory/policy.h"
#include "companion/pool/pool.h"
#include "memory/stream_heap.h"
#include "cushim/pool.h"
#include "memory/provider/provider.h"

enum { CUSHIM_POOL_N_KINDS = 3 };

struct cushim_pool_heap {
    struct cushim_mem_streams
        streams; /* of the engine's heap; the first field, see cushim_pool_heap_of */
    struct cushim_mem_stats stats;
    atomic_uint_fast64_t process_bytes, process_peak_bytes; /* live by the functions of pool_on.c */
    struct cushim_mem_policy policy;
    _Atomic(struct cushim_pool_object *) pool; /* NULL: it is gone; the streams' lock */
    /* constant while in use */
    struct cushim_context_object *context; /* kept by the streams */
    enum cushim_mem_kind kind;
    struct cushim_pool_options options;      /* the pool's */
    _Atomic(struct cushim_pool_heap *) next; /* of this pool */
};

static inline struct cushim_pool_heap *cushim_pool_heap_of(struct cushim_mem_streams *streams) {
    return (struct cushim_pool_heap *)streams;
}

/* The next heap of all pools; `heap` NULL: the first.  Takes no lock. */
static inline struct cushim_pool_heap *cushim_pool_heap_next(struct cushim_pool_heap *heap) {
    return cushim_pool_heap_of(cushim_mem_streams_next_used(heap ? &heap->streams : NULL));
}

/* The context of a cache's stream. */
static inline struct cushim_context_object *
cushim_pool_context_of(const struct cushim_mem_stream_cache *cache) {
    return cushim_context_of_fence(cache->stream.fence);
}

/* A capture that is attached to the pool, and what it got.  A graph owns it from its end on. */
struct cushim_pool_graph {
    struct cushim_context_object *context; /* of the stream; kept until the capture ends */
    CUstream stream;
    enum cushim_graph_memory memory;
    const void *thread;                 /* that began the capture */
    struct cushim_pool_graph_row *rows; /* the newest first */
    size_t bytes;                       /* of the blocks in rows */
    struct cushim_pool_graph *next;
};

struct cushim_pool_object {
    struct cushim_object object;
    struct cushim_context_object *context; /* of opts.ctx, kept; NULL: the primary contexts */
    struct cushim_pool_options options;    /* constant; each heap has a copy */
    atomic_bool is_holding;                /* keeps freed blocks */
    atomic_bool has_lost; /* one of its contexts died, so an unknown address may be from there */
    bool is_checked;      /* CUSHIM_CHECK; constant */
    atomic_size_t live_bytes; /* only if there is a cap */
    atomic_uint_fast64_t n_refused, n_waits, n_reclaim_steps, n_damaged, n_out_of_memory;
    _Atomic(struct cushim_pool_heap *) heaps;
    atomic_int n_freezes;
    pthread_mutex_t lock; /* what follows, and the making of heaps */
    struct cushim_pool_graph *freezes;
    cushim_pool_oom_fn *on_oom;
    void *oom_cookie;
};

/*
 * The bucket of a request: the size to which a pool rounds it, by its policy.
 *
 * FINE wastes at most an eighth, and POW2 at most a half.  Each slot is a multiple of 512 bytes
 * whatever the bucket is, because that is the grain of memory/layout/sizeclass.h.
 */
/* Above 128 KiB, no bucket is so large that fewer of its blocks share a page than without rounding.
 * Two blocks of 704 KiB fit into a page of the driver, but three of 682.5 KiB. */
static inline size_t cushim_pool_round_within_page(size_t bytes, size_t bucket) {
    enum { PAGE_BYTES = CUSHIM_MEM_NATIVE_PAGE_BYTES };
    if (bytes <= PAGE_BYTES / 16)
        return bucket;
    size_t n_blocks = PAGE_BYTES / cushim_rounded(bytes, CUSHIM_MEM_GRAIN_BYTES);
    size_t most_bytes = PAGE_BYTES / n_blocks / CUSHIM_MEM_GRAIN_BYTES * CUSHIM_MEM_GRAIN_BYTES;
    return bucket < most_bytes ? bucket : most_bytes;
}

/* The bucket of 0 to 2^63-1 bytes; 0 for 0. */
static inline size_t cushim_pool_round(const struct cushim_pool_options *options, size_t bytes) {
    if (!bytes || options->policy == CUSHIM_POOL_POLICY_EXACT)
        return bytes;
    if (options->policy == CUSHIM_POOL_POLICY_POW2)
        return bytes <= 256 ? bytes : (size_t)2 << cushim_log2_floor(bytes - 1);
    if (bytes <= CUSHIM_MEM_PAGE_BYTES)
        return cushim_rounded(bytes, CUSHIM_MEM_GRAIN_BYTES);
    if (bytes > CUSHIM_MEM_SLAB_LIMIT_BYTES)
        return cushim_rounded(bytes, CUSHIM_MEM_LARGE_GRAIN_BYTES);
    unsigned log2_steps = options->steps == 16 ? 4 : 3;
    size_t step = (size_t)1 << (cushim_log2_floor(bytes - 1) - log2_steps);
    step = step > CUSHIM_MEM_GRAIN_BYTES ? step : CUSHIM_MEM_GRAIN_BYTES;
    return cushim_pool_round_within_page(bytes, cushim_rounded(bytes, step));
}

/*
 * The bucket of a request in a heap: the size that the pool rounds to.  Device memory above 1 MiB
 * is rounded to whole pages of the driver, because each such block has pages of its own.
 */
static inline size_t cushim_pool_heap_bucket(const struct cushim_pool_heap *heap, size_t bytes) {
    size_t n_bytes = cushim_pool_round(&heap->options, bytes);
    return n_bytes > CUSHIM_MEM_SLAB_LIMIT_BYTES && heap->kind == CUSHIM_MEM_DEVICE
               ? cushim_rounded(n_bytes, CUSHIM_MEM_NATIVE_PAGE_BYTES)
               : n_bytes;
}

/* The next heap of a pool; `heap` NULL: the first.  Takes no lock. */
static inline struct cushim_pool_heap *cushim_pool_next_heap(struct cushim_pool_object *pool,
                                                             struct cushim_pool_heap *heap) {
    return load_acquire(heap ? &heap->next : &pool->heaps);
}

/* Keep a pool unless it is NULL or being finished.  The streams' lock guards heap->pool. */
static inline struct cushim_pool_object *cushim_pool_keep_alive(struct cushim_pool_object *pool) {
    unsigned n = pool ? atomic_load(&pool->object.n_references) : 0;
    while (n && !atomic_compare_exchange_weak(&pool->object.n_references, &n, n + 1)) {
    }
    return n ? pool : NULL;
}

/*
 * ---- pool_heap.c ----
 *
 * One page map serves all heaps of the process.  The pool decides what goes back to the driver.  A
 * heap whose pool is gone stays until its last live or held block is freed, or its context dies.
 * Then another pool may use it.
 */

extern struct cushim_mem_blocks cushim_pool_blocks;

/* The pools' block that covers an address, in any heap and state; NULL: none.  Takes no lock, so
 * the block may go back to the driver meanwhile unless it is the caller's own. */
static inline struct cushim_mem_stream_block *cushim_pool_block(uint64_t address) {
    return cushim_mem_stream_block_find(&cushim_pool_blocks, address);
}

/**
 * Find the heap of a device and kind, or make it.
 * @param dev  ordinal or -1
 * @return CUSHIM_OK | BADDEVICE | DEADCONTEXT | NOMEM | the driver's; sets the text
 */
enum cushim_status cushim_pool_heap_find(struct cushim_pool_object *pool, const char *what, int dev,
                                         enum cushim_memory_kind kind,
                                         struct cushim_pool_heap **out);

/* The provider of the segments of each kind. */
extern const struct cushim_mem_provider *const cushim_pool_providers[CUSHIM_POOL_N_KINDS];
