#include "memory/alloc.h"

#include "base/try.h"
#include "base/lock.h"
#include "cuda/translate.h"
#include "memory/cache/cache.h"
#include "memory/free.h"
#include "memory/heap.h"
#include "memory/reclaim.h"
#include "memory/arena.h"
#include "memory/graph_resources.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"
#include "memory/state/segments.h"

/* ---- the fast path ---- */

/* A block of the class from the cache, which is taken, if the work on one is over. */
static inline uint64_t alloc_from(struct cushim_mem_cache *cache, uint64_t done, size_t n_bytes) {
    unsigned class_index = cushim_mem_sizeclass_of(n_bytes);
    struct cushim_mem_slot *slot = cushim_mem_cache_pop(cache, class_index, done);
    if (!slot)
        return 0;
    store_relaxed(&slot->meta->asked_bytes, n_bytes);
    store_release(&slot->meta->state, CUSHIM_MEM_LIVE);
    cushim_mem_cache_count_obtain(cache, n_bytes, cache->buckets[class_index].block_bytes, true);
    return slot->address;
}

/* No cache that has a heap has life 0, which says that the heap is closed, or damaged. */
uint64_t cushim_mem_alloc_fast(struct cushim_mem_heap *heap, size_t n_bytes) {
    struct cushim_mem_cache *cache = cushim_mem_cache_recent;
    if (n_bytes >= load_relaxed(&heap->policy->dedicated_bytes))
        return 0;
    uint64_t life = load_acquire(&heap->quick_life);
    if (!cushim_mem_cache_take_of(cache, heap, life))
        return 0;
    /* if frees wait, no block has a tag */
    uint64_t done = load_acquire(&heap->fence->done);
    uint64_t address = alloc_from(cache, done, n_bytes);
    cushim_mem_cache_leave(cache);
    return address;
}

bool cushim_mem_alloc_at_once(struct cushim_mem_heap *heap, size_t n_bytes,
                              struct cushim_mem_block *block) {
    bool may_be = n_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES && cushim_mem_heap_is_plain(heap);
    block->address = may_be ? cushim_mem_alloc_fast(heap, n_bytes) : 0;
    if (!block->address)
        return false;
    block->block_bytes = cushim_mem_sizeclass_bytes(cushim_mem_sizeclass_of(n_bytes));
    block->is_hit = true;
    return true;
}

/* ---- the slow path ---- */

/* After EARLY fences made for too few blocks, one allocation of the driver would have been cheaper,
 * so grow.  LATE: many more, because the driver refused. */
enum { EARLY = 32, LATE = -16384, SHORT_SHARE = 16 };

/* Hand a block out; from here on it is LIVE.  `cache` is taken, or NULL. */
static void hand_out(const struct cushim_mem_request *request, struct cushim_mem_cache *cache,
                     struct cushim_mem_block_meta *meta, uint64_t address, size_t block_bytes) {
    struct cushim_mem_block *block = request->block;
    size_t guard_bytes = request->heap->guard_bytes;
    size_t asked_bytes = request->n_bytes - 2 * guard_bytes;
    block->address = address + guard_bytes;
    block->block_bytes = block_bytes;
    store_relaxed(&meta->asked_bytes, asked_bytes);
    store_release(&meta->state, CUSHIM_MEM_LIVE);
    if (cache) {
        cushim_mem_cache_count_obtain(cache, asked_bytes, block_bytes, block->is_hit);
        return;
    }
    struct cushim_mem_stats *stats = request->heap->stats;
    cushim_mem_stats_add(&stats->n_requests, 1);
    cushim_mem_stats_add(block->is_hit ? &stats->n_hits : &stats->n_misses, 1);
    cushim_mem_stats_add(&stats->requested_bytes, asked_bytes);
    cushim_mem_stats_add(&stats->block_bytes, block_bytes);
    cushim_mem_stats_grow_live(stats, asked_bytes);
}

static void hand_out_place(const struct cushim_mem_request *request, struct cushim_mem_cache *cache,
                           const struct cushim_mem_blockref *ref, size_t block_bytes) {
    struct cushim_mem_extent *extent = ref->extent;
    hand_out(request, cache, &extent->cells[ref->index],
             cushim_mem_extent_address(extent) + ref->index * extent->block_bytes, block_bytes);
}

/* The same, and count it in the cache if the cache can be taken. */
static void take_cache_and_hand_out(const struct cushim_mem_request *request,
                                    const struct cushim_mem_blockref *ref, size_t block_bytes) {
    struct cushim_mem_cache *cache = cushim_mem_cache_take(request->heap, request->life);
    hand_out_place(request, cache, ref, block_bytes);
    if (cache)
        cushim_mem_cache_leave(cache);
}

