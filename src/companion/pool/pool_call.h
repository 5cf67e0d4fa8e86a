/*
 * One call on a pool, and what the pool's files offer each other for it.  The parts of a pool are
 * in pool_internal.h.
 */
#pragma once

#include "companion/capture/known_captures.h"
#include "companion/core/handle_pin.h"
#include "companion/pool/pool_internal.h"

/* A public call, whose pool is pinned.  All after `pool` is for allocations and frees only. */
struct cushim_pool_call {
    const char *what;
    struct cushim_pin pin;
    struct cushim_pool_object *pool;
    int dev;
    size_t bytes;
    struct cushim_pool_heap *heap;
    struct cushim_mem_stream_cache *cache; /* of the stream, */
    uint32_t life;                         /* in this of its lives */
    struct cushim_mem_stream_block *block; /* that serves, or is freed */
    uint64_t address;                      /* of a free, else 0 */
    /* of an allocation */
    size_t bucket_bytes;
    cushim_devptr node; /* address of a node's memory, if that serves; else 0 */
    bool is_captured;   /* work on the stream would be captured */
    bool is_miss;       /* asked the driver for memory */
    bool may_wait;      /* in reclaim: no capture forbids a wait */
    char steps[64];     /* names of the steps that reclaim took */
};

/* Pin the pool, or set the text of the error. */
enum cushim_status cushim_pool_begin(struct cushim_pool_call *call, const char *what,
                                     struct cushim_pool *p);

static inline void cushim_pool_end(struct cushim_pool_call *call) {
    cushim_unpin(&call->pin);
}

/* A call that ends with its block, if it began: CUSHIM_POOL_CALL call = {0}; */
#define CUSHIM_POOL_CALL __attribute__((cleanup(cushim_pool_end))) struct cushim_pool_call

/* Begin a public call that ends with its block: declare `call`, or return the status of a failure.
 */
#define CUSHIM_ENTER_POOL(p)                                                                       \
    CUSHIM_POOL_CALL call = {0};                                                                   \
    CUSHIM_TRY(cushim_pool_begin(&call, __func__, (p)))

/* Resolve a stream argument.  In a free, a stream that was destroyed counts as ALL.  The pin is
 * empty before; the caller releases it. */
enum cushim_status cushim_pool_stream_of(const struct cushim_pool_call *call,
                                         struct cushim_stream *s, struct cushim_mem_stream *stream,
                                         struct cushim_pin *pin);

/*
 * What a thread remembers for a pool and stream: the cache, which is the stream's as long as the
 * life is the same, and whether the fast path may use it.
 */
struct cushim_pool_remembered {
    _Alignas(64) const void *pool;         /* handle; no other pool gets it later */
    const void *stream;                    /* handle, as above */
    struct cushim_mem_stream_cache *cache; /* type-stable, like its heap */
    uint64_t
        n_changes;    /* the fast path was allowed at this count (cushim_changes); 0: it was not */
    uint32_t life;    /* of the cache */
    uint32_t target;  /* cushim_pool_target */
    bool has_preload; /* the preload is loaded: its captures note no change */
};

/* The device and kind of blocks in one word. */
static inline uint32_t cushim_pool_target(int device, enum cushim_memory_kind kind) {
    return (uint32_t)device << 8 | ((uint32_t)kind & 0xff);
}

enum { CUSHIM_POOL_N_REMEMBERED = 32, CUSHIM_POOL_LOG2_BLOCKS = 6 };

_Static_assert(sizeof(struct cushim_pool_remembered) == 64, "one line");

/* In cache lines of its own, because each hit writes one. */
struct cushim_pool_memory {
    _Alignas(64) struct cushim_pool_remembered rows[CUSHIM_POOL_N_REMEMBERED];
    /* The blocks that the thread got last, by address, because it often frees them too. */
    struct cushim_mem_stream_block *blocks[1 << CUSHIM_POOL_LOG2_BLOCKS];
};

static inline size_t cushim_pool_memory_place(uint64_t address) {
    return cushim_hash(address, CUSHIM_POOL_LOG2_BLOCKS);
}

/*
 * The block that starts at an address: the remembered one if it is there, else that of the page
 * map. NULL: none.
 *
 * A remembered block may be stale: another thread may have freed it, and it may have gone to the
 * free lists or come out at another address since.  Blocks are type-stable, and each tells its own
 * address, which is 0 in the free lists and set last when the block comes out.  No two live blocks
 * have the same address, so an equal address means the same block.  A thread that may free the
 * block got it, with all that was written before, from the thread that allocated it.
 * cushim_mem_stream_block_take checks the rest.
 */
static inline struct cushim_mem_stream_block *
cushim_pool_block_find(const struct cushim_pool_memory *memory, uint64_t address) {
    struct cushim_mem_stream_block *block =
        memory ? memory->blocks[cushim_pool_memory_place(address)] : NULL;
    if (likely(block && cushim_mem_stream_block_address(block) == address))
        return block;
    block = cushim_pool_block(address);
    return block && cushim_mem_stream_block_address(block) == address ? block : NULL;
}

