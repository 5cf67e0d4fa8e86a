#include "memory/cache/cache.h"

#include <string.h>

#include "base/lock.h"
#include "base/thread_end.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"

enum {
    REFILL_BYTES = 64 << 10,
    REFILL_BLOCKS = 16,
    LOOKS = 2, /* at other caches, each time a cache asks for its share */
    REFRESH_NS = 100000000
};

static struct cushim_mem_cache nobodys; /* so that the fast path need not test for NULL */
_Thread_local struct cushim_mem_cache *cushim_mem_cache_recent
    __attribute__((tls_model("initial-exec"))) = &nobodys;

/* The calling thread's caches, and whether the thread is ending, so that it gets no more. */
static _Thread_local struct cushim_mem_cache *mine __attribute__((tls_model("initial-exec")));
static _Thread_local bool is_ending __attribute__((tls_model("initial-exec")));

/* `registry` guards which cache is bound to what. */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static struct cushim_mem_cache *spares;
static _Atomic(struct cushim_mem_cache *) everyone;

void (*cushim_mem_cache_made)(struct cushim_mem_cache *cache);
static atomic_bool is_left_to_parent;

/* ---- blocks out of a cache ---- */

/* It becomes the oldest, because the others are as old, or may still wait for their epoch. */
static void push_oldest(struct cushim_mem_cache *cache, const struct cushim_mem_blockref *ref,
                        uint64_t tag) {
    struct cushim_mem_extent *slab = ref->extent;
    struct cushim_mem_cache_bucket *bucket = &cache->buckets[slab->class_index];
    uint64_t address = cushim_mem_extent_address(slab) + ref->index * slab->block_bytes;
    struct cushim_mem_slot *slot =
        cushim_mem_cache_fill(cache, bucket, &slab->cells[ref->index], address, tag);
    DL_PREPEND2(bucket->oldest, slot, older, younger);
}

/* The n oldest blocks of a class go to the free lists, or wait there for their epoch; false: host
 * memory for that is out.  The caller holds the heap's lock. */
static bool give_oldest(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap,
                        unsigned class_index, unsigned n, uint64_t done) {
    struct cushim_mem_cache_bucket *bucket = &cache->buckets[class_index];
    for (; n && bucket->n; n--) {
        /* out of the cache first, because the slab may go with the block */
        struct cushim_mem_slot slot = *cushim_mem_cache_unlink(cache, bucket, bucket->oldest);
        struct cushim_mem_extent *slab = cushim_mem_blocks_slab(heap->blocks, slot.address);
        /* while its context ends, another heap may have the addresses, and then the block is
         * gone */
        if (!slab || slab->segment->heap != heap)
            continue;
        struct cushim_mem_blockref ref = {slab, (uint32_t)(slot.meta - slab->cells)};
        if (slot.tag <= done) {
            cushim_mem_free_lists_give(heap, &ref);
        } else if (!cushim_mem_deferred_add(&heap->deferred, &heap->meta, &ref, slot.tag)) {
            push_oldest(cache, &ref, slot.tag);
            return false;
        }
    }
    return true;
}

/* Empty whole classes in turn, until the cache has at most keep_bytes and a free slot.  The caller
 * holds the heap's lock. */
static void give_in_turn(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap,
                         size_t keep_bytes, uint64_t done) {
    unsigned n_classes = cushim_mem_sizeclass_count();
    for (unsigned i = 0; i < n_classes; i++) {
        bool is_full = !cache->spare && cache->n_fresh == CUSHIM_MEM_CACHE_SLOTS;
        if ((cache->cached_bytes <= keep_bytes && !is_full) ||
            !give_oldest(cache, heap, cache->hand, cache->buckets[cache->hand].n, done))
            return;
        cache->hand = (cache->hand + 1) % n_classes;
    }
}

/* All blocks go to the free lists.  The caller holds the registry's lock, and the cache is
 * taken. */
static size_t empty(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap) {
    size_t before_bytes = cache->cached_bytes;
    if (!before_bytes)
        return 0;
    uint64_t done = cushim_mem_fence_done(heap->fence);
    pthread_mutex_lock(&heap->lock);
    give_in_turn(cache, heap, 0, done);
    pthread_mutex_unlock(&heap->lock);
    return before_bytes - cache->cached_bytes;
}

