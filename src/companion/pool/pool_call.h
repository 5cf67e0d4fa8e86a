/*
 * One call of a pool on its way, and what the files of the pool offer each other on that way
 * (parts: pool_internal.h).
 */
#ifndef CUSHIM_COMPANION_POOL_CALL_H
#define CUSHIM_COMPANION_POOL_CALL_H

#include "companion/capture/known_captures.h"
#include "companion/core/changes.h"
#include "companion/core/handle_pin.h"
#include "companion/pool/pool_internal.h"

/* The public call: its pool is pinned.  The rest is of an allocation or a free. */
struct cushim_pool_call {
    const char *what;
    struct cushim_pin pin;
    struct cushim_pool_object *pool;
    int dev;
    size_t bytes;
    struct cushim_pool_heap *heap;
    struct cushim_mem_stream_cache *cache; /* of the stream, */
    uint32_t life;                         /* and which of its lives that is */
    struct cushim_mem_stream_block *block; /* what serves, or is freed */
    uint64_t address;                      /* of a free, else 0 */
    /* of an allocation */
    size_t bucket_bytes;
    cushim_devptr node; /* what serves is a node's memory in a capture; else 0 */
    bool is_captured;   /* the work will be part of a capture */
    bool is_miss;       /* the driver was asked for memory */
    bool may_wait;      /* in reclaim: no capture forbids it */
    char steps[64];     /* of reclaim: their names, as they were taken */
};

/* Pin the pool, or say why not. */
enum cushim_status cushim_pool_begin(struct cushim_pool_call *call, const char *what,
                                     struct cushim_pool *p);

static inline enum cushim_status cushim_pool_end(struct cushim_pool_call *call,
                                                 enum cushim_status status) {
    cushim_unpin(&call->pin);
    return status;
}

/* What a stream argument names: in a free, one that was destroyed is ALL.  The pin is the caller's
 * to let go, after a failure too. */
enum cushim_status cushim_pool_stream_of(const struct cushim_pool_call *call,
                                         struct cushim_stream *s, struct cushim_mem_stream *stream,
                                         struct cushim_pin *pin);

/*
 * What a thread remembers of a stream of a pool: its cache, which is its own as long as the life is
 * the same, and whether the fast path may serve it.
 */
struct cushim_pool_remembered {
    _Alignas(64) const void *pool;         /* a handle, which is never used again, */
    const void *stream;                    /* and so is this */
    struct cushim_mem_stream_cache *cache; /* type-stable, as its heap */
    uint64_t n_changes; /* nothing stood against the fast path at these (changes.h); 0: something */
    uint32_t life;      /* of the cache */
    uint32_t target;    /* cushim_pool_target */
    bool has_preload;   /* whose captures note no change */
};

/* Of which device and kind blocks are, in one word. */
static inline uint32_t cushim_pool_target(int device, enum cushim_memory_kind kind) {
    return (uint32_t)device << 8 | ((uint32_t)kind & 0xff);
}

enum { CUSHIM_POOL_N_REMEMBERED = 32, CUSHIM_POOL_LOG2_BLOCKS = 6 };

_Static_assert(sizeof(struct cushim_pool_remembered) == 64, "one line");

/* Lines of its own: every hit writes one. */
struct cushim_pool_memory {
    _Alignas(64) struct cushim_pool_remembered rows[CUSHIM_POOL_N_REMEMBERED];
    /* Blocks that the thread got last, by their address; it may well be the one to free them. */
    struct cushim_mem_stream_block *blocks[1 << CUSHIM_POOL_LOG2_BLOCKS];
};

static inline size_t cushim_pool_memory_place(uint64_t address) {
    return cushim_hash(address, CUSHIM_POOL_LOG2_BLOCKS);
}

/*
 * The block that a pool holds at an address, which is its first: the one remembered, if it is
 * there, else by the ledger.  NULL: none.
 *
 * What is remembered may be stale: another thread freed the block, and it has gone to the free
 * lists or come out at another address since.  It is type-stable, and says itself where it is: its
 * address is 0 in the free lists, set last when it comes off.  A live block's address is no other
 * block's, so equal means the same; and a thread that may free it got it, with all that was written
 * before, from the thread that it was handed out to.  The rest is cushim_mem_stream_block_take's to
 * see.
 */
