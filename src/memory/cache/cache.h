/*
 * A thread cache: one thread's own free blocks of one heap, and its counters.
 *
 * Each size class has a deque of blocks, the oldest first.  A block has the epoch in which it was
 * freed, or 0 if all work on it is over.  A block in a cache is off the free lists, so it pins its
 * slab.
 *
 * The caches of a heap have a common limit of bytes.  Busy caches share it evenly, but each may
 * have at least a refill of every small class, however many they are.  A cache is busy from its
 * first request until it was not used for a while.  Then it is emptied, and has no share until its
 * next use.
 *
 * Lock: `lock` (base/futex.h).  The owner tries to take it at each use, and uses the heap's lock if
 * it fails.  Another thread that empties the cache waits for it.  Order of locks: the registry of
 * caches, the cache's, the heap's.  No driver call is made under any of them.
 *
 * Caches are type-stable: they are never unmapped, and another thread gets one when its thread
 * ends.  If a heap is abandoned, the cache stays with its thread, empty, for the thread's next
 * heap.
 */
#pragma once

#include <utlist.h>

#include "base/futex.h"
#include "memory/state/deferred.h"
#include "memory/layout/block.h"
#include "memory/stats.h"

enum {
    CUSHIM_MEM_CACHE_SLOTS = 1023,            /* blocks in all, whatever their size */
    CUSHIM_MEM_CACHE_DEPTH = 64,              /* of one class */
    CUSHIM_MEM_CACHE_CLASS_BYTES = 2 << 20,   /* of one class; two blocks in any case */
    CUSHIM_MEM_CACHE_BYTES = 4 << 20,         /* of all */
    CUSHIM_MEM_CACHE_BATCH_DEPTH = 256,       /* DEPTH if blocks wait for fences */
    CUSHIM_MEM_CACHE_PUBLISH_BYTES = 1 << 20, /* the thread's count of live bytes is published when
                                               * it has changed by this much */
    CUSHIM_MEM_CACHE_ROW_BYTES = 4096
};

/* A place for a block. */
struct cushim_mem_slot {
    struct cushim_mem_slot *older, *younger;
    struct cushim_mem_block_meta *meta;
    uint64_t address;
    uint64_t tag;
};

/* The blocks of a class, the oldest first, by <utlist.h>.  Tags never fall from old to young. */
struct cushim_mem_cache_bucket {
    struct cushim_mem_slot *oldest;
    uint16_t n;
    uint16_t most;        /* 0: not used yet */
    uint32_t block_bytes; /* valid once it is */
};

struct cushim_mem_cache {
    _Alignas(64) struct cushim_futex_lock lock;
    _Atomic(struct cushim_mem_heap *) heap; /* NULL: bound to none */
    atomic_uint_fast64_t life;              /* the heap's generation; 0 if it is bound to none */
    size_t cached_bytes, limit_bytes;
    bool is_cut;           /* the limit is less than a cache may have, or not known yet */
    uint64_t refreshed_ns; /* when the limit was set */
    struct cushim_mem_unfenced unfenced;
    uint32_t n_fresh;    /* slots that were ever used */
    unsigned hand;       /* the class that gives up blocks next when the cache is full */
    atomic_bool is_busy; /* has a share of the common limit */
    /* these change under the registry's lock */
    uint64_t n_uses, seen_ns; /* hits and frees at the last look, and the time of the look that
                               * found them changed */
    _Atomic(struct cushim_mem_stats *) stats; /* the counts go here; NULL: they are all zero */
    struct cushim_mem_cache *next_of_heap, *previous_of_heap;
    struct cushim_mem_cache *next_of_thread; /* or among the spares */
    struct cushim_mem_cache *next_of_all;    /* constant */
    bool is_orphan;                          /* its thread ended, and it still has blocks */
    /* these, like those above, change while the cache is taken */
    struct cushim_mem_slot *spare; /* used slots without a block, a list by `older` */
    struct cushim_mem_cache_bucket buckets[CUSHIM_MEM_MOST_CLASSES];
    struct cushim_mem_slot slots[CUSHIM_MEM_CACHE_SLOTS];
    /* A page that may lie in a file.  If root cuts the file, all of it is zero at once
     * (base/cut_file.h), so only counters are there, and a copy of `stats` for readers.  They are
     * at its end, because a store 4 KiB before the lock would delay loads of the lock. */
    _Alignas(CUSHIM_MEM_CACHE_ROW_BYTES) struct cushim_mem_cache_row {
        char before[CUSHIM_MEM_CACHE_ROW_BYTES - sizeof(struct cushim_mem_counts) - sizeof(void *)];
        struct cushim_mem_counts counts;
        _Atomic(struct cushim_mem_stats *) stats;
    } row;
};

/* The cache that the calling thread used last; at first, and in its end, one that has no heap. */
extern _Thread_local struct cushim_mem_cache *cushim_mem_cache_recent
    __attribute__((tls_model("initial-exec")));