/* ---- how many bytes it may hold ---- */

enum { LIVE_DIVISOR = 32, LEAST_BYTES = 256 << 10 };

static const uint64_t idle_after_ns = 1000000000; /* the window of the watermark */

/* The limit of one cache if few are busy. */
static size_t most_bytes_of(const struct cushim_mem_heap *heap) {
    size_t rotating_bytes = cushim_mem_deferred_batch_bytes(heap);
    return rotating_bytes ? rotating_bytes : CUSHIM_MEM_CACHE_BYTES;
}

/* The limit of one cache now: its share of a part of the margin that the heap may hold anyway, and
 * of what is live. */
static size_t most_share_bytes(const struct cushim_mem_heap *heap) {
    size_t most_bytes = most_bytes_of(heap);
    size_t all_bytes =
        CUSHIM_MEM_DEFERRED_BATCH_THREADS * most_bytes + heap->live_bytes / LIVE_DIVISOR;
    size_t share_bytes = all_bytes / (heap->n_busy ? heap->n_busy : 1);
    return cushim_least(cushim_most(share_bytes, LEAST_BYTES), most_bytes);
}

static void set_busy(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap, bool is_busy) {
    heap->n_busy += (unsigned)is_busy - (unsigned)atomic_load(&cache->is_busy);
    atomic_store(&cache->is_busy, is_busy);
}

/* The cache is busy, and gets its present limit.  The caller holds the heap's lock. */
static void take_share(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap) {
    set_busy(cache, heap, true);
    cache->limit_bytes = cushim_mem_deferred_batch_limit(heap, most_share_bytes(heap));
    cache->is_cut = !heap->watermark.device_bytes || cache->limit_bytes < most_bytes_of(heap);
    cache->refreshed_ns = cushim_clock_coarse_ns();
}

/* The cache is no longer busy. */
static void end_share(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap) {
    CUSHIM_LOCKED(&heap->lock);
    set_busy(cache, heap, false);
    cache->limit_bytes = cushim_least(cache->limit_bytes, LEAST_BYTES);
}

/* Does the cache have a share, and was it not used since a look some time ago?  The caller holds
 * the registry's lock; the cache is not taken. */
static bool is_idle(struct cushim_mem_cache *cache) {
    uint64_t now_ns = cushim_clock_coarse_ns();
    uint64_t n_uses = cushim_mem_stats_read(&cache->row.counts.n_hits) +
                      cushim_mem_stats_read(&cache->row.counts.n_frees);
    if (cache->n_uses != n_uses || !cache->seen_ns) {
        cache->n_uses = n_uses;
        cache->seen_ns = now_ns;
        return false;
    }
    return atomic_load(&cache->is_busy) && now_ns - cache->seen_ns >= idle_after_ns;
}

/* Look at other caches, so that idle threads take no share from busy ones.  The registry's lock
 * comes first in the order, so it is only tried.  The caller's cache is taken, and the heap's lock
 * is not held. */
static void look_around(struct cushim_mem_heap *heap) {
    if (pthread_mutex_trylock(&registry) != 0)
        return;
    for (unsigned i = 0; i < LOOKS; i++) {
        struct cushim_mem_cache *cache = heap->caches; /* move it to the end of the list */
        DL_DELETE2(heap->caches, cache, previous_of_heap, next_of_heap);
        DL_APPEND2(heap->caches, cache, previous_of_heap, next_of_heap);
        /* a cache that was not used is emptied, and has no share until its next use */
        if (is_idle(cache) && cushim_futex_lock_take(&cache->lock)) {
            empty(cache, heap);
            end_share(cache, heap);
            cushim_mem_cache_leave(cache);
        } /* it skips the caller's own, which is taken */
    }
    pthread_mutex_unlock(&registry);
}

void cushim_mem_cache_refresh_limit(struct cushim_mem_cache *cache) {
    struct cushim_mem_heap *heap = load_relaxed(&cache->heap);
    if (!cache->is_cut && cushim_clock_coarse_ns() - cache->refreshed_ns < REFRESH_NS)
        return;
    look_around(heap);
    CUSHIM_LOCKED(&heap->lock);
    take_share(cache, heap);
}

