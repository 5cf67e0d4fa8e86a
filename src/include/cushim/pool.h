/*
 * Pools: blocks of device, managed or pinned memory that are kept when they are freed, and handed
 * out again without a driver call.
 *
 * A free names the stream of the block's last use, an allocation that of its first.  A block freed
 * on a stream serves that stream at once.  Others get it when the work before the free was seen to
 * be over.  A block freed with CUSHIM_STREAM_ALL, or with a stream that was destroyed, waits for
 * all work of its context.  Managed and pinned blocks serve no stream before that, because the host
 * may write at once.
 *
 * Blocks are cached by context, kind and bucket (a rounded size) and lie in segments that they
 * share.  Every free is checked: an address that is not this pool's, or that was freed before, is
 * refused.  Device blocks above 1 MiB have whole pages of the driver, 2 MiB each, and serve sizes
 * that round to the same.
 *
 * Idle memory is bounded: a sixteenth of the most that was live in the last second or two, and 32
 * MiB; and no more than the driver has free.  keep_bytes may be idle in any case.  While an eighth
 * of the device is free, a larger block serves rather than one that would exceed this bound: live
 * blocks may be too large by half of what is live, and by a 64th of the device.  If there is no
 * room for a block above 1 MiB on each of several streams that take turns, they pass one on by a
 * fence: then raise keep_bytes.
 */
#ifndef CUSHIM_POOL_H
#define CUSHIM_POOL_H

#include <sys/types.h>

#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every block begins at a multiple of this, for every kind, size and policy. The driver places the
 * memory of a graph's nodes (CUSHIM_GRAPH_MEMORY_NODES) at a multiple of at least 256 bytes. */
enum { CUSHIM_POOL_ALIGN_BYTES = 512 };

/* How a size is rounded to a bucket. */
enum cushim_pool_policy {
    CUSHIM_POOL_POLICY_FINE =
        0, /* steps of 512 up to 4096, then `steps` for each doubling, above 128 KiB at the largest
              sizes that share 2 MiB; above 1 MiB 64 KiB */
    CUSHIM_POOL_POLICY_POW2 = 1, /* unchanged up to 256, then the next power of two */
    CUSHIM_POOL_POLICY_EXACT = 2 /* unchanged */
};

struct cushim_pool_options {
    size_t struct_size;
    struct cushim_context *ctx;     /* NULL: the primary contexts of all devices */
    enum cushim_pool_policy policy; /* default CUSHIM_BUCKETS, else FINE */
    int steps;                      /* of FINE: 8 (default) or 16 for each doubling */
    int dedicated;            /* 1: blocks of 2 MiB and more are driver allocations of their own */
    unsigned poll_us;         /* how long a request for ALL polls fences in flight; default 50 */
    size_t cap_bucket_blocks; /* most idle blocks of a bucket (default 64) */
    size_t cap_bucket_bytes;  /* or most idle bytes (default 64 MiB), whichever is more */
    size_t cap_cached_bytes;  /* idle blocks of all buckets together; 0: no cap (default) */
    size_t cap_live_bytes; /* live blocks together; default CUSHIM_LIMIT; 0: no cap.  A share means
                              the calling thread's device, here and for keep_bytes */
    size_t keep_bytes;     /* may be idle in any case; default CUSHIM_KEEP, else 32 MiB */
};

struct cushim_pool_stats {
    size_t struct_size;
    uint64_t hits;          /* served without a driver allocation */
    uint64_t misses;        /* served with one, or not at all */
    uint64_t frees;         /* valid ones */
    uint64_t refused;       /* frees of a wrong address, size or device */
    uint64_t evicted;       /* idle blocks that a cap, a trim or memory pressure took */
    uint64_t waits;         /* times that the host waited for the device */
    uint64_t reclaim_steps; /* steps of reclaim because memory was out */
    /* gauges: blocks, and their bytes as buckets */
    uint64_t cached_blocks, cached_bytes;   /* freed and idle */
    uint64_t pending_blocks, pending_bytes; /* of these: their last work may still run */
    uint64_t live_blocks, live_bytes;
    uint64_t graph_blocks, graph_bytes; /* kept by captures and graphs */
    uint64_t asked_bytes;               /* of live blocks, as asked */
    uint64_t held_bytes;                /* got from the driver */
    uint64_t peak_bytes;                /* the largest held_bytes so far */
    uint64_t damaged;         /* blocks written after their free; counted only with CUSHIM_CHECK */
    uint64_t peak_live_bytes; /* the largest live_bytes so far; 0 if not cushim_pool_process */
    uint64_t out_of_memory;   /* requests that failed because memory was out */
};