/* The calling thread's cache of a heap, which is bound now if there was none.  NULL: host memory is
 * out, the thread is ending, or `life` is over. */
struct cushim_mem_cache *cushim_mem_cache_find(struct cushim_mem_heap *heap, uint64_t life);

static inline void cushim_mem_cache_leave(struct cushim_mem_cache *cache) {
    cushim_futex_lock_leave(&cache->lock);
}

static inline bool cushim_mem_cache_is_of(const struct cushim_mem_cache *cache,
                                          const struct cushim_mem_heap *heap, uint64_t life) {
    return load_relaxed(&cache->heap) == heap && load_relaxed(&cache->life) == life;
}

/* Take a cache of the calling thread that had this life at the last look. */
static inline bool cushim_mem_cache_take_again(struct cushim_mem_cache *cache, uint64_t life) {
    if (!cushim_futex_lock_take(&cache->lock))
        return false;
    if (load_relaxed(&cache->life) == life)
        return true;
    cushim_mem_cache_leave(cache); /* the context went meanwhile */
    return false;
}

/* Take a cache of the calling thread, if it is that of the heap. */
static inline bool cushim_mem_cache_take_of(struct cushim_mem_cache *cache,
                                            const struct cushim_mem_heap *heap, uint64_t life) {
    return load_relaxed(&cache->heap) == heap && cushim_mem_cache_take_again(cache, life);
}

/*
 * Take the calling thread's cache of a heap, until cushim_mem_cache_leave; meanwhile no driver call
 * and no wait.  NULL: there is none, or another thread empties it; then use the heap's lock.
 */
static inline struct cushim_mem_cache *cushim_mem_cache_take(struct cushim_mem_heap *heap,
                                                             uint64_t life) {
    struct cushim_mem_cache *cache = cushim_mem_cache_recent;
    if (!cushim_mem_cache_is_of(cache, heap, life))
        cache = cushim_mem_cache_find(heap, life);
    return cache && cushim_mem_cache_take_again(cache, life) ? cache : NULL;
}

/* Take a block out of its bucket.  The slot is valid until the next push. */
static inline struct cushim_mem_slot *
cushim_mem_cache_unlink(struct cushim_mem_cache *cache, struct cushim_mem_cache_bucket *bucket,
                        struct cushim_mem_slot *slot) {
    DL_DELETE2(bucket->oldest, slot, older, younger);
    bucket->n--;
    cache->cached_bytes -= bucket->block_bytes;
    slot->older = cache->spare;
    cache->spare = slot;
    return slot;
}

/* Take a block of a class whose work is over: the youngest if its work is over, else the oldest.
 * NULL: neither is over. */
static inline struct cushim_mem_slot *cushim_mem_cache_pop(struct cushim_mem_cache *cache,
                                                           unsigned class_index, uint64_t done) {
    struct cushim_mem_cache_bucket *bucket = &cache->buckets[class_index];
    struct cushim_mem_slot *oldest = bucket->oldest;
    if (!oldest)
        return NULL;
    if (oldest->older->tag <= done) /* the youngest, because `older` leads from the oldest to it */
        return cushim_mem_cache_unlink(cache, bucket, oldest->older);
    return oldest->tag <= done ? cushim_mem_cache_unlink(cache, bucket, oldest) : NULL;
}

static inline bool cushim_mem_cache_has_room(const struct cushim_mem_cache *cache,
                                             const struct cushim_mem_cache_bucket *bucket) {
    return bucket->n < bucket->most &&
           cache->cached_bytes + bucket->block_bytes <= cache->limit_bytes &&
           (cache->spare || cache->n_fresh < CUSHIM_MEM_CACHE_SLOTS);
}

/* Fill a slot with a block of a slab and count it; it is on no list yet.  There must be room. */
static inline struct cushim_mem_slot *cushim_mem_cache_fill(struct cushim_mem_cache *cache,
                                                            struct cushim_mem_cache_bucket *bucket,
                                                            struct cushim_mem_block_meta *meta,
                                                            uint64_t address, uint64_t tag) {
    struct cushim_mem_slot *slot = cache->spare;
    if (slot)
        cache->spare = slot->older;
    else
        slot = &cache->slots[cache->n_fresh++];
    slot->meta = meta;
    slot->address = address;
    slot->tag = tag;
    bucket->n++;
    cache->cached_bytes += bucket->block_bytes;
    return slot;
}

/* Put a block of a slab in as the youngest of its class.  There must be room. */
static inline void cushim_mem_cache_put(struct cushim_mem_cache *cache,
                                        struct cushim_mem_cache_bucket *bucket,
                                        struct cushim_mem_block_meta *meta, uint64_t address,
                                        uint64_t tag) {
    struct cushim_mem_slot *slot = cushim_mem_cache_fill(cache, bucket, meta, address, tag);
    DL_APPEND2(bucket->oldest, slot, older, younger);
}