void cushim_mem_cache_give_done(struct cushim_mem_cache *cache, uint64_t done) {
    struct cushim_mem_heap *heap = load_relaxed(&cache->heap);
    take_share(cache, heap);
    for (unsigned i = 0; i < cushim_mem_sizeclass_count(); i++) {
        const struct cushim_mem_cache_bucket *bucket = &cache->buckets[i];
        while (bucket->n && bucket->oldest->tag <= done)
            give_oldest(cache, heap, i, 1, done);
    }
}

/* Set how many blocks of a class there may be.  The caller holds the heap's lock. */
static void set_most(struct cushim_mem_cache *cache, const struct cushim_mem_heap *heap,
                     unsigned class_index) {
    size_t block_bytes = cushim_mem_sizeclass_bytes(class_index);
    bool rotates = cushim_mem_deferred_batch_bytes(heap) != 0;
    size_t most = rotates ? CUSHIM_MEM_CACHE_BATCH_DEPTH : CUSHIM_MEM_CACHE_DEPTH;
    size_t fit = (rotates ? most_share_bytes(heap) : CUSHIM_MEM_CACHE_CLASS_BYTES) / block_bytes;
    cache->buckets[class_index].most = (uint16_t)cushim_least(cushim_most(fit, 2), most);
    cache->buckets[class_index].block_bytes = (uint32_t)block_bytes;
}

bool cushim_mem_cache_make_room(struct cushim_mem_cache *cache, unsigned class_index,
                                uint64_t done) {
    struct cushim_mem_heap *heap = load_relaxed(&cache->heap);
    struct cushim_mem_cache_bucket *bucket = &cache->buckets[class_index];
    size_t block_bytes = cushim_mem_sizeclass_bytes(class_index);
    look_around(heap);
    pthread_mutex_lock(&heap->lock);
    take_share(cache, heap);
    set_most(cache, heap, class_index);
    if (bucket->n >= bucket->most)
        give_oldest(cache, heap, class_index, bucket->n - bucket->most / 2u, done);
    if (!cushim_mem_cache_has_room(cache, bucket) && block_bytes <= cache->limit_bytes) {
        size_t left_bytes = cache->limit_bytes - block_bytes;
        give_in_turn(cache, heap, cushim_least(cache->limit_bytes / 2, left_bytes), done);
    }
    pthread_mutex_unlock(&heap->lock);
    return cushim_mem_cache_has_room(cache, bucket);
}

/* ---- blocks into a cache ---- */

void cushim_mem_cache_refill(struct cushim_mem_cache *cache, unsigned class_index) {
    struct cushim_mem_heap *heap = load_relaxed(&cache->heap);
    struct cushim_mem_cache_bucket *bucket = &cache->buckets[class_index];
    size_t block_bytes = cushim_mem_sizeclass_bytes(class_index);
    struct cushim_mem_blockref ref;
    if (!bucket->most)
        set_most(cache, heap, class_index);
    for (size_t n = cushim_least(REFILL_BYTES / block_bytes, REFILL_BLOCKS); n > 1; n--) {
        if (!cushim_mem_cache_has_room(cache, bucket) ||
            !cushim_mem_free_lists_take_cut(heap, class_index, &ref))
            return;
        push_oldest(cache, &ref, 0);
    }
}

/* ---- counters ---- */

void cushim_mem_cache_publish(struct cushim_mem_cache *cache) {
    struct cushim_mem_counts *counts = &cache->row.counts;
    struct cushim_mem_stats *stats = load_relaxed(&cache->stats);
    uint64_t unpublished_bytes = cushim_mem_stats_read(&counts->unpublished_bytes);
    uint64_t before =
        atomic_fetch_add_explicit(&stats->live_bytes, unpublished_bytes, memory_order_relaxed);
    cushim_mem_stats_raise_live(stats, before + cushim_mem_stats_read(&counts->most_bytes));
    store_relaxed(&counts->unpublished_bytes, 0);
    store_relaxed(&counts->most_bytes, 0);
}

/* Add the counts to the shared ones.  The caller holds the registry's lock, and the cache is
 * taken. */