/* What cushim_pool_walk shows of a block. */
enum cushim_pool_state {
    CUSHIM_POOL_STATE_LIVE = 0,
    CUSHIM_POOL_STATE_IDLE = 1,     /* freed, and its last work is known to be over */
    CUSHIM_POOL_STATE_DEFERRED = 2, /* freed, and its last work may still run */
    CUSHIM_POOL_STATE_GRAPH = 3     /* kept by a capture or a graph */
};

struct cushim_pool_view {
    cushim_devptr ptr;
    size_t asked_bytes; /* when it was allocated last */
    size_t block_bytes; /* its bucket */
    int device;
    enum cushim_memory_kind kind;
    enum cushim_pool_state state;
    struct CUstream_st *stream; /* of its first use if LIVE, of its last if not; NULL: legacy; 2, 3:
                                   the thread's, ALL */
};

/* Called for each block; anything but 0 ends the walk. */
typedef int cushim_pool_walk_fn(const struct cushim_pool_view *block, void *cookie);

/* Called when memory is out: free something and return 1 to try again, else 0. */
typedef int cushim_pool_oom_fn(size_t bytes, void *cookie);

/**
 * Fill in the defaults.
 * @param options  out; NULL is ignored
 * Threads  any
 */
CUSHIM_API void cushim_pool_options_default(struct cushim_pool_options *options);

/**
 * Create a pool.
 * @param options  NULL: the defaults
 * @param p        out
 * @return CUSHIM_OK | INVALID (a number out of range) | BADHANDLE (ctx) | DEADCONTEXT | NOCUDA |
 *         NOMEM | ABI
 * Threads  any
 * Stream   none; nothing is allocated yet
 * Owner    caller: cushim_pool_destroy
 */
CUSHIM_API enum cushim_status cushim_pool_create(const struct cushim_pool_options *options,
                                                 struct cushim_pool **p);

/**
 * Destroy a pool. Its idle blocks go back. Live ones become plain memory, for cushim_memory_free or
 * cushim_host_free. Graphs keep theirs.
 * @param p  NULL: nothing
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any; waits for calls that use the pool
 * Stream   waits for pending blocks, but not while a capture is known
 */
CUSHIM_API enum cushim_status cushim_pool_destroy(struct cushim_pool *p);

/**
 * Allocate a block.
 * @param dev    ordinal; -1: the calling thread's, or that of the pool's context
 * @param kind   DEVICE, MANAGED or PINNED
 * @param bytes  0: address 0, and nothing is counted
 * @param s      stream of the first use; NULL: legacy; CUSHIM_STREAM_PER_THREAD; CUSHIM_STREAM_ALL:
 *               any
 * @param ptr    out; a host address for PINNED; 0 after a failure
 * @return CUSHIM_OK | INVALID | BADDEVICE | BADHANDLE | DEADCONTEXT | LIMIT (cap_live_bytes) |
 *         NOMEM (reclaim could not help) | NOTSUPPORTED (no managed memory) | CAPTURE (the stream
 *         is frozen with REFUSE, and the cache cannot serve) | the driver's
 * Errors   NOMEM: the text has what was requested, free and total, what pools hold, and the steps
 *          of reclaim
 * Threads  any
 * Stream   a hit makes no driver call that can block; a miss allocates. If too much is idle, the
 *          call gives some back first, and waits as cuMemFree does if that is more than an eighth
 *          of what is held. Otherwise it waits only if memory is out, and never in a capture.
 *          Another stream's block serves once its work was seen to be over. Before it records a
 *          fence for such a block, the pool uses memory it holds (up to 1 MiB), then asks the
 *          driver while idle memory stays within keep_bytes
 * Owner    caller: cushim_pool_free
 */
CUSHIM_API enum cushim_status cushim_pool_alloc(struct cushim_pool *p, int dev,
                                                enum cushim_memory_kind kind, size_t bytes,
                                                struct cushim_stream *s, cushim_devptr *ptr);

