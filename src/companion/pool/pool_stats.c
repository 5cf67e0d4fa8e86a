/* What a pool reports: counters, gauges and its single blocks. */
#include <stdlib.h>

#include "base/lock.h"
#include "companion/capture/graph_resources.h"
#include "companion/pool/pool_call.h"

/* ---- numbers ---- */

/* A sum of live counts may be below 0 for a moment, because the caches are read one after another:
 * it may count a free and miss the allocation of the same block. */
static void add_cache(struct cushim_mem_stream_cache *cache, struct cushim_pool_stats *stats,
                      struct cushim_mem_stream_counts *sums) {
    cushim_futex_lock_enter(&cache->lock);
    stats->hits += cache->counts.n_hits;
    stats->misses += cache->counts.n_misses;
    stats->frees += cache->counts.n_frees;
    stats->cached_bytes += cache->idle_bytes;
    sums->live_blocks += cache->counts.live_blocks;
    sums->live_bytes += cache->counts.live_bytes;
    sums->asked_bytes += cache->counts.asked_bytes;
    for (struct cushim_mem_stream_bucket *bucket = NULL;
         (bucket = cushim_mem_stream_buckets_next(&cache->buckets, bucket));) {
        const struct cushim_mem_stream_block *block =
            bucket->newest; /* the newest blocks are those not over */
        stats->cached_blocks += bucket->n;
        for (; block && !cushim_mem_stream_block_is_over(cache, block); block = block->older) {
            stats->pending_blocks++;
            stats->pending_bytes += block->bucket_bytes;
        }
    }
    cushim_futex_lock_leave(&cache->lock);
}

static void add_heap(struct cushim_pool_heap *heap, struct cushim_pool_stats *stats,
                     struct cushim_mem_stream_counts *sums) {
    CUSHIM_MEM_EACH_STREAM_CACHE(cache, &heap->streams) {
        cushim_mem_stream_cache_prove(cache, CUSHIM_MEM_ASK);
        add_cache(cache, stats, sums);
    }
    stats->graph_blocks += atomic_load(&heap->streams.held_blocks);
    stats->graph_bytes += atomic_load(&heap->streams.held_bytes);
    stats->held_bytes += cushim_mem_stats_read(&heap->stats.held_bytes);
    stats->peak_bytes += cushim_mem_stats_read(&heap->stats.peak_held_bytes);
    stats->peak_live_bytes += cushim_mem_stats_read(&heap->process_peak_bytes);
}

static uint64_t not_below_0(int64_t n) {
    return n > 0 ? (uint64_t)n : 0;
}

static void add_all(struct cushim_pool_call *call, int dev, enum cushim_memory_kind kind,
                    struct cushim_pool_stats *stats) {
    struct cushim_pool_object *pool = call->pool;
    struct cushim_mem_stream_counts sums = {0};
    for (struct cushim_pool_heap *heap = NULL; (heap = cushim_pool_next_heap(pool, heap));) {
        stats->evicted += atomic_load(&heap->streams.n_evicted);
        if ((dev == -1 || heap->context->device == dev) &&
            (kind == -1 || (int)heap->kind == kind) && !atomic_load(&heap->streams.is_lost))
            add_heap(heap, stats, &sums);
    }
    stats->live_blocks = not_below_0(sums.live_blocks);
    stats->live_bytes = not_below_0(sums.live_bytes);
    stats->asked_bytes = not_below_0(sums.asked_bytes);
    stats->refused = atomic_load(&pool->n_refused);
    stats->damaged = atomic_load(&pool->n_damaged);
    stats->waits = atomic_load(&pool->n_waits);
    stats->reclaim_steps = atomic_load(&pool->n_reclaim_steps);
    stats->out_of_memory = atomic_load(&pool->n_out_of_memory);
}

enum cushim_status cushim_pool_stats(struct cushim_pool *p, int dev, enum cushim_memory_kind kind,
                                     struct cushim_pool_stats *stats) {
    struct cushim_pool_stats ours = {.struct_size = sizeof ours};
    if (!stats || (kind != CUSHIM_MEMORY_ALL && (unsigned)kind >= CUSHIM_POOL_N_KINDS))
        return CUSHIM_FAIL(CUSHIM_INVALID, "stats=%p kind=%d", (void *)stats, kind);
    CUSHIM_TRY(cushim_struct_size_give(__func__, stats, &ours, sizeof ours));
    cushim_graph_resources_give_back();
    CUSHIM_ENTER_POOL(p);
    if (dev != -1)
        CUSHIM_TRY(cushim_context_ordinal(call.what, dev, &dev));
    add_all(&call, dev, kind, &ours);
    return cushim_struct_size_give(call.what, stats, &ours, sizeof ours);
}

