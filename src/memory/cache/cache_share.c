#include "memory/cache/cache_share.h"
#include "memory/state/heap_state.h"

#include "base/clock.h"

/* The budget where blocks do not rotate: a part of the margin that a heap may hold anyway, and of
 * what is live. */
enum { BUDGET_BYTES = 16 << 20, LIVE_DIVISOR = 32, LEAST_BYTES = 256 << 10 };

static const uint64_t idle_after_ns = 1000000000; /* the window of the watermark */

size_t cushim_mem_cache_share_most_bytes(const struct cushim_mem_heap *heap) {
    size_t most_bytes = cushim_mem_deferred_batch_bytes(heap);
    size_t budget_bytes =
        most_bytes ? CUSHIM_MEM_DEFERRED_BATCH_THREADS * most_bytes : BUDGET_BYTES;
    if (!most_bytes)
        most_bytes = CUSHIM_MEM_CACHE_BYTES;
    budget_bytes += heap->live_bytes / LIVE_DIVISOR;
    size_t share_bytes = budget_bytes / (heap->n_busy ? heap->n_busy : 1);
    if (share_bytes < LEAST_BYTES)
        share_bytes = LEAST_BYTES;
    return share_bytes < most_bytes ? share_bytes : most_bytes;
}

static void set_busy(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap, bool is_busy) {
    heap->n_busy += (unsigned)is_busy - (unsigned)atomic_load(&cache->is_busy);
    atomic_store(&cache->is_busy, is_busy);
}

void cushim_mem_cache_share_take(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap) {
    set_busy(cache, heap, true);
    size_t most_bytes = cushim_mem_deferred_batch_bytes(heap);
    cache->limit_bytes =
        cushim_mem_deferred_batch_narrowed(heap, cushim_mem_cache_share_most_bytes(heap));
    cache->is_cut = !heap->bound.device_bytes ||
                    cache->limit_bytes < (most_bytes ? most_bytes : CUSHIM_MEM_CACHE_BYTES);
    cache->refreshed_ns = cushim_clock_coarse_ns();
}

void cushim_mem_cache_share_leave(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap) {
    set_busy(cache, heap, false);
    if (cache->limit_bytes > LEAST_BYTES)
        cache->limit_bytes = LEAST_BYTES;
}

bool cushim_mem_cache_share_is_idle(struct cushim_mem_cache *cache) {
    uint64_t now_ns = cushim_clock_coarse_ns();
    uint64_t n_uses = cushim_mem_stats_read(&cache->counts.n_hits) +
                      cushim_mem_stats_read(&cache->counts.n_frees);
    if (cache->n_uses != n_uses || !cache->seen_ns) {
        cache->n_uses = n_uses;
        cache->seen_ns = now_ns;
        return false;
    }
    return atomic_load(&cache->is_busy) && now_ns - cache->seen_ns >= idle_after_ns;
}
