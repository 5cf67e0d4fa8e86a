#include "memory/shelf.h"

/* An idle dedicated segment may be an eighth larger than the request it serves. */
enum { DEDICATED_WASTE = 8 };

/* Beyond any device, and small enough for page counts of 32 bits. */
static const size_t most_bytes = (size_t)1 << 44;

/* The lists of free extents end at 2^24 pages; what is larger is always an allocation of its own.
 */
static const size_t largest_extent_bytes = (size_t)1 << 39;

/* Was the segment wholly free before `extent` was taken from it?  Free neighbours are always
 * joined. */
static bool was_whole(const struct cushim_mem_extent *extent) {
    return !extent->before &&
           (!extent->after || (!extent->after->after &&
                               atomic_load_explicit(&extent->after->kind, memory_order_relaxed) ==
                                   CUSHIM_MEM_EXTENT_FREE));
}

static struct cushim_mem_extent *take_pages(struct cushim_mem_pool *pool, uint32_t n_pages) {
    struct cushim_mem_extent *extent =
        cushim_mem_extents_take(&pool->extents, &pool->meta, n_pages);
    if (extent && was_whole(extent))
        pool->free_segment_bytes -= extent->segment->n_bytes;
    return extent;
}

static void note_free(struct cushim_mem_pool *pool, struct cushim_mem_segment *segment) {
    pool->free_segment_bytes += segment->n_bytes;
    segment->free_serial = ++pool->free_serial;
}

static void give_pages(struct cushim_mem_pool *pool, struct cushim_mem_extent *extent) {
    extent = cushim_mem_extents_give(&pool->extents, &pool->meta, extent);
    if (cushim_mem_extent_is_whole(extent))
        note_free(pool, extent->segment);
}

static bool take_small(struct cushim_mem_pool *pool, size_t n_bytes,
                       struct cushim_mem_place *place) {
    unsigned class_index = cushim_mem_sizeclass_of(n_bytes);
    struct cushim_mem_bucket *bucket = &pool->buckets[class_index];
    if (cushim_mem_bucket_take(bucket, place))
        return true;
    struct cushim_mem_extent *extent =
        take_pages(pool, cushim_mem_sizeclass_slab_pages(class_index));
    if (!extent)
        return false;
    if (cushim_mem_bucket_add(bucket, &pool->meta, extent, class_index) != CUSHIM_OK) {
        give_pages(pool, extent);
        return false;
    }
    return cushim_mem_bucket_take(bucket, place);
}

static bool take_large(struct cushim_mem_pool *pool, size_t n_bytes,
                       struct cushim_mem_place *place) {
    struct cushim_mem_extent *extent = take_pages(pool, (uint32_t)cushim_mem_pages_of(n_bytes));
    if (!extent)
        return false;
    extent->block_bytes = (size_t)extent->n_pages * CUSHIM_MEM_PAGE_BYTES;
    extent->n_cells = 1;
    atomic_store_explicit(&extent->kind, CUSHIM_MEM_EXTENT_BLOCK, memory_order_release);
    *place = (struct cushim_mem_place){extent, 0};
    return true;
}

static void link_idle(struct cushim_mem_pool *pool, struct cushim_mem_extent *extent) {
    extent->next = pool->idle;
    if (pool->idle)
        pool->idle->previous = extent;
    pool->idle = extent;
}

static void unlink_idle(struct cushim_mem_pool *pool, struct cushim_mem_extent *extent) {
    if (extent->previous)
        extent->previous->next = extent->next;
    else
        pool->idle = extent->next;
    if (extent->next)
        extent->next->previous = extent->previous;
    extent->previous = extent->next = NULL;
}