enum cushim_status cushim_pool_stats_reset(struct cushim_pool *p) {
    CUSHIM_ENTER_POOL(p);
    for (struct cushim_pool_heap *heap = NULL; (heap = cushim_pool_next_heap(call.pool, heap));) {
        atomic_store(&heap->streams.n_evicted, 0);
        atomic_store(&heap->stats.peak_held_bytes, cushim_mem_stats_read(&heap->stats.held_bytes));
        atomic_store(&heap->process_peak_bytes, cushim_mem_stats_read(&heap->process_bytes));
        CUSHIM_MEM_EACH_STREAM_CACHE(cache, &heap->streams) {
            cushim_futex_lock_enter(&cache->lock);
            cache->counts.n_hits = cache->counts.n_misses = cache->counts.n_frees = 0;
            cushim_futex_lock_leave(&cache->lock);
        }
    }
    atomic_store(&call.pool->n_refused, 0);
    atomic_store(&call.pool->n_damaged, 0);
    atomic_store(&call.pool->n_waits, 0);
    atomic_store(&call.pool->n_reclaim_steps, 0);
    atomic_store(&call.pool->n_out_of_memory, 0);
    return CUSHIM_OK;
}

/* ---- blocks ---- */

enum cushim_status cushim_pool_owns(struct cushim_pool *p, cushim_devptr ptr, int *yes) {
    CUSHIM_OUT(yes);
    CUSHIM_ENTER_POOL(p);
    const struct cushim_mem_stream_block *block = cushim_pool_block(ptr);
    *yes = block && cushim_mem_stream_block_address(block) == ptr &&
           cushim_mem_stream_block_is_live(block) &&
           cushim_pool_heap_of(block->streams)->pool == call.pool;
    return CUSHIM_OK;
}

/* The caller holds the heap's lock. */
static struct cushim_pool_view view_of(struct cushim_mem_stream_block *block) {
    const struct cushim_pool_heap *heap = cushim_pool_heap_of(block->streams);
    struct cushim_mem_stream_cache *cache = load_relaxed(&block->cache);
    bool is_live = cushim_mem_stream_block_is_live(block);
    bool is_kept = atomic_load(&block->n_holds) != 0;
    bool is_over = true;
    if (!is_live && !is_kept && cache) {
        cushim_futex_lock_enter(&cache->lock);
        is_over = cushim_mem_stream_block_is_over(cache, block);
        cushim_futex_lock_leave(&cache->lock);
    }
    return (struct cushim_pool_view){
        .ptr = cushim_mem_stream_block_address(block),
        .asked_bytes = atomic_load(&block->asked_bytes),
        .block_bytes = block->bucket_bytes,
        .device = heap->context->device,
        .kind = (int)heap->kind,
        .state = is_kept   ? CUSHIM_POOL_STATE_GRAPH
                 : is_live ? CUSHIM_POOL_STATE_LIVE
                 : is_over ? CUSHIM_POOL_STATE_IDLE
                           : CUSHIM_POOL_STATE_DEFERRED,
        .stream = cache ? cache->stream.handle : NULL,
    };
}

/* Add a row for each block that a heap has out of the free lists; false: no host memory. */
static bool add_views(struct cushim_pool_heap *heap, struct cushim_pool_view **rows, size_t *n) {
    CUSHIM_LOCKED(&heap->streams.lock);
    size_t n_used = heap->streams.table.n_used;
    struct cushim_pool_view *grown = realloc(*rows, (*n + n_used + 1) * sizeof *grown);
    if (!grown)
        return false;
    *rows = grown;
    for (uint32_t i = 0; n_used && i < heap->streams.table.n_blocks; i++) {
        struct cushim_mem_stream_block *block = cushim_mem_streams_at(&heap->streams, i);
        if (cushim_mem_stream_block_address(block))
            grown[(*n)++] = view_of(block);
    }
    return true;
}

enum cushim_status cushim_pool_walk(struct cushim_pool *p, cushim_pool_walk_fn *fn, void *cookie) {
    struct cushim_pool_view *rows = NULL;
    enum cushim_status status = CUSHIM_OK;
    size_t n = 0;
    CUSHIM_FAIL_IF(__func__, !fn, CUSHIM_INVALID, "fn=NULL");
    CUSHIM_ENTER_POOL(p);
    for (struct cushim_pool_heap *heap = NULL; (heap = cushim_pool_next_heap(call.pool, heap));) {
        if (status == CUSHIM_OK && !add_views(heap, &rows, &n))
            status = CUSHIM_FAIL(CUSHIM_NOMEM, "host=%zu", n * sizeof *rows);
    }
    for (size_t i = 0; i < n && status == CUSHIM_OK && !fn(&rows[i], cookie); i++) {
    }
    free(rows);
    return status;
}
