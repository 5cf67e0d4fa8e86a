#include "memory/heap/census.h"
#include "memory/state/heap_state.h"

static void add_live(struct cushim_mem_census *census, size_t block_bytes, size_t n) {
    unsigned i = 0;
    census->live_bytes += n * block_bytes;
    while (i < census->n_sizes && census->sizes[i].block_bytes != block_bytes)
        i++;
    if (!n || i == CUSHIM_MEM_CENSUS_SIZES)
        return;
    if (i == census->n_sizes)
        census->sizes[census->n_sizes++] = (struct cushim_mem_census_size){block_bytes, 0};
    census->sizes[i].n += n;
}

static void add_cells(struct cushim_mem_census *census, const struct cushim_mem_extent *extent,
                      const struct cushim_mem_block_meta *cells) {
    size_t n_free = 0, n_live = 0;
    for (uint32_t i = 0; i < extent->n_cells; i++) {
        enum cushim_mem_state state =
            cushim_mem_state_of(atomic_load_explicit(&cells[i].state, memory_order_relaxed));
        census->pending_bytes += state == CUSHIM_MEM_DEFERRED ? extent->block_bytes : 0;
        n_live += state == CUSHIM_MEM_LIVE;
        n_free += state == CUSHIM_MEM_FREE;
    }
    add_live(census, extent->block_bytes, n_live);
    /* free and not on the slab's list: in some thread's cache */
    if (extent->cells && n_free > extent->n_free_cells)
        census->cached_bytes += (n_free - extent->n_free_cells) * extent->block_bytes;
}

static void add_extent(struct cushim_mem_census *census, const struct cushim_mem_extent *extent) {
    size_t n_bytes = (size_t)extent->n_pages * CUSHIM_MEM_PAGE_BYTES;
    int kind = atomic_load_explicit(&extent->kind, memory_order_relaxed);
    bool is_free =
        kind == CUSHIM_MEM_EXTENT_FREE ||
        (kind == CUSHIM_MEM_EXTENT_BLOCK &&
         atomic_load_explicit(&extent->single.state, memory_order_relaxed) == CUSHIM_MEM_FREE);
    if (cushim_mem_extent_is_cut(extent))
        add_cells(census, extent, extent->cells);
    else if (kind == CUSHIM_MEM_EXTENT_BLOCK)
        add_cells(census, extent, &extent->single);
    if (is_free) {
        census->free_bytes += n_bytes;
        if (n_bytes > census->largest_free_bytes)
            census->largest_free_bytes = n_bytes;
    }
}

void cushim_mem_census_take(struct cushim_mem_heap *pool, struct cushim_mem_census *census) {
    *census = (struct cushim_mem_census){0};
    pthread_mutex_lock(&pool->lock);
    census->held_bytes = pool->held_bytes;
    census->device_bytes = pool->bound.device_bytes;
    const struct cushim_mem_segment *segment = pool->segments;
    for (; segment; segment = segment->next) {
        const struct cushim_mem_extent *extent = cushim_mem_segment_extent(segment, segment->base);
        for (; extent; extent = extent->after)
            add_extent(census, extent);
    }
    pthread_mutex_unlock(&pool->lock);
}