/* Serve from the cache, or note what is deferred there. */
static bool serve_from_cache(struct cushim_mem_request *request, struct cushim_mem_cache *cache) {
    unsigned class_index = cushim_mem_sizeclass_of(request->n_bytes);
    uint64_t done = request->is_relaxed ? cushim_mem_fence_done(request->heap->fence) : UINT64_MAX;
    struct cushim_mem_slot *slot = cushim_mem_cache_pop(cache, class_index, done);
    const struct cushim_mem_cache_bucket *bucket = &cache->buckets[class_index];
    if (slot) {
        hand_out(request, cache, slot->meta, slot->address, bucket->block_bytes);
        return true;
    }
    request->deferred_tag = bucket->oldest ? bucket->oldest->tag : 0;
    /* enough blocks to be worth a fence */
    request->has_rotated = bucket->n && bucket->n >= bucket->most - bucket->most / 4;
    return false;
}

/*
 * All blocks that would serve are deferred, but fewer than may wait for a fence.  Should the heap
 * grow?  A fence for them is cheaper than a driver allocation, until there were EARLY such fences.
 * The caller holds the lock.
 */
static bool wants_more(const struct cushim_mem_request *request,
                       const struct cushim_mem_cache *cache) {
    struct cushim_mem_heap *heap = request->heap;
    bool is_of_cache = request->is_small && cache;
    size_t most_bytes = cushim_mem_deferred_batch_bytes(heap);
    size_t limit_bytes = is_of_cache ? cache->limit_bytes - cache->limit_bytes / 4
                                     : cushim_mem_deferred_batch_limit(heap, most_bytes);
    size_t waiting_bytes = is_of_cache ? cache->cached_bytes : (size_t)heap->deferred.n_bytes;
    bool is_short = heap->watermark.device_free_bytes < heap->watermark.device_bytes / SHORT_SHARE;
    return most_bytes && !heap->policy->has_keep && !is_short &&
           waiting_bytes + request->n_bytes <= limit_bytes && ++heap->n_early >= EARLY;
}

/* No block serves.  Note the reason, and what to do.  The caller holds the lock. */
static void note_miss(struct cushim_mem_request *request, struct cushim_mem_cache *cache,
                      bool is_proven) {
    struct cushim_mem_heap *heap = request->heap;
    request->has_lines = heap->deferred.lines != NULL;
    if (!request->deferred_tag && heap->deferred.first)
        request->deferred_tag = cushim_mem_deferred_tag_of(&heap->deferred, request->n_bytes);
    if (request->deferred_tag) {
        request->should_grow = !is_proven && wants_more(request, cache);
    } else if (request->is_over) {
        cushim_mem_deferred_batch_begin(heap, 0);
        if (cache)
            cushim_mem_cache_give_done(cache, cushim_mem_fence_done(heap->fence));
    } else if (request->is_relaxed) {
        request->has_others = cushim_mem_deferred_batch_is_much(
            heap, heap->deferred.n_bytes + (cache ? cache->cached_bytes : 0));
    }
}

/* Serve from the free lists, and put a few more blocks into the cache (NULL: none). */
static enum cushim_status serve_from_free_lists(struct cushim_mem_request *request,
                                                struct cushim_mem_cache *cache, bool is_proven) {
    struct cushim_mem_heap *heap = request->heap;
    struct cushim_mem_blockref ref;
    if (!cushim_mem_heap_lock_life(heap, request->life))
        return CUSHIM_STATE;
    if (heap->deferred.first)
        cushim_mem_heap_give_done(heap);
    bool is_taken = cushim_mem_free_lists_take(heap, request->n_bytes, &ref);
    if (is_taken && cache && request->is_small)
        cushim_mem_cache_refill(cache, ref.extent->class_index);
    if (!is_taken)
        note_miss(request, cache, is_proven);
    pthread_mutex_unlock(&heap->lock);
    if (!is_taken)
        return CUSHIM_NOTFOUND;
    hand_out_place(request, cache, &ref, ref.extent->block_bytes);
    return CUSHIM_OK;
}

/* Serve from the cache, then from the free lists.  If enough of the class is deferred, the free
 * lists come only after a fence for these blocks. */