static void fold(struct cushim_mem_cache *cache) {
    struct cushim_mem_stats *stats = load_relaxed(&cache->stats);
    struct cushim_mem_counts *counts = &cache->row.counts;
    cushim_mem_cache_publish(cache);
    cushim_mem_stats_add_counts(stats, counts);
    atomic_uint_fast64_t *const all[] = {&counts->n_hits, &counts->n_frees, &counts->obtained_bytes,
                                         &counts->block_bytes};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        store_relaxed(all[i], 0);
}

/* Lock the registry for a report.  At exit the thread that holds it may never run again; then go on
 * without it. */
static bool enter_registry(void) {
    enum { TRIES = CUSHIM_FUTEX_LOOKS + 100 }; /* 10 ms: the last hundred are naps */
    unsigned n_looks = 0;
    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(&registry) == 0)
            return true;
        cushim_futex_back_off(&n_looks);
    }
    return false;
}

/* The next cache of any heap that counts for `stats`; the first for NULL. */
static struct cushim_mem_cache *next_of(const struct cushim_mem_stats *stats,
                                        const struct cushim_mem_cache *cache) {
    struct cushim_mem_cache *next = cache ? cache->next_of_all : load_acquire(&everyone);
    while (next && load_relaxed(&next->stats) != stats)
        next = next->next_of_all;
    return next;
}

void cushim_mem_cache_sum(const struct cushim_mem_stats *stats, struct cushim_mem_stats *sum) {
    bool has_entered = enter_registry();
    /* Other threads go on meanwhile.  A request is counted before its free, and frees are read
     * before requests, so no sum has more frees than requests. */
    struct cushim_mem_cache *cache = NULL;
    uint64_t n_frees = cushim_mem_stats_read(&stats->n_frees);
    while ((cache = next_of(stats, cache)))
        n_frees += cushim_mem_stats_read(&cache->row.counts.n_frees);
    atomic_thread_fence(memory_order_acquire);
    cushim_mem_stats_copy(sum, stats);
    uint64_t gauge_bytes = cushim_mem_stats_read(&sum->live_bytes);
    while ((cache = next_of(stats, cache)))
        cushim_mem_stats_add_live_counts(sum, &cache->row.counts, gauge_bytes);
    if (has_entered)
        pthread_mutex_unlock(&registry);
    store_relaxed(&sum->n_frees, n_frees);
    /* other threads went on meanwhile, so it may be below 0 */
    if ((int64_t)cushim_mem_stats_read(&sum->live_bytes) < 0)
        store_relaxed(&sum->live_bytes, 0);
}

void cushim_mem_cache_restart_peak(struct cushim_mem_stats *stats) {
    CUSHIM_LOCKED(&registry);
    for (struct cushim_mem_cache *cache = NULL; (cache = next_of(stats, cache));) {
        CUSHIM_FUTEX_LOCKED(&cache->lock);
        cushim_mem_cache_publish(cache);
    }
    store_relaxed(&stats->recent_peak_live_bytes, cushim_mem_stats_read(&stats->live_bytes));
    store_relaxed(&stats->recent_peak_held_bytes, cushim_mem_stats_read(&stats->held_bytes));
}

/* ---- which cache is whose ---- */

/* From here on any thread may get it.  The caller holds the registry's lock. */
static void put_spare(struct cushim_mem_cache *cache) {
    cache->is_orphan = false;
    cache->next_of_thread = spares;
    spares = cache;
}

/* The caller holds the registry's lock. */
static void set_stats(struct cushim_mem_cache *cache, struct cushim_mem_stats *stats) {
    store_relaxed(&cache->stats, stats);
    store_relaxed(&cache->row.stats, stats);
}

/* Unbind the cache from its heap.  The caller holds the registry's lock, and the cache is taken and
 * empty. */
static void unbind(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap) {
    fold(cache);
    end_share(cache, heap);
    DL_DELETE2(heap->caches, cache, previous_of_heap, next_of_heap);
    atomic_fetch_sub_explicit(&heap->n_caches, 1, memory_order_relaxed);
    set_stats(cache, NULL);
    store_relaxed(&cache->heap, NULL);
    store_relaxed(&cache->life, 0);
    if (cache->is_orphan)
        put_spare(cache);
}