/**
 * Free a block.
 * @param dev    its device; -1: not checked
 * @param ptr    as cushim_pool_alloc gave it; 0: nothing
 * @param bytes  a size of the same bucket; 0: not checked
 * @param s      stream of the last use; later work of it must not use the block. CUSHIM_STREAM_ALL:
 *               all work that may use it was submitted before. A stream that was destroyed: as ALL
 * @return CUSHIM_OK (also if its context is gone) | UNKNOWNPTR | DOUBLEFREE | BADDEVICE | INVALID
 *         (bytes of another bucket) | STATE (memory of a graph's node) | BADHANDLE (the pool, or a
 *         value that never was a stream): refused, and nothing changed
 * Threads  any
 * Stream   no wait; perhaps an event on `s`; over a cap, or if too much is idle, memory may go
 *          back, which may wait as cuMemFree does
 */
CUSHIM_API enum cushim_status cushim_pool_free(struct cushim_pool *p, int dev, cushim_devptr ptr,
                                               size_t bytes, struct cushim_stream *s);

/* --- in short: one stream, on its own device */

/**
 * Allocate device memory for a stream, on the device of the stream.
 * @param bytes  0: address 0, and nothing is counted
 * @param s      stream of the first use; for the default streams and CUSHIM_STREAM_ALL the device
 *               is the calling thread's, or that of the pool's context
 * @param ptr    out; 0 after a failure
 * @return as cushim_pool_alloc
 * Errors   the text names cushim_pool_alloc
 * Threads  any
 * Stream   as cushim_pool_alloc
 * Owner    caller: cushim_pool_free_on, cushim_pool_free
 */
CUSHIM_API enum cushim_status cushim_pool_alloc_on(struct cushim_pool *p, size_t bytes,
                                                   struct cushim_stream *s, cushim_devptr *ptr);

/**
 * Free a block behind its last use on a stream; device and size are not checked.
 * @param ptr  0: nothing
 * @param s    as in cushim_pool_free
 * @return as cushim_pool_free
 * Errors   the text names cushim_pool_free
 * Threads  any
 * Stream   as cushim_pool_free
 */
CUSHIM_API enum cushim_status cushim_pool_free_on(struct cushim_pool *p, cushim_devptr ptr,
                                                  struct cushim_stream *s);

/**
 * Allocate memory that the host addresses.
 * @param kind   MANAGED or PINNED
 * @param bytes  0: NULL, and nothing is counted
 * @param s      stream of the first use; the device as in cushim_pool_alloc_on
 * @param ptr    out; its address is the device's, too; NULL after a failure
 * @return as cushim_pool_alloc; INVALID also for another kind
 * Threads  any
 * Stream   as cushim_pool_alloc
 * Owner    caller: cushim_pool_free_host, cushim_pool_free
 */
CUSHIM_API enum cushim_status cushim_pool_alloc_host(struct cushim_pool *p,
                                                     enum cushim_memory_kind kind, size_t bytes,
                                                     struct cushim_stream *s, void **ptr);

/**
 * Free memory that the host addresses.
 * @param ptr  NULL: nothing
 * @param s    stream of the last use in the device, as in cushim_pool_free; the host is done with
 *             it
 * @return as cushim_pool_free
 * Threads  any
 * Stream   as cushim_pool_free
 */
CUSHIM_API enum cushim_status cushim_pool_free_host(struct cushim_pool *p, void *ptr,
                                                    struct cushim_stream *s);

/* --- the rest */

/**
 * Round a size to its bucket.
 * @param block_bytes  out; 0 for 0
 * @return CUSHIM_OK | INVALID | BADHANDLE
 * Threads  any; no driver call
 */
CUSHIM_API enum cushim_status cushim_pool_bucket(struct cushim_pool *p, size_t bytes,
                                                 size_t *block_bytes);

/**
 * Give all idle memory of all devices and kinds back to the driver.
 * @return CUSHIM_OK | BADHANDLE | the first error; the rest was given back all the same
 * Threads  any
 * Stream   waits for pending blocks; while a capture is known it waits for nothing, and only
 *          finished blocks go back
 */
CUSHIM_API enum cushim_status cushim_pool_drain(struct cushim_pool *p);