static enum cushim_status serve(struct cushim_mem_request *request, bool is_proven) {
    enum cushim_status status = CUSHIM_NOTFOUND;
    struct cushim_mem_cache *cache = cushim_mem_cache_take(request->heap, request->life);
    request->has_rotated = request->should_grow = false;
    request->has_others = request->has_lines = false;
    request->deferred_tag = 0;
    if (cache && request->is_small && serve_from_cache(request, cache))
        status = CUSHIM_OK;
    else if (is_proven || !request->has_rotated)
        status = serve_from_free_lists(request, cache, is_proven);
    if (cache)
        cushim_mem_cache_leave(cache);
    return status;
}

/*
 * Serve from deferred blocks whose work can be proven over without a wait.  If much of other sizes
 * is deferred, a fence covers all of it.  If that does not help, the deferred limit begins anew and
 * memory is fetched: otherwise a program that uses these sizes again would lack them for good and
 * come here each time.  If the device is behind, nothing is over and nothing waits, and the sizes
 * are not the reason.
 */
static enum cushim_status serve_deferred(struct cushim_mem_request *request) {
    struct cushim_mem_heap *heap = request->heap;
    uint64_t tag = request->has_others ? cushim_mem_fence_tag(heap->fence) : request->deferred_tag;
    CUresult answer;
    if (!tag && !request->has_lines)
        return CUSHIM_NOTFOUND;
    if (tag) {
        bool is_over = cushim_mem_deferred_batch_prove(heap, tag, &answer);
        request->is_over = is_over && request->has_others;
        cushim_mem_heap_note_damage(heap, answer);
        if (!cushim_mem_heap_life(heap))
            return CUSHIM_STATE;
    }
    if (request->has_lines) {
        pthread_mutex_lock(&heap->lock);
        cushim_mem_heap_give_deferred(heap);
        pthread_mutex_unlock(&heap->lock);
    }
    enum cushim_status status = serve(request, true);
    request->is_over = false;
    return status;
}

static bool begin(struct cushim_mem_request *request, struct cushim_mem_heap *heap, size_t n_bytes,
                  struct cushim_mem_block *block) {
    if (__builtin_add_overflow(n_bytes, 2 * heap->guard_bytes, &n_bytes))
        n_bytes = SIZE_MAX; /* more than any driver has */
    *request = (struct cushim_mem_request){
        .heap = heap,
        .life = cushim_mem_heap_life(heap),
        .n_bytes = n_bytes,
        .is_small = n_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES &&
                    !cushim_mem_free_lists_is_dedicated(heap, n_bytes),
        .is_relaxed = heap->policy->is_relaxed,
        .block = block,
    };
    block->is_hit = true;
    return request->life != 0;
}

/* Serve from the arena; CUSHIM_NOTSUPPORTED if the heap itself must serve. */
static enum cushim_status serve_from_arena(struct cushim_mem_request *request, bool may_fetch) {
    struct cushim_mem_heap *heap = request->heap;
    struct cushim_mem_blockref ref;
    if (!heap->policy->arena_bytes)
        return CUSHIM_NOTSUPPORTED;
    CUSHIM_TRY(cushim_mem_arena_take(heap, request->life, request->n_bytes, may_fetch, &ref,
                                     &request->block->is_hit));
    take_cache_and_hand_out(request, &ref,
                            cushim_rounded(request->n_bytes, CUSHIM_MEM_GRAIN_BYTES));
    cushim_mem_stats_add(&heap->stats->n_arena, 1);
    return CUSHIM_OK;
}

/* The stages that take nothing from the driver and wait for nothing. */
static enum cushim_status serve_held(struct cushim_mem_request *request) {
    enum cushim_status status = serve(request, false);
    return status == CUSHIM_NOTFOUND && !request->should_grow ? serve_deferred(request) : status;
}

enum cushim_status cushim_mem_alloc_hit(struct cushim_mem_heap *heap, size_t n_bytes,
                                        struct cushim_mem_request *request,
                                        struct cushim_mem_block *block) {
    if (!begin(request, heap, n_bytes, block))
        return CUSHIM_STATE;
    enum cushim_status status = serve_from_arena(request, false);
    bool is_of_arena = status != CUSHIM_NOTSUPPORTED;
    if (!is_of_arena)
        status = serve_held(request);
    /* the arena is asked anew, because it may fetch then; so are all lists if graphs let go of a
     * block, because it comes back then */
    if (status != CUSHIM_NOTFOUND || is_of_arena || cushim_mem_heap_has_unheld(heap))
        request->life = 0;
    return status;
}

/* ---- growing ---- */

/* If the heap would pass its watermark, give back free segments.  If that would wait, the next free
 * does it. */
