/*
 * The fields of a heap, for the files of the allocator and for the fast paths, which read them
 * inline.  Other files pass a heap by pointer (memory/heap.h), and are not recompiled when a field
 * changes.
 *
 * Lock: `lock` guards all fields after it.  No driver call that can block is made under it.
 */
#pragma once

#include "memory/state/watermark.h"
#include "memory/fence/fence.h"
#include "memory/layout/block.h"
#include "memory/layout/chunk.h"
#include "memory/state/deferred.h"
#include "memory/policy.h"
#include "memory/provider/fill.h"
#include "memory/provider/provider.h"

enum {
    CUSHIM_MEM_HEAP_SLACK_BYTES = 32 << 20,    /* may be held beyond what is used, however much that
                                                * is */
    CUSHIM_MEM_HEAP_DEFERRED_BYTES = 64 << 20, /* at least this much may be deferred before a malloc
                                                * waits */
    CUSHIM_MEM_HEAP_PATIENCE_NS = 1000000000   /* how long a malloc waits */
};

struct cushim_mem_heap {
    /* set by open, constant until abandon */
    struct cushim_cuda *cuda;
    CUcontext context;
    int device;
    struct cushim_mem_blocks *blocks;
    const struct cushim_mem_policy *policy;
    struct cushim_mem_stats *stats;
    enum cushim_mem_kind kind;
    unsigned flags;     /* of the kind, as the program gave them to the driver */
    size_t guard_bytes; /* on either side of each block: 0 or CUSHIM_MEM_GUARD_BYTES */
    struct cushim_mem_filler filler;
    const struct cushim_mem_provider *provider;
    struct cushim_mem_fence *fence; /* own_fence, or one of the heap's host */
    size_t quick_bytes; /* largest request that the fast path may serve; 0 if an observer must see
                           every request */
    enum cushim_mem_free_entry quick_entry; /* the free functions for which the fast path may
                                             * serve */
    atomic_bool has_slack;                  /* more is held than is used; written under the lock */
    atomic_uint_fast64_t quick_life;        /* as generation; 0 if closed or damaged */
    atomic_uint_fast64_t generation;        /* odd: open */
    atomic_int damage;                      /* CUresult; not 0: the context is broken, so nothing is
                                             * served */
    _Atomic(struct cushim_mem_held *) unheld; /* without the lock; blocks that nothing holds any
                                               * more */
    const struct cushim_mem_stats *neighbour; /* NULL, or of another kind: idle in the same sum */
    struct cushim_mem_streams *owner; /* never changes: the stream caches that hand its blocks out
                                       * and write their word `user`; NULL: thread caches do */

    char behind[64]; /* because every call reads the cache lines of fences */
    struct cushim_mem_fence own_fence;

    char apart[64]; /* because the lock's cache line moves between threads, and every call reads the
                     * fields above */
    pthread_mutex_t lock;
    struct cushim_mem_meta meta;
    struct cushim_mem_extents extents;
    struct cushim_mem_bucket buckets[CUSHIM_MEM_MOST_CLASSES]; /* 16 KiB; only used parts are
                                                                * touched */
    struct cushim_mem_segment *segments;
    struct cushim_mem_extents idle; /* dedicated segments that are free */
    struct cushim_mem_watermark watermark;
    struct cushim_mem_deferred deferred;
    struct cushim_mem_arena arena; /* its chunks are taken and given without the lock */
    uint64_t limit_tag; /* since this epoch the deferred limit widens; may be before the first */
    int n_early; /* fences made for fewer blocks than may wait, since memory was fetched for more */
    struct cushim_mem_cache *caches; /* under the registry's lock; one that was looked at moves to
                                      * the end */
    atomic_uint n_caches;
    unsigned n_busy; /* under the lock: caches that have a share */
    atomic_size_t
        live_bytes; /* of blocks off the free lists, as cut: LIVE, DEFERRED or in a cache */
    atomic_size_t held_bytes; /* of segments; both written under the lock */
    size_t cached_bytes;      /* of live_bytes, idle in stream caches when the heap last looked */
    atomic_size_t free_segment_bytes; /* of segments that are wholly free, idle ones included */
    size_t recent_peak_bytes[2]; /* of what is used, in the running second and in the one before */
    atomic_uint_fast64_t recent_since_ns; /* written under the lock */
    uint64_t drained_ns;                  /* when caches were last emptied to give memory back */
    uint64_t quiet_asked_ns; /* when a relaxed free last asked whether the device is idle */
};

static inline bool cushim_mem_heap_is_open(const struct cushim_mem_heap *heap) {
    return load_acquire(&heap->generation) & 1;
}

/* The heap's life; 0 if it is closed, or its context damaged.  No cache that has a heap has life
 * 0. */
static inline uint64_t cushim_mem_heap_life(const struct cushim_mem_heap *heap) {
    return load_acquire(&heap->quick_life);
}

/* Did graphs let go of blocks that were not taken back yet? */
static inline bool cushim_mem_heap_has_unheld(const struct cushim_mem_heap *heap) {
    return load_relaxed(&heap->unheld) != NULL;
}

/*
 * Do blocks above 1 MiB share segments?  Not in device memory, because a live block would pin its
 * whole segment, while without cushim it holds only its own pages.  With guards they do, because
 * each block would be a page larger.
 */
static inline bool cushim_mem_heap_packs(const struct cushim_mem_heap *heap) {
    return heap->kind != CUSHIM_MEM_DEVICE || heap->guard_bytes;
}

/* Does its memory lie on the host, in place of the device? */
static inline bool cushim_mem_heap_is_spilled(const struct cushim_mem_heap *heap) {
    return heap->provider == &cushim_mem_provider_spill;
}

/* Is a small block plain: without guards, and not of an arena? */
static inline bool cushim_mem_heap_is_plain(const struct cushim_mem_heap *heap) {
    return !heap->guard_bytes && !heap->policy->arena_bytes;
}

/* From now on these bytes are live, or held; or (negative) no longer.  Fields that each free reads
 * are written only if they change.  The caller holds the lock. */
static inline void cushim_mem_heap_count(struct cushim_mem_heap *heap, ptrdiff_t live_bytes,
                                         ptrdiff_t held_bytes) {
    size_t now_live = heap->live_bytes + (size_t)live_bytes;
    size_t now_held = heap->held_bytes + (size_t)held_bytes;
    bool has_slack = now_held > now_live + now_live / 16 + CUSHIM_MEM_HEAP_SLACK_BYTES;
    store_relaxed(&heap->live_bytes, now_live);
    store_relaxed(&heap->held_bytes, now_held);
    if (has_slack != load_relaxed(&heap->has_slack))
        store_relaxed(&heap->has_slack, has_slack);
}

/* A free that took no lock has not changed what is held.  But time has passed, so the heap may hold
 * more than it may, and then some of it must go. */
static inline bool cushim_mem_heap_is_stale(const struct cushim_mem_heap *heap) {
    const uint64_t recent_ns = 1000000000;
    return load_relaxed(&heap->has_slack) &&
           cushim_clock_coarse_ns() - load_relaxed(&heap->recent_since_ns) >= recent_ns;
}

/* Take the lock, unless the context, and everything with it, went after `life` was read. */
static inline bool cushim_mem_heap_lock_life(struct cushim_mem_heap *heap, uint64_t life) {
    pthread_mutex_lock(&heap->lock);
    if (load_relaxed(&heap->generation) == life)
        return true;
    pthread_mutex_unlock(&heap->lock);
    return false;
}