static inline struct cushim_pool_remembered *cushim_pool_row(struct cushim_pool_memory *memory,
                                                             const void *pool_handle,
                                                             const void *stream,
                                                             enum cushim_memory_kind kind) {
    return &memory->rows[((uintptr_t)stream ^ (uintptr_t)pool_handle ^ (uintptr_t)kind) %
                         CUSHIM_POOL_N_REMEMBERED];
}

/* The handle is not NULL, so an empty row matches none. */
static inline bool cushim_pool_row_is_of(const struct cushim_pool_remembered *row,
                                         const void *pool_handle, const void *stream) {
    return row->pool == pool_handle && row->stream == stream;
}

/*
 * May the fast path of a hit or a free use the remembered cache?  It may if nothing has changed
 * since the row was written.  Neither pool nor stream is pinned, because a cache is type-stable,
 * and the destroy of either ends the cache's life under its lock.
 */
ALWAYS_INLINE bool cushim_pool_row_is_fast(const struct cushim_pool_remembered *row,
                                           const void *pool_handle, const void *stream) {
    return cushim_pool_row_is_of(row, pool_handle, stream) &&
           row->n_changes == cushim_changes_now();
}

/* Take the lock of a remembered cache.  False, and the lock is free again, if the cache is no
 * longer the stream's or the preload sees a capture. */
ALWAYS_INLINE bool cushim_pool_row_enter(const struct cushim_pool_remembered *row,
                                         struct cushim_mem_stream_cache *cache) {
    if (unlikely(!cushim_futex_lock_take(&cache->lock)))
        cushim_futex_lock_enter(&cache->lock);
    if (likely(cushim_mem_stream_cache_is_of(cache, row->life)) &&
        (likely(!row->has_preload) || !cushim_capture_count_all(cushim_pool_context_of(cache))))
        return true;
    cushim_futex_lock_leave(&cache->lock);
    return false;
}

/* Find the cache of a stream argument in the heap, with its life, and remember it. */
enum cushim_status cushim_pool_find_cache(struct cushim_pool_call *call, struct cushim_stream *s);

/* ---- pool_alloc.c ---- */

/* Serve from idle blocks or the free lists, without a driver call for memory.  The block is LIVE or
 * DEFERRED, and in no cache.  CUSHIM_NOTFOUND: nothing serves. */
enum cushim_status cushim_pool_serve(struct cushim_pool_call *call);

/* Serve from the driver. */
enum cushim_status cushim_pool_fetch(struct cushim_pool_call *call);

/* ---- pool_reclaim.c ---- */

/* Reclaim, because cushim_pool_fetch found memory out, and serve.  Sets the text on failure. */
enum cushim_status cushim_pool_serve_by_reclaim(struct cushim_pool_call *call);

/* ---- pool_trim.c ---- */

/* After a free: record a fence if the batch is full, and give back what is beyond the caps. */
void cushim_pool_trim_idle(struct cushim_pool_object *pool, struct cushim_mem_stream_cache *cache,
                           size_t bucket_bytes);

/* ---- pool_capture.c ---- */

/* Would work on a cache's stream be captured?  *graph is the list of that capture and stays valid
 * until the capture ends; NULL: the capture is not attached to the pool. */
bool cushim_pool_captured_by(struct cushim_pool_object *pool,
                             const struct cushim_mem_stream_cache *cache,
                             struct cushim_pool_graph **graph);

/* Serve a request in an attached capture by a block or by a node's memory. */
enum cushim_status cushim_pool_capture_alloc(struct cushim_pool_call *call,
                                             struct cushim_pool_graph *graph);

/* Take the block of a call, freed in an attached capture.  It is DEFERRED and in no cache. */
void cushim_pool_capture_free(const struct cushim_pool_call *call, struct cushim_pool_graph *graph);

/* Free a node's memory in an attached capture.  CUSHIM_NOTFOUND: the address is no node's. */
enum cushim_status cushim_pool_capture_free_node(const struct cushim_pool_call *call,
                                                 struct cushim_pool_graph *graph);

/*
 * ---- pool_check.c ----
 *
 * With CUSHIM_CHECK, a free fills the block with a pattern behind the work of its stream, and the
 * next request that gets the block checks the pattern.  A difference was written after the free. It
 * is logged as an error once, and counted (cushim_pool_stats.damaged).  No call answers
 * differently.
 *
 * The thread that has the block owns `is_poisoned`.  While a capture is known in the context, no
 * block is filled.  A block that goes to the free lists is not checked.
 */

enum { CUSHIM_POOL_POISON = 0xDD };

/* Fill a block in a free, before it goes to the cache.  The host waits for the context if the free
 * names all streams. */
void cushim_pool_check_poison(const char *what, struct cushim_mem_stream_cache *cache,
                              struct cushim_mem_stream_block *block);

/* Check the pattern of the block that is about to serve a request.  Waits for the stream.  Does
 * nothing if the request is captured. */
void cushim_pool_check_look(struct cushim_pool_call *call);