static void make_way(struct cushim_mem_heap *heap, size_t n_bytes, size_t segment_bytes) {
    pthread_mutex_lock(&heap->lock);
    size_t bound_bytes = cushim_mem_watermark_with(heap, n_bytes);
    bool is_over = heap->held_bytes + segment_bytes > bound_bytes && heap->free_segment_bytes;
    pthread_mutex_unlock(&heap->lock);
    if (is_over)
        cushim_mem_reclaim_quietly(heap, cushim_less(bound_bytes, segment_bytes));
}

static enum cushim_status fetch_and_enter(struct cushim_mem_heap *heap, uint64_t life,
                                          size_t segment_bytes, bool is_dedicated,
                                          struct cushim_mem_extent **extent) {
    uint64_t base;
    CUSHIM_TRY(cushim_mem_segments_fetch(heap, segment_bytes, &base));
    if (!cushim_mem_heap_lock_life(heap, life))
        return CUSHIM_STATE;
    if ((*extent = cushim_mem_segments_enter(heap, base, segment_bytes, is_dedicated)))
        return CUSHIM_OK;
    pthread_mutex_unlock(&heap->lock);
    cushim_mem_segments_put_back(heap, base, segment_bytes);
    return CUSHIM_NOMEM;
}

enum cushim_status cushim_mem_heap_grow(struct cushim_mem_heap *heap, uint64_t life, size_t n_bytes,
                                        bool is_dedicated, struct cushim_mem_extent **extent) {
    size_t segment_bytes = cushim_mem_provider_round(heap->provider, n_bytes);
    /* what to ask the driver for, unless rounding overflows */
    bool overflows =
        !is_dedicated && !cushim_round_up(n_bytes, CUSHIM_MEM_NATIVE_PAGE_BYTES, &segment_bytes);
    if (overflows || !segment_bytes || segment_bytes < n_bytes)
        return CUSHIM_NOMEM;
    cushim_mem_watermark_ask(heap);
    make_way(heap, n_bytes, segment_bytes);
    atomic_fetch_add(&cushim_mem_transits.n_begun, 1);
    enum cushim_status status = fetch_and_enter(heap, life, segment_bytes, is_dedicated, extent);
    atomic_fetch_add(&cushim_mem_transits.n_ended, 1);
    return status;
}

enum cushim_status cushim_mem_heap_take(struct cushim_mem_heap *heap, uint64_t life, size_t n_bytes,
                                        struct cushim_mem_blockref *ref) {
    bool is_own = cushim_mem_free_lists_is_dedicated(heap, n_bytes);
    ref->index = 0;
    CUSHIM_TRY(cushim_mem_heap_grow(heap, life, n_bytes, is_own, &ref->extent));
    /* fails when host memory for descriptors is out */
    if (is_own || cushim_mem_free_lists_take(heap, n_bytes, ref))
        return CUSHIM_OK;
    pthread_mutex_unlock(&heap->lock);
    return CUSHIM_NOMEM;
}

static enum cushim_status grow(const struct cushim_mem_request *request) {
    struct cushim_mem_heap *heap = request->heap;
    struct cushim_mem_blockref ref;
    CUSHIM_TRY(cushim_mem_heap_take(heap, request->life, request->n_bytes, &ref));
    pthread_mutex_unlock(&heap->lock);
    request->block->is_hit = false;
    take_cache_and_hand_out(request, &ref, ref.extent->block_bytes);
    return CUSHIM_OK;
}

static void count_early_from(struct cushim_mem_heap *heap, int n_early) {
    CUSHIM_LOCKED(&heap->lock);
    heap->n_early = n_early;
}

/* Fetch fresh memory although blocks are deferred.  If the driver has none, these must serve. */
static enum cushim_status serve_fresh(struct cushim_mem_request *request) {
    count_early_from(request->heap, 0); /* first, so that only one of several threads grows */
    if (grow(request) == CUSHIM_OK)
        return CUSHIM_OK;
    count_early_from(request->heap, LATE);
    request->block->is_hit = true;
    return CUSHIM_NOTFOUND;
}

/* May more be fetched while so much is deferred? */
static bool is_within_budget(struct cushim_mem_heap *heap) {
    CUSHIM_LOCKED(&heap->lock);
    return heap->deferred.n_bytes <
           cushim_most(cushim_mem_watermark_step_bytes(heap), CUSHIM_MEM_HEAP_DEFERRED_BYTES);
}

/* Wait a moment for the epoch `tag`; true if a block may be free now. */
static bool wait_for(const struct cushim_mem_request *request, uint64_t tag) {
    struct cushim_mem_heap *heap = request->heap;
    CUresult answer;
    enum cushim_status status = cushim_mem_fence_await(
        heap->fence, tag, cushim_clock_ns() + CUSHIM_MEM_HEAP_PATIENCE_NS, heap->stats, &answer);
    cushim_mem_heap_note_damage(heap, answer);
    return status == CUSHIM_OK;
}

