#include "memory/heap.h"

#include <string.h>

#include "base/lock.h"
#include "cuda/translate.h"
#include "memory/arena.h"
#include "memory/cache/cache.h"
#include "memory/cache/stream.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"
#include "memory/state/segments.h"

void cushim_mem_heap_open(struct cushim_mem_heap *heap, const struct cushim_mem_heap_setup *setup) {
    /* only in the first life, because a lock is initialised once.  It is held for tens of
     * nanoseconds, so a thread that finds it taken looks again before it sleeps */
    if (!atomic_load(&heap->generation))
        heap->lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
    heap->cuda = setup->cuda;
    heap->context = setup->context;
    heap->device = setup->device;
    heap->blocks = setup->blocks;
    heap->policy = setup->policy;
    heap->stats = setup->stats;
    heap->neighbour = setup->neighbour;
    atomic_store(&heap->damage, CUDA_SUCCESS);
    heap->kind = setup->kind;
    heap->flags = setup->flags;
    heap->provider = setup->provider;
    heap->filler.cuda = setup->cuda;
    heap->filler.context = setup->context;
    heap->guard_bytes =
        setup->kind == CUSHIM_MEM_DEVICE && setup->policy->has_guards ? CUSHIM_MEM_GUARD_BYTES : 0;
    heap->quick_bytes = cushim_mem_heap_is_plain(heap) && !setup->policy->is_sampled
                            ? CUSHIM_MEM_SLAB_LIMIT_BYTES
                            : 0;
    heap->quick_entry = heap->guard_bytes || cushim_mem_heap_is_spilled(heap)
                            ? CUSHIM_MEM_FREE_ENTRY_NONE
                        : setup->kind == CUSHIM_MEM_PINNED ? CUSHIM_MEM_FREE_ENTRY_PINNED
                                                           : CUSHIM_MEM_FREE_ENTRY_ANY;
    heap->fence = setup->fence ? setup->fence : &heap->own_fence;
    if (!setup->fence) {
        cushim_mem_fence_init(heap->fence, setup->cuda, setup->context, setup->guard);
        heap->fence->brings_out = !setup->policy->is_relaxed;
    }
    heap->recent_since_ns = cushim_clock_coarse_ns();
    heap->watermark.far_bytes = 2 * CUSHIM_MEM_HEAP_SLACK_BYTES;
    cushim_mem_deferred_batch_begin(heap, CUSHIM_MEM_DEFERRED_BATCH_MOST_BYTES);
    atomic_store(&heap->quick_life, atomic_fetch_add(&heap->generation, 1) + 1);
}

void cushim_mem_heap_abandon(struct cushim_mem_heap *heap) {
    pthread_mutex_lock(&heap->lock);
    atomic_store(&heap->quick_life, 0);
    atomic_fetch_add(&heap->generation, 1);
    pthread_mutex_unlock(&heap->lock);
    cushim_mem_cache_forget_all(heap); /* before the descriptors of their blocks go */
    if (heap->owner)
        heap->owner->forget(heap->owner);
    pthread_mutex_lock(&heap->lock);
    atomic_store(&heap->filler.stream, NULL); /* it went with the context */
    cushim_mem_arena_abandon(heap);
    cushim_mem_segments_abandon(heap);
    cushim_mem_deferred_forget(&heap->deferred, &heap->meta);
    if (heap->fence == &heap->own_fence)
        cushim_mem_fence_abandon(heap->fence);
    memset(&heap->extents, 0, sizeof heap->extents);
    memset(heap->buckets, 0, sizeof heap->buckets);
    memset(&heap->idle, 0, sizeof heap->idle);
    memset(&heap->watermark, 0, sizeof heap->watermark);
    cushim_mem_heap_count(heap, -(ptrdiff_t)heap->live_bytes, -(ptrdiff_t)heap->held_bytes);
    heap->free_segment_bytes = heap->cached_bytes = 0;
    heap->n_early = 0;
    heap->recent_peak_bytes[0] = heap->recent_peak_bytes[1] = 0;
    pthread_mutex_unlock(&heap->lock);
}

void cushim_mem_heap_note_damage(struct cushim_mem_heap *heap, CUresult answer) {
    enum cushim_status status = cushim_status_from_cu(answer);
    if (status == CUSHIM_FAULT || status == CUSHIM_LAUNCH || status == CUSHIM_ECC ||
        status == CUSHIM_DEADCONTEXT || status == CUSHIM_UNKNOWN) {
        atomic_store(&heap->damage, (int)answer);
        atomic_store(&heap->quick_life, 0);
    }
}

void cushim_mem_heap_give(struct cushim_mem_heap *heap, const struct cushim_mem_blockref *ref) {
    if (cushim_mem_arena_has(ref))
        cushim_mem_arena_give_locked(heap, ref);
    else
        cushim_mem_free_lists_give(heap, ref);
}

void cushim_mem_heap_give_done(struct cushim_mem_heap *heap) {
    struct cushim_mem_blockref ref;
    uint64_t done = cushim_mem_fence_done(heap->fence);
    while (cushim_mem_deferred_take(&heap->deferred, &heap->meta, done, &ref))
        cushim_mem_heap_give(heap, &ref);
}

void cushim_mem_heap_give_deferred(struct cushim_mem_heap *heap) {
    struct cushim_mem_blockref ref;
    cushim_mem_heap_give_done(heap);
    while (cushim_mem_deferred_take_on(&heap->deferred, &heap->meta, heap->cuda, &ref))
        cushim_mem_heap_give(heap, &ref);
}

void cushim_mem_heap_retire_segment(struct cushim_mem_heap *heap,
                                    struct cushim_mem_segment *segment) {
    CUSHIM_LOCKED(&heap->lock);
    if (segment->heap == heap && segment->generation == atomic_load(&heap->generation))
        cushim_mem_free_lists_retire(heap, segment);
}

void cushim_mem_heap_show(struct cushim_mem_heap *heap, uint64_t address) {
    CUSHIM_LOCKED(&heap->lock);
    cushim_mem_free_lists_show(heap, address);
}

bool cushim_mem_heap_is_uncached(const struct cushim_mem_heap *heap,
                                 const struct cushim_mem_segment *segment) {
    if (load_relaxed(&segment->is_retired))
        return cushim_mem_segment_is_one_block(segment);
    return segment->is_dedicated && load_relaxed(&heap->policy->is_dedicated_uncached);
}