static inline struct cushim_mem_stream_block *
cushim_pool_block_find(const struct cushim_pool_memory *memory, uint64_t address) {
    struct cushim_mem_stream_block *block =
        memory ? memory->blocks[cushim_pool_memory_place(address)] : NULL;
    if (__builtin_expect(block && cushim_mem_stream_block_address(block) == address, 1))
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

/* For a handle that is not NULL: an empty row is nobody's. */
static inline bool cushim_pool_row_is_of(const struct cushim_pool_remembered *row,
                                         const void *pool_handle, const void *stream) {
    return row->pool == pool_handle && row->stream == stream;
}

/*
 * The fast path of a hit and a free: may the cache that is remembered be used as it is?  Nothing
 * stands against it, as far as one number says.  Neither pool nor stream is pinned: a cache is
 * type-stable, and whichever of them goes ends its life under its lock.
 */
static inline __attribute__((always_inline)) bool
cushim_pool_row_is_fast(const struct cushim_pool_remembered *row, const void *pool_handle,
                        const void *stream) {
    return cushim_pool_row_is_of(row, pool_handle, stream) &&
           row->n_changes == cushim_changes_now();
}

/* Take the lock of a cache that is remembered; false, and left again: it is the stream's no more,
 * or the preload sees a capture. */
static inline __attribute__((always_inline)) bool
cushim_pool_row_enter(const struct cushim_pool_remembered *row,
                      struct cushim_mem_stream_cache *cache) {
    if (__builtin_expect(!cushim_futex_lock_take(&cache->lock), 0))
        cushim_futex_lock_enter(&cache->lock);
    if (__builtin_expect(cushim_mem_stream_cache_is_of(cache, row->life), 1) &&
        (__builtin_expect(!row->has_preload, 1) ||
         !cushim_capture_count_all(cushim_pool_context_of(cache))))
        return true;
    cushim_futex_lock_leave(&cache->lock);
    return false;
}

/* The cache of a stream argument in the heap, and its life; and remember it. */
enum cushim_status cushim_pool_find_cache(struct cushim_pool_call *call, struct cushim_stream *s);

/* ---- pool_alloc.c ---- */

/* From what is idle, or free in the free lists, without a driver call for memory; the block is LIVE
 * or DEFERRED, and on no cache.  CUSHIM_NOTFOUND: nothing serves. */
enum cushim_status cushim_pool_serve(struct cushim_pool_call *call);

/* From the driver. */
enum cushim_status cushim_pool_fetch(struct cushim_pool_call *call);

/* ---- pool_reclaim.c ---- */

/* Fetch said that memory is out: reclaim.  The text is set if it could not help. */
enum cushim_status cushim_pool_serve_by_reclaim(struct cushim_pool_call *call);

/* ---- pool_trim.c ---- */

/* After a free: batches, caps, and whether blocks are kept at all. */
void cushim_pool_trim_idle(struct cushim_pool_object *pool, struct cushim_mem_stream_cache *cache,
                           size_t bucket_bytes);

/* ---- pool_capture.c ---- */

/* Would work for a cache be part of a capture?  *graph: of that, good until it ends; NULL: the pool
 * is not attached to it. */
bool cushim_pool_captured_by(struct cushim_pool_object *pool,
                             const struct cushim_mem_stream_cache *cache,
                             struct cushim_pool_graph **graph);

/* Serve a request of an attached capture: a block, or a node's memory. */
enum cushim_status cushim_pool_capture_alloc(struct cushim_pool_call *call,
                                             struct cushim_pool_graph *graph);

/* Take the block of a call that was freed in an attached capture: DEFERRED, on no cache. */
void cushim_pool_capture_free(const struct cushim_pool_call *call, struct cushim_pool_graph *graph);

/* A node's memory, freed in an attached capture.  CUSHIM_NOTFOUND: it is none. */
enum cushim_status cushim_pool_capture_free_node(const struct cushim_pool_call *call,
                                                 struct cushim_pool_graph *graph);

/*
 * ---- pool_check.c ----
 *
 * With CUSHIM_CHECK: a freed block is filled with a pattern behind the work of its stream, and
 * looked at when it is handed out again.  What differs was written after the free: it is told of
 * once, as an error of the log, and counted (cushim_pool_stats.damaged).  No answer of a call
 * changes.
 *
 * `is_poisoned` belongs to the thread that has the block.  While a capture is known in the context
 * nothing is filled; a block that leaves for the free lists is not looked at.
 */

enum { CUSHIM_POOL_POISON = 0xDD };

/* In a free of a block that nobody else has, before it goes to the cache.  The host waits for the
 * context if the free names all streams. */
void cushim_pool_check_poison(const char *what, struct cushim_mem_stream_cache *cache,
                              struct cushim_mem_stream_block *block);

/* In a request, with the block that is about to serve it: waits for its stream, unless that is
 * captured. */
void cushim_pool_check_look(struct cushim_pool_call *call);

#endif