/* All stages up to the one that asks the driver. */
static enum cushim_status alloc_held(struct cushim_mem_request *request,
                                     struct cushim_mem_heap *heap, size_t n_bytes,
                                     struct cushim_mem_block *block) {
    if (!begin(request, heap, n_bytes, block))
        return CUSHIM_STATE;
    enum cushim_status status = serve_from_arena(request, true);
    if (status != CUSHIM_NOTSUPPORTED)
        return status;
    if (cushim_mem_heap_has_unheld(heap))
        cushim_mem_graph_resources_take_back(heap);
    return serve_held(request);
}

enum cushim_status cushim_mem_alloc_after(struct cushim_mem_heap *heap, size_t n_bytes,
                                          const struct cushim_mem_request *missed,
                                          struct cushim_mem_block *block) {
    struct cushim_mem_request request;
    enum cushim_status status = CUSHIM_NOTFOUND;
    /* Did a request of this size ask all lists of the heap, in the heap's present life? */
    if (missed && missed->life && missed->heap == heap &&
        missed->life == cushim_mem_heap_life(heap) &&
        missed->n_bytes == n_bytes + 2 * heap->guard_bytes) {
        request = *missed;
        request.block = block;
        block->is_hit = true;
    } else {
        status = alloc_held(&request, heap, n_bytes, block);
    }
    if (status == CUSHIM_NOTFOUND && request.should_grow) {
        status = serve_fresh(&request);
        if (status == CUSHIM_NOTFOUND)
            status = serve_deferred(&request);
    }
    if (status == CUSHIM_NOTFOUND && request.deferred_tag && !is_within_budget(heap) &&
        wait_for(&request, request.deferred_tag))
        status = serve(&request, true);
    if (status != CUSHIM_NOTFOUND)
        return status;
    struct cushim_mem_reclaim reclaim = {0};
    status = grow(&request);
    while (status == CUSHIM_NOMEM && cushim_mem_reclaim_run(&reclaim, heap, n_bytes)) {
        status = serve(&request, true);
        if (status == CUSHIM_NOTFOUND)
            status = grow(&request);
    }
    return status;
}

enum cushim_status cushim_mem_alloc(struct cushim_mem_heap *heap, size_t n_bytes,
                                    struct cushim_mem_block *block) {
    return cushim_mem_alloc_after(heap, n_bytes, NULL, block);
}

/* ---- taking a request back ---- */

/* The block has no event of its own, so it waits for all work that was submitted. */
static bool free_later(struct cushim_mem_heap *heap, const struct cushim_mem_lookup *lookup) {
    uint64_t life = cushim_mem_heap_life(heap);
    if (cushim_mem_free_claim(heap, lookup) != CUSHIM_OK)
        return false;
    if (!cushim_mem_heap_lock_life(heap, life))
        return true;                           /* it went with its context */
    atomic_thread_fence(memory_order_seq_cst); /* work was submitted before the load of `open` */
    /* if host memory for the note is out, the block is never reused */
    cushim_mem_deferred_add(&heap->deferred, &heap->meta, &lookup->ref,
                            cushim_mem_fence_tag(heap->fence));
    pthread_mutex_unlock(&heap->lock);
    return true;
}

void cushim_mem_alloc_undo(struct cushim_mem_heap *heap, const struct cushim_mem_lookup *lookup,
                           bool is_hit) {
    CUstream stream = atomic_load(&heap->filler.stream);
    struct cushim_mem_stats *stats = heap->stats;
    CUresult answer;
    if (!(stream && cushim_mem_free_on(heap, lookup, stream, &answer) == CUSHIM_OK) &&
        !free_later(heap, lookup))
        return;
    cushim_mem_stats_subtract(&stats->n_requests, 1);
    cushim_mem_stats_subtract(is_hit ? &stats->n_hits : &stats->n_misses, 1);
    cushim_mem_stats_subtract(&stats->requested_bytes, lookup->asked_bytes);
    cushim_mem_stats_subtract(&stats->n_frees, 1);
    /* now, because the peak must not count both this block and the one that replaces it */
    struct cushim_mem_cache *cache = cushim_mem_cache_take(heap, cushim_mem_heap_life(heap));
    if (cache) {
        cushim_mem_cache_publish(cache);
        cushim_mem_cache_leave(cache);
    }
}