static bool take_idle(struct cushim_mem_pool *pool, size_t n_bytes,
                      struct cushim_mem_place *place) {
    struct cushim_mem_extent *best = NULL;
    for (struct cushim_mem_extent *extent = pool->idle; extent; extent = extent->next) {
        size_t has_bytes = extent->block_bytes;
        if (has_bytes >= n_bytes && has_bytes - n_bytes <= n_bytes / DEDICATED_WASTE &&
            (!best || has_bytes < best->block_bytes))
            best = extent;
    }
    if (!best)
        return false;
    unlink_idle(pool, best);
    pool->free_segment_bytes -= best->segment->n_bytes;
    *place = (struct cushim_mem_place){best, 0};
    return true;
}

bool cushim_mem_shelf_is_dedicated(const struct cushim_mem_pool *pool, size_t n_bytes) {
    return n_bytes > largest_extent_bytes ||
           n_bytes >= atomic_load_explicit(&pool->policy->dedicated_bytes, memory_order_relaxed);
}

bool cushim_mem_shelf_take(struct cushim_mem_pool *pool, size_t n_bytes,
                           struct cushim_mem_place *place) {
    if (n_bytes > most_bytes)
        return false;
    if (cushim_mem_shelf_is_dedicated(pool, n_bytes))
        return take_idle(pool, n_bytes, place);
    return n_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES ? take_small(pool, n_bytes, place)
                                                  : take_large(pool, n_bytes, place);
}

struct cushim_mem_cell *cushim_mem_shelf_cell(const struct cushim_mem_place *place) {
    return place->extent->cells ? &place->extent->cells[place->index] : &place->extent->single;
}

void cushim_mem_shelf_give(struct cushim_mem_pool *pool, struct cushim_mem_segment *segment,
                           const struct cushim_mem_place *place) {
    struct cushim_mem_extent *extent = place->extent;
    pool->live_bytes -= extent->block_bytes;
    atomic_store_explicit(&cushim_mem_shelf_cell(place)->state, CUSHIM_MEM_FREE,
                          memory_order_release);
    if (segment->is_dedicated) {
        link_idle(pool, extent);
        note_free(pool, segment);
    } else if (extent->cells) {
        struct cushim_mem_extent *slab =
            cushim_mem_bucket_give(&pool->buckets[extent->class_index], &pool->meta, place);
        if (slab)
            give_pages(pool, slab);
    } else {
        give_pages(pool, extent);
    }
}

void cushim_mem_shelf_drain(struct cushim_mem_pool *pool) {
    for (unsigned i = 0; i < CUSHIM_MEM_N_CLASSES; i++) {
        struct cushim_mem_extent *slab;
        while ((slab = cushim_mem_bucket_drain(&pool->buckets[i], &pool->meta)))
            give_pages(pool, slab);
    }
}

bool cushim_mem_shelf_is_free(const struct cushim_mem_segment *segment) {
    const struct cushim_mem_extent *extent = cushim_mem_segment_extent(segment, segment->base);
    if (segment->is_dedicated)
        return atomic_load_explicit(&extent->single.state, memory_order_relaxed) == CUSHIM_MEM_FREE;
    return cushim_mem_extent_is_whole(extent) &&
           atomic_load_explicit(&extent->kind, memory_order_relaxed) == CUSHIM_MEM_EXTENT_FREE;
}

void cushim_mem_shelf_remove(struct cushim_mem_pool *pool, struct cushim_mem_segment *segment) {
    struct cushim_mem_extent *extent = cushim_mem_segment_extent(segment, segment->base);
    if (segment->is_dedicated)
        unlink_idle(pool, extent);
    else
        cushim_mem_extents_unlist(&pool->extents, extent);
    pool->free_segment_bytes -= segment->n_bytes;
}

void cushim_mem_shelf_put_back(struct cushim_mem_pool *pool, struct cushim_mem_segment *segment) {
    struct cushim_mem_extent *extent = cushim_mem_segment_extent(segment, segment->base);
    if (segment->is_dedicated)
        link_idle(pool, extent);
    else
        cushim_mem_extents_list(&pool->extents, extent);
    note_free(pool, segment);
}
