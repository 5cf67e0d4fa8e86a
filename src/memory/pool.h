/*
 * The pool of a context: blocks of device memory, served from segments and taken back.
 *
 * First form: one lock, no thread caches; frees are exact (docs/design.md section 6).  Requests up
 * to 1 MiB come from the bucket of their class, larger ones from an extent, the largest (limits)
 * are segments of their own, cached when freed.
 *
 * A pool is type-stable: when its context goes it is abandoned and may be opened for another one;
 * nobody frees the struct.  `generation` tells the lives apart.
 *
 * Lock: `lock` guards everything behind it; no driver call that can block is made under it.
 */
#ifndef CUSHIM_MEMORY_POOL_H
#define CUSHIM_MEMORY_POOL_H

#include <pthread.h>

#include "memory/fence.h"
#include "memory/ledger.h"
#include "memory/pending.h"
#include "memory/policy.h"
#include "memory/source.h"
#include "memory/stats.h"

struct cushim_mem_pool {
    /* set by open, constant until abandon */
    struct cushim_cuda *cuda;
    CUcontext context;
    int device;
    struct cushim_mem_ledger *ledger;
    const struct cushim_mem_gate *gate;
    const struct cushim_mem_policy *policy;
    struct cushim_mem_stats *stats;
    enum cushim_mem_kind kind;
    unsigned flags; /* of the kind: as the program gave them to the driver */
    const struct cushim_mem_source *source;
    struct cushim_mem_fence *fence; /* own_fence, or one that the host of the pool handed in */
    struct cushim_mem_fence own_fence;
    atomic_uint_fast64_t generation; /* odd: open */
    atomic_int damage;               /* CUresult; not 0: the context is broken, serve nothing */

    pthread_mutex_t lock;
    struct cushim_mem_meta meta;
    struct cushim_mem_extents extents;
    struct cushim_mem_bucket buckets[CUSHIM_MEM_N_CLASSES];
    struct cushim_mem_segment *segments;
    struct cushim_mem_extent *idle; /* dedicated segments that are free, the youngest first */
    struct cushim_mem_pending pending;
    size_t live_bytes;           /* of blocks as cut, PENDING ones included */
    size_t held_bytes;           /* of segments */
    size_t free_segment_bytes;   /* of segments that are wholly free, idle ones included */
    uint64_t free_serial;        /* counts segments that became wholly free */
    size_t recent_peak_bytes[2]; /* of live_bytes: in the running second, and in the one before */
    uint64_t recent_since_ns;
};

struct cushim_mem_request {
    size_t n_bytes; /* > 0 */
};

struct cushim_mem_block {
    uint64_t address;
    size_t block_bytes;
    bool is_hit; /* no driver call was made */
};

struct cushim_mem_pool_setup {
    struct cushim_cuda *cuda;
    CUcontext context; /* must be current */
    int device;
    struct cushim_mem_ledger *ledger;
    const struct cushim_mem_gate *gate;
    const struct cushim_mem_policy *policy;
    struct cushim_mem_stats *stats; /* of the device and kind; shared by its contexts */
    enum cushim_mem_kind kind;
    unsigned flags; /* 0 for device memory */
    const struct cushim_mem_source *source;
    struct cushim_mem_fence *fence; /* NULL: the pool's own, of its context alone */
};

/* Open a pool that is all zero, or was abandoned. */
void cushim_mem_pool_open(struct cushim_mem_pool *pool, const struct cushim_mem_pool_setup *setup);

/*
 * The context is gone, and its memory with it: forget all blocks and segments, without a driver
 * call. Addresses of this pool are foreign afterwards.
 */
void cushim_mem_pool_abandon(struct cushim_mem_pool *pool);

static inline bool cushim_mem_pool_is_open(const struct cushim_mem_pool *pool) {
    return atomic_load_explicit(&pool->generation, memory_order_acquire) & 1;
}

/**
 * Serve a request.
 * @param block  filled on success; the block is LIVE
 * @return CUSHIM_OK | CUSHIM_NOMEM (the driver, or host memory, is out; what could be given back
 * was) | CUSHIM_STATE (the pool is not open, or its context is damaged) | another status of the
 * driver: in all these cases nothing has changed and the caller may ask the driver itself Threads
 * any      Stream   none; never waits for the device
 */
enum cushim_status cushim_mem_pool_obtain(struct cushim_mem_pool *pool,
                                          const struct cushim_mem_request *request,
                                          struct cushim_mem_block *block);

/* As obtain, but only where that takes no driver call: CUSHIM_NOTFOUND otherwise. */
enum cushim_status cushim_mem_pool_obtain_hit(struct cushim_mem_pool *pool,
                                              const struct cushim_mem_request *request,
                                              struct cushim_mem_block *block);

/**
 * Take a LIVE block back, once all work of the context is over.
 * @param found   from the ledger
 * @param answer  what the driver said where the wait failed, else CUDA_SUCCESS
 * @return CUSHIM_OK | CUSHIM_DOUBLEFREE (another thread freed it first) | the status of `answer`
 * (the block is LIVE as before) Threads  any      Stream   host wait, as cudaFree
 */
enum cushim_status cushim_mem_pool_release(struct cushim_mem_pool *pool,
                                           const struct cushim_mem_found *found, CUresult *answer);

/* As release, in the order of `stream`: returns at once, the block is reused after the work before
 * it. */
enum cushim_status cushim_mem_pool_release_on(struct cushim_mem_pool *pool,
                                              const struct cushim_mem_found *found, CUstream stream,
                                              CUresult *answer);

#endif