/*
 * Make room for a block of a class.  Half of the class goes to the free lists under one lock, or
 * blocks of any class if bytes are short.  Blocks that may not be reused yet are deferred there.
 * False: no room could be made.  The cache is taken.
 */
bool cushim_mem_cache_make_room(struct cushim_mem_cache *cache, unsigned class_index,
                                uint64_t done);

/* The deferred limit has begun anew: blocks of epochs that are done go to the free lists.  The
 * caller holds the heap's lock, and the cache is taken. */
void cushim_mem_cache_give_done(struct cushim_mem_cache *cache, uint64_t done);

/* Compute the limit again, because memory of the device or the number of threads may have changed;
 * if the cache has its full limit, only now and then.  The cache is taken. */
void cushim_mem_cache_refresh_limit(struct cushim_mem_cache *cache);

/* Fetch a few more free blocks of a class from the bucket of the free lists that just served it, if
 * there are some.  The caller holds the heap's lock, and the cache is taken. */
void cushim_mem_cache_refill(struct cushim_mem_cache *cache, unsigned class_index);

/* All threads' cached blocks of a heap go to the free lists.  The caller holds no lock.  Returns
 * their bytes. */
size_t cushim_mem_cache_drain_all(struct cushim_mem_heap *heap);

/* The context is gone.  Caches of the heap forget their blocks, hand in their counts, and are bound
 * to no heap.  The heap's generation has changed already; the caller holds no lock. */
void cushim_mem_cache_forget_all(struct cushim_mem_heap *heap);

/* The recent peaks begin anew, at what is live and held now.  Takes the lock of each cache. */
void cushim_mem_cache_restart_peak(struct cushim_mem_stats *stats);

/* Called for each cache that was mapped, before anything is in it, with the registry's lock held.
 * It may put other zero pages beneath.  It is set before the first cache is made, or NULL. */
extern void (*cushim_mem_cache_made)(struct cushim_mem_cache *cache);

/* In a forked child: threads that end leave the caches alone, because a lock may never be
 * released. */
void cushim_mem_cache_leave_to_parent(void);

/* ---- counters ---- */

/* Add to the shared gauge what is not in it yet, and raise its peak. */
void cushim_mem_cache_publish(struct cushim_mem_cache *cache);

/* The store is a release, so that a reader which sees the count of a free then sees that of its
 * request (cushim_mem_cache_sum). */
static inline void cushim_mem_cache_bump(atomic_uint_fast64_t *counter, uint64_t n) {
    store_release(counter, load_relaxed(counter) + n);
}

/* A block is handed out: a hit without a driver call, or a miss.  The bytes that the program asked
 * for are published when the shared gauge is far off. */
static inline void cushim_mem_cache_count_obtain(struct cushim_mem_cache *cache, size_t asked_bytes,
                                                 size_t block_bytes, bool is_hit) {
    struct cushim_mem_counts *counts = &cache->row.counts;
    uint64_t now_bytes = load_relaxed(&counts->unpublished_bytes) + asked_bytes;
    if (!is_hit) { /* it made a driver call, so count it in the shared counters */
        struct cushim_mem_stats *stats = load_relaxed(&cache->stats);
        cushim_mem_stats_add(&stats->n_requests, 1);
        cushim_mem_stats_add(&stats->n_misses, 1);
    }
    cushim_mem_cache_bump(&counts->n_hits, is_hit);
    cushim_mem_cache_bump(&counts->obtained_bytes, asked_bytes);
    cushim_mem_cache_bump(&counts->block_bytes, block_bytes);
    store_relaxed(&counts->unpublished_bytes, now_bytes);
    if ((int64_t)now_bytes > (int64_t)load_relaxed(&counts->most_bytes)) {
        store_relaxed(&counts->most_bytes, now_bytes);
        if ((int64_t)now_bytes > CUSHIM_MEM_CACHE_PUBLISH_BYTES)
            cushim_mem_cache_publish(cache);
    }
}

static inline void cushim_mem_cache_count_free(struct cushim_mem_cache *cache, size_t asked_bytes,
                                               size_t block_bytes) {
    struct cushim_mem_counts *counts = &cache->row.counts;
    uint64_t now_bytes = load_relaxed(&counts->unpublished_bytes) - asked_bytes;
    cushim_mem_cache_bump(&counts->n_frees, 1);
    cushim_mem_cache_bump(&counts->block_bytes, -block_bytes);
    store_relaxed(&counts->unpublished_bytes, now_bytes);
    if ((int64_t)now_bytes < -CUSHIM_MEM_CACHE_PUBLISH_BYTES)
        cushim_mem_cache_publish(cache);
}

/* All counters of `stats`, with those of its caches, for reports.  There are never more frees than
 * requests, even while other threads go on. */
void cushim_mem_cache_sum(const struct cushim_mem_stats *stats, struct cushim_mem_stats *sum);