/**
 * Give idle memory back, the oldest first, until at most keep_bytes of it are cached.
 * @param dev  ordinal; -1: all
 * @return CUSHIM_OK | BADDEVICE | BADHANDLE
 * Threads  any
 * Stream   only finished blocks go back; waits for no event
 */
CUSHIM_API enum cushim_status cushim_pool_trim(struct cushim_pool *p, int dev, size_t keep_bytes);

/**
 * Keep freed blocks for the next request (1, as from the start), or give them back (0: drains now,
 * and at each free from then on).
 * @param on  0 or 1
 * @return CUSHIM_OK | BADHANDLE | as cushim_pool_drain
 * Threads  any
 * Stream   0: as cushim_pool_drain
 */
CUSHIM_API enum cushim_status cushim_pool_freeze_idle(struct cushim_pool *p, int on);

/**
 * Attach the pool to a capture that is begun elsewhere, before it begins.
 * @param s       the stream that will capture; not the legacy stream
 * @param memory  what it does for allocations of the capture
 * @return CUSHIM_OK | INVALID | BADHANDLE | STATE (frozen for this stream already) | NOMEM
 * Threads  any; requests for CUSHIM_STREAM_ALL of the calling thread belong to the capture
 * Stream   an event on `s`
 */
CUSHIM_API enum cushim_status cushim_pool_freeze(struct cushim_pool *p, struct cushim_stream *s,
                                                 enum cushim_graph_memory memory);

/**
 * Detach the pool from a capture that has ended.
 * @param g  out: holds the memory of the capture; the caller destroys it after the last launch is
 *           over. NULL: the memory goes back at once
 * @return CUSHIM_OK | STATE (not frozen for this stream) | INVALID | BADHANDLE | NOTSUPPORTED |
 *         NOMEM
 * Threads  any
 * Stream   none
 * Owner    caller owns *g
 */
CUSHIM_API enum cushim_status cushim_pool_unfreeze(struct cushim_pool *p, struct cushim_stream *s,
                                                   struct cushim_graph **g);

/**
 * Count the captures that the pool is attached to.
 * @param n  out
 * @return CUSHIM_OK | INVALID | BADHANDLE
 * Threads  any; no driver call
 */
CUSHIM_API enum cushim_status cushim_pool_frozen(struct cushim_pool *p, int *n);

/**
 * Read counters and gauges.
 * @param dev    ordinal; -1: all
 * @param kind   DEVICE, MANAGED, PINNED; CUSHIM_MEMORY_ALL
 * @param stats  struct_size set by the caller; overwritten
 * @return CUSHIM_OK | INVALID | BADDEVICE | BADHANDLE | ABI
 * Threads  any; exact while no other thread uses the pool
 * Stream   asks events, waits for none
 */
CUSHIM_API enum cushim_status cushim_pool_stats(struct cushim_pool *p, int dev,
                                                enum cushim_memory_kind kind,
                                                struct cushim_pool_stats *stats);

/**
 * Set the counters to 0, and begin the peaks again from what is held and live now.
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_pool_stats_reset(struct cushim_pool *p);

/**
 * Check whether an address is a live block of this pool.
 * @param yes  out; 0 for an address inside a block
 * @return CUSHIM_OK | INVALID | BADHANDLE
 * Threads  any; no driver call
 */
CUSHIM_API enum cushim_status cushim_pool_owns(struct cushim_pool *p, cushim_devptr ptr, int *yes);

/**
 * Show each block.
 * @param fn      called with no lock held, for the blocks that there were when the walk began
 * @param cookie  passed on
 * @return CUSHIM_OK | INVALID | NOMEM | BADHANDLE
 * Threads  any; fn may use the pool
 */
CUSHIM_API enum cushim_status cushim_pool_walk(struct cushim_pool *p, cushim_pool_walk_fn *fn,
                                               void *cookie);

/**
 * Set the function that is called last when memory is out.
 * @param fn  called with no lock held; NULL: none
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_pool_on_oom(struct cushim_pool *p, cushim_pool_oom_fn *fn,
                                                 void *cookie);

/**
 * Set and get the default pool of the process. The library itself never uses it.
 * @param p  NULL: none; setting takes no ownership, destroying the pool clears it
 * @return CUSHIM_OK | BADHANDLE | INVALID
 * Threads  any; atomic
 */