/* The caller holds the registry's lock. */
static void bind(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap, uint64_t life) {
    CUSHIM_FUTEX_LOCKED(&cache->lock);
    DL_PREPEND2(heap->caches, cache, previous_of_heap, next_of_heap);
    atomic_fetch_add_explicit(&heap->n_caches, 1, memory_order_relaxed);
    set_stats(cache, heap->stats);
    store_relaxed(&cache->heap, heap);
    store_relaxed(&cache->life, life);
    cache->unfenced = (struct cushim_mem_unfenced){0};
    cache->seen_ns = 0;
    CUSHIM_LOCKED(&heap->lock);
    take_share(cache, heap);
}

/* The blocks of a cache go to the free lists.  If its thread has ended, it is unbound, unless host
 * memory is out; then the next drain tries again.  The caller holds the registry's lock. */
static size_t drain(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap) {
    CUSHIM_FUTEX_LOCKED(&cache->lock);
    size_t n_bytes = empty(cache, heap);
    if (cache->is_orphan && !cache->cached_bytes)
        unbind(cache, heap);
    return n_bytes;
}

void cushim_mem_cache_leave_to_parent(void) {
    atomic_store(&is_left_to_parent, true);
}

static void end_thread(void *unused) {
    (void)unused;
    is_ending = true; /* destructors that come later use the heap's lock */
    cushim_mem_cache_recent = &nobodys;
    if (load_relaxed(&is_left_to_parent))
        return;
    CUSHIM_LOCKED(&registry);
    while (mine) {
        struct cushim_mem_cache *cache = mine;
        mine = cache->next_of_thread;
        struct cushim_mem_heap *heap = load_relaxed(&cache->heap);
        cache->is_orphan = true;
        if (heap)
            drain(cache, heap);
        else
            put_spare(cache);
    }
}

CUSHIM_THREAD_END(watch_thread, end_thread)

/* Will our function run when this thread ends?  If not, it gets no cache, because no other thread
 * could take it over. */
static bool is_watched(void) {
    return mine || watch_thread(&registry);
}

/* A cache on the thread's list that is bound to no heap.  The caller holds the registry's lock. */
static struct cushim_mem_cache *obtain(void) {
    struct cushim_mem_cache *cache = mine;
    while (cache && load_relaxed(&cache->heap))
        cache = cache->next_of_thread;
    if (cache)
        return cache;
    if ((cache = spares)) {
        spares = cache->next_of_thread;
    } else {
        cache = cushim_mem_meta_map(sizeof *cache);
        if (!cache)
            return NULL;
        if (cushim_mem_cache_made)
            cushim_mem_cache_made(cache);
        cache->next_of_all = load_relaxed(&everyone);
        store_release(&everyone, cache);
    }
    cache->next_of_thread = mine;
    mine = cache;
    return cache;
}

struct cushim_mem_cache *cushim_mem_cache_find(struct cushim_mem_heap *heap, uint64_t life) {
    struct cushim_mem_cache *cache = mine;
    while (cache && !cushim_mem_cache_is_of(cache, heap, life))
        cache = cache->next_of_thread;
    if (!cache && !is_ending && is_watched()) {
        pthread_mutex_lock(&registry);
        /* an abandon changes the generation before it comes here for the caches */
        if (atomic_load(&heap->generation) == life)
            cache = obtain();
        if (cache)
            bind(cache, heap, life);
        pthread_mutex_unlock(&registry);
    }
    if (cache)
        cushim_mem_cache_recent = cache;
    return cache;
}

size_t cushim_mem_cache_drain_all(struct cushim_mem_heap *heap) {
    size_t n_bytes = 0;
    CUSHIM_LOCKED(&registry);
    for (struct cushim_mem_cache *cache = heap->caches, *next; cache; cache = next) {
        next = cache->next_of_heap;
        n_bytes += drain(cache, heap);
    }
    return n_bytes;
}

void cushim_mem_cache_forget_all(struct cushim_mem_heap *heap) {
    CUSHIM_LOCKED(&registry);
    for (struct cushim_mem_cache *cache; (cache = heap->caches);) {
        CUSHIM_FUTEX_LOCKED(&cache->lock);
        memset(cache->buckets, 0, cushim_mem_sizeclass_count() * sizeof *cache->buckets);
        cache->spare = NULL;
        cache->n_fresh = 0;
        cache->cached_bytes = 0;
        unbind(cache, heap);
    }
}