CUSHIM_API enum cushim_status cushim_pool_set_default(struct cushim_pool *p);
CUSHIM_API enum cushim_status cushim_pool_default(struct cushim_pool **p);

/* --- a pool of the process, for frameworks that take an allocator as two functions --- */

/**
 * Get the pool of the functions below, for its statistics and for requests in the order of other
 * streams. Do not destroy it.
 * @param p  out; the first call of any of these functions makes it
 * @return CUSHIM_OK | INVALID | NOMEM
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_pool_process(struct cushim_pool **p);

/**
 * Allocate device memory. PyTorch's CUDAPluggableAllocator can call this directly. The first call
 * makes the pool, on the primary contexts of the devices; it is never destroyed.
 * @param bytes   0: NULL
 * @param device  ordinal
 * @param stream  ignored: the memory serves all streams
 * @return the address | NULL: cushim_last_error has the error
 * Threads  any
 * Stream   as cushim_pool_alloc with CUSHIM_STREAM_ALL; not in a capture
 * Owner    caller: cushim_pool_process_free
 */
CUSHIM_API void *cushim_pool_process_alloc(ssize_t bytes, int device, struct CUstream_st *stream);

/**
 * Free what cushim_pool_process_alloc gave.
 * @param ptr     NULL: nothing; an address that is not this allocator's is refused, and nothing
 *                changes
 * @param bytes   ignored
 * @param device  as it was allocated
 * @param stream  ignored: the memory waits until all work that was submitted before is over
 * Errors   cushim_last_error
 * Threads  any
 * Stream   as cushim_pool_free
 */
CUSHIM_API void cushim_pool_process_free(void *ptr, ssize_t bytes, int device,
                                         struct CUstream_st *stream);

/**
 * Allocate as cushim_pool_process_alloc does, in stream order for the legacy default stream: memory
 * that cushim_pool_process_free_ordered freed for it serves it again at once. For other streams the
 * two functions are the same.
 * @param bytes, device  as cushim_pool_process_alloc
 * @param stream         NULL: the legacy default stream, on which the memory is used; on others
 *                       only as cushim_pool_process_record_stream says
 * @return the address | NULL: cushim_last_error has the error
 * Threads  any
 * Stream   as cushim_pool_alloc with `stream` if it is NULL, else with CUSHIM_STREAM_ALL
 * Owner    caller: cushim_pool_process_free_ordered or cushim_pool_process_free
 */
CUSHIM_API void *cushim_pool_process_alloc_ordered(ssize_t bytes, int device,
                                                   struct CUstream_st *stream);

/**
 * Free memory behind the work of the stream that it was allocated for, and, if it was recorded for
 * another one, behind all work that was submitted before.
 * @param ptr, bytes, device  as cushim_pool_process_free
 * @param stream              as it was allocated
 * Errors   cushim_last_error
 * Threads  any
 * Stream   as cushim_pool_free
 */
CUSHIM_API void cushim_pool_process_free_ordered(void *ptr, ssize_t bytes, int device,
                                                 struct CUstream_st *stream);

/**
 * cushim_pool_process_alloc_ordered and cushim_pool_process_free_ordered for CuPy's
 * CFunctionAllocator, whose param is the stream.
 * Threads  any
 * Stream   as those
 */
CUSHIM_API void *cushim_pool_process_alloc_for(struct CUstream_st *stream, size_t bytes,
                                               int device);
CUSHIM_API void cushim_pool_process_free_for(struct CUstream_st *stream, void *ptr, int device);

/**
 * Say that memory is used on another stream than the one that it was allocated for, which PyTorch's
 * tensor.record_stream() does. Holds until the memory is freed.
 * @param ptr     as cushim_pool_process_alloc_ordered gave it; others are ignored
 * @param stream  ignored: the free waits for all
 * Threads  any, while no other thread frees the memory
 * Stream   no driver call
 */
CUSHIM_API void cushim_pool_process_record_stream(void *ptr, struct CUstream_st *stream);

/**
 * Give all idle memory of this allocator back to the driver. torch.cuda.empty_cache() calls this if
 * cushim.allocators.torch_allocator() made PyTorch's allocator.
 * Errors   cushim_last_error
 * Threads  any
 * Stream   as cushim_pool_drain
 */
CUSHIM_API void cushim_pool_process_trim(void);

#ifdef __cplusplus
}
#endif

#endif
