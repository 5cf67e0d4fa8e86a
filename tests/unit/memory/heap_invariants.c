/* The invariants of heaps: fixture_fault and fixture_check. */
#include "tests/unit/memory/heap_fixture.h"

#include <check.h>

#include "memory/heap.h"
#include "memory/state/free_lists.h"
#include "memory/cache/cache.h"
#include "memory/state/deferred.h"

struct sums {
    size_t cut_live_bytes, cut_used_bytes, asked_bytes, held_bytes, free_bytes, n_segments;
    size_t n_free_extents, n_idle, n_whole, n_partial_slabs;
    size_t n_loose, loose_bytes; /* FREE and in no slab's list: they must be in a cache */
    size_t n_held_back;          /* DEFERRED */
};

static void add_cells(const struct cushim_mem_extent *extent,
                      const struct cushim_mem_block_meta *cells, uint32_t n_cells,
                      struct sums *sums) {
    for (uint32_t i = 0; i < n_cells; i++) {
        enum cushim_mem_state state = cushim_mem_state_of(atomic_load(&cells[i].state));
        if (state == CUSHIM_MEM_FREE)
            continue;
        sums->cut_used_bytes += extent->block_bytes;
        sums->n_held_back += state == CUSHIM_MEM_DEFERRED;
        if (state == CUSHIM_MEM_LIVE) {
            sums->cut_live_bytes += extent->block_bytes;
            sums->asked_bytes += atomic_load(&cells[i].asked_bytes);
        }
    }
}

static const char *fault_of_slab(const struct cushim_mem_extent *extent, struct sums *sums) {
    uint32_t n_free = 0, n_states = 0;
    for (uint32_t i = extent->first_free_cell; n_free < extent->n_free_cells; n_free++) {
        if (i >= extent->n_cells)
            return "the free cells of a slab are fewer than it says";
        if (cushim_mem_state_of(atomic_load(&extent->cells[i].state)) != CUSHIM_MEM_FREE)
            return "a cell in the free list is in use";
        i = extent->cells[i].next_free;
    }
    for (uint32_t i = 0; i < extent->n_cells; i++)
        n_states += cushim_mem_state_of(atomic_load(&extent->cells[i].state)) == CUSHIM_MEM_FREE;
    n_free += extent->n_retired_cells;
    sums->n_loose += n_states - n_free;
    sums->loose_bytes += (n_states - n_free) * extent->block_bytes;
    return NULL;
}

/* A chunk is one block to its heap, whatever is served from it. */
static void add_chunk(const struct cushim_mem_extent *extent, struct sums *sums) {
    sums->cut_used_bytes += extent->n_grains * CUSHIM_MEM_GRAIN_BYTES;
    for (uint32_t i = 0; i < extent->n_cells; i++) {
        sums->n_held_back += atomic_load(&extent->cells[i].state) == CUSHIM_MEM_DEFERRED;
        if (cushim_mem_state_of(atomic_load(&extent->cells[i].state)) != CUSHIM_MEM_LIVE)
            continue;
        size_t asked_bytes = atomic_load(&extent->cells[i].asked_bytes);
        sums->asked_bytes += asked_bytes;
        sums->cut_live_bytes += cushim_rounded(asked_bytes, CUSHIM_MEM_GRAIN_BYTES);
    }
}

static bool is_wholly_free(const struct cushim_mem_segment *segment) {
    const struct cushim_mem_extent *extent = cushim_mem_segment_extent(segment, segment->base);
    if (segment->is_retired)
        return !segment->n_not_back;
    if (segment->is_dedicated)
        return atomic_load_explicit(&extent->single.state, memory_order_relaxed) == CUSHIM_MEM_FREE;
    return cushim_mem_extent_is_whole(extent) &&
           atomic_load_explicit(&extent->kind, memory_order_relaxed) == CUSHIM_MEM_EXTENT_FREE;
}

/* Looks up the extent's ends, and the ends of each word of the segment's bits. */
static bool is_found_wrongly(const struct cushim_mem_segment *segment,
                             const struct cushim_mem_extent *extent) {
    uint64_t address = cushim_mem_extent_address(extent);
    size_t last = extent->n_grains - 1, step = 64 - extent->first_grain % 64;
    bool is_wrong =
        cushim_mem_segment_extent(segment, address + last * CUSHIM_MEM_GRAIN_BYTES) != extent;
    for (size_t grain = 0; grain <= last; grain += step, step = 64) {
        is_wrong |=
            cushim_mem_segment_extent(segment, address + grain * CUSHIM_MEM_GRAIN_BYTES) != extent;
        if (last - grain >= 63)
            is_wrong |= cushim_mem_segment_extent(
                            segment, address + (grain + 63) * CUSHIM_MEM_GRAIN_BYTES) != extent;
        if (grain && segment->n_bytes > 1 << 28) /* a large segment is sampled */
            break;
    }
    return is_wrong;
}

/* The page map has an entry for each page in which only blocks of this slab begin. */
static bool is_mapped_wrongly(struct cushim_mem_pagemap *map,
                              const struct cushim_mem_extent *slab) {
    const uint64_t page = CUSHIM_MEM_PAGE_BYTES;
    uint64_t base = cushim_mem_extent_address(slab);
    uint64_t end = base + slab->n_grains * CUSHIM_MEM_GRAIN_BYTES;
    for (uint64_t at = base / page * page; at < end; at += page) {
        bool is_alone = at >= base && at + page <= end;
        bool has_entry = is_alone && (slab->n_cells > 1 || at == base);
        if ((cushim_mem_pagemap_slab(map, at) == slab) != has_entry)
            return true;
    }
    return false;
}

static const char *fault_of_extent(const struct cushim_mem_segment *segment,
                                   const struct cushim_mem_extent *extent, struct sums *sums) {
    int kind = atomic_load(&extent->kind);
    if (extent->segment != segment)
        return "an extent lies in another segment";
    if (is_found_wrongly(segment, extent))
        return "an address does not lead to its extent";
    if (!segment->is_dedicated && extent->n_grains < CUSHIM_MEM_LEAST_GRAINS)
        return "an extent is shorter than a page";
    if (extent->after && (extent->after->before != extent ||
                          extent->after->first_grain != extent->first_grain + extent->n_grains))
        return "neighbours do not meet";
    if (kind == CUSHIM_MEM_EXTENT_SLAB) {
        add_cells(extent, extent->cells, extent->n_cells, sums);
        sums->n_partial_slabs += extent->n_free_cells > 0;
        return fault_of_slab(extent, sums);
    }
    if (kind == CUSHIM_MEM_EXTENT_ARENA) {
        add_chunk(extent, sums);
        return NULL;
    }
    if (kind == CUSHIM_MEM_EXTENT_RETIRED && extent->cells) {
        add_cells(extent, extent->cells, extent->n_cells, sums);
        return fault_of_slab(extent, sums);
    }
    if (kind == CUSHIM_MEM_EXTENT_BLOCK ? extent->cells != &extent->single || extent->n_cells != 1
                                        : extent->cells || extent->n_cells)
        return "an extent that is no slab has cells";
    if (kind == CUSHIM_MEM_EXTENT_BLOCK) {
        add_cells(extent, &extent->single, 1, sums);
        bool is_free = atomic_load(&extent->single.state) == CUSHIM_MEM_FREE;
        if (is_free && !segment->is_dedicated)
            return "a block is free and its pages are not";
        sums->n_idle += is_free;
        sums->n_whole += is_free;
        sums->free_bytes += is_free ? segment->n_bytes : 0;
        return NULL;
    }
    sums->n_free_extents += kind == CUSHIM_MEM_EXTENT_FREE;
    if (extent->n_grains == segment->n_grains) {
        sums->n_whole++;
        sums->free_bytes += segment->n_bytes;
    }
    if (extent->after && atomic_load(&extent->after->kind) == CUSHIM_MEM_EXTENT_FREE)
        return "free neighbours are not joined";
    return NULL;
}

static const char *fault_of_segment(struct fixture *fixture,
                                    const struct cushim_mem_segment *segment, struct sums *sums) {
    size_t n_grains = 0, n_words = segment->is_dedicated ? 1 : (segment->n_grains + 63) / 64;
    unsigned n_extents = 0, n_starts = 0;
    struct cushim_mem_extent *extent = cushim_mem_segment_extent(segment, segment->base);
    for (; extent; extent = extent->after) {
        const char *fault = fault_of_extent(segment, extent, sums);
        if (fault)
            return fault;
        if (extent->cells && cushim_mem_extent_is_cut(extent) &&
            is_mapped_wrongly(&fixture->blocks.map, extent))
            return "the page map enters a slab in a page it shares, or misses a page it owns";
        n_extents++;
        n_grains += extent->n_grains;
    }
    if (n_grains != segment->n_grains)
        return "extents do not cover their segment";
    for (size_t i = 0; i < n_words; i++)
        n_starts += (unsigned)__builtin_popcountll(atomic_load(&segment->starts[i].bits));
    if (n_starts != n_extents)
        return "starts and extents differ in number";
    uint64_t stride = segment->n_bytes > 1 << 28 ? 1 << 22 : 1 << 16;
    for (uint64_t at = segment->base; at < segment->base + segment->n_bytes; at += stride) {
        if (cushim_mem_pagemap_find(&fixture->blocks.map, at) != segment)
            return "the page map does not lead to a segment";
    }
    if (!fake_is_allocated(segment->base))
        return "a segment is not the driver's";
    sums->held_bytes += segment->n_bytes;
    sums->n_segments++;
    return NULL;
}

static const char *fault_of_lists(const struct cushim_mem_heap *heap, const struct sums *sums) {
    size_t n_free = 0, n_idle = 0, n_whole = 0, n_slabs = 0;
    for (unsigned i = 0; i < CUSHIM_MEM_EXTENT_LISTS; i++) {
        const struct cushim_mem_extent *extent = heap->extents.lists[i];
        for (; extent; extent = extent->next, n_free++) {
            if (atomic_load(&extent->kind) != CUSHIM_MEM_EXTENT_FREE)
                return "an extent in use is listed as free";
        }
    }
    for (const struct cushim_mem_segment *segment = heap->watermark.oldest_free; segment;
         segment = segment->younger_free) {
        n_whole++;
        n_idle += segment->is_dedicated && !segment->is_retired;
        if (!is_wholly_free(segment))
            return "a segment in use is listed as wholly free";
        if (segment->younger_free ? segment->younger_free->older_free != segment
                                  : segment != heap->watermark.oldest_free->older_free)
            return "the list of wholly free segments is broken";
    }
    for (unsigned i = 0; i < cushim_mem_sizeclass_count(); i++) {
        const struct cushim_mem_extent *slab = heap->buckets[i].slabs;
        for (; slab; slab = slab->next)
            n_slabs++;
    }
    if (n_free != sums->n_free_extents)
        return "free extents and their lists differ in number";
    if (n_slabs != sums->n_partial_slabs)
        return "slabs with free cells and their lists differ in number";
    if (n_whole != sums->n_whole)
        return "wholly free segments and their list differ in number";
    return n_idle == sums->n_idle ? NULL : "idle segments and their list differ in number";
}

static bool is_in_list(const struct cushim_mem_extent *slab, uint32_t index) {
    uint32_t i = slab->first_free_cell;
    for (uint32_t n = 0; n < slab->n_free_cells; n++, i = slab->cells[i].next_free) {
        if (i == index)
            return true;
    }
    return false;
}

static const char *fault_of_slot(const struct cushim_mem_heap *heap,
                                 const struct cushim_mem_slot *slot, unsigned class_index) {
    const struct cushim_mem_extent *extent = cushim_mem_blocks_slab(heap->blocks, slot->address);
    uint32_t index = (uint32_t)(slot->meta - extent->cells);
    uint32_t state = atomic_load(&slot->meta->state);
    if (extent->class_index != class_index || extent->segment->heap != heap)
        return "a block is in the cache of another class or heap";
    if (slot->address != cushim_mem_extent_address(extent) + (uint64_t)index * extent->block_bytes)
        return "a block in a cache is not at its address";
    if (state != (slot->tag ? CUSHIM_MEM_DEFERRED : CUSHIM_MEM_FREE))
        return "the state of a block in a cache is wrong";
    return is_in_list(extent, index) ? "a block is in a cache and in its slab's list" : NULL;
}

static const char *fault_of_bucket(const struct cushim_mem_heap *heap,
                                   const struct cushim_mem_cache *cache, unsigned class_index,
                                   size_t *n_bytes, struct sums *sums) {
    const struct cushim_mem_cache_bucket *bucket = &cache->buckets[class_index];
    const struct cushim_mem_slot *older =
        bucket->oldest ? bucket->oldest->older : NULL; /* a ring */
    uint32_t n = 0;
    uint64_t tag = 0;
    for (const struct cushim_mem_slot *slot = bucket->oldest; slot;
         older = slot, slot = slot->younger, n++) {
        const char *fault = fault_of_slot(heap, slot, class_index);
        if (fault)
            return fault;
        if (slot->older != older || slot->tag < tag)
            return "a bucket of a cache is not in order";
        tag = slot->tag;
        *n_bytes += bucket->block_bytes;
        if (tag) {
            sums->n_held_back--;
        } else {
            sums->n_loose--;
            sums->loose_bytes -= bucket->block_bytes;
            sums->cut_used_bytes += bucket->block_bytes;
        }
    }
    return n == bucket->n && (!n || older == bucket->oldest->older) && n <= bucket->most
               ? NULL
               : "a bucket of a cache is wrong";
}

static const char *fault_of_caches(const struct cushim_mem_heap *heap, struct sums *sums) {
    unsigned n_caches = 0;
    size_t most_bytes = cushim_mem_deferred_batch_bytes(heap);
    const struct cushim_mem_cache *cache = heap->caches;
    if (!most_bytes)
        most_bytes = CUSHIM_MEM_CACHE_BYTES;
    for (; cache; cache = cache->next_of_heap, n_caches++) {
        size_t n_bytes = 0;
        if (atomic_load(&cache->heap) != heap || atomic_load(&cache->lock.word))
            return "a cache belongs to another heap, or is in use";
        for (unsigned i = 0; i < cushim_mem_sizeclass_count(); i++) {
            const char *fault = fault_of_bucket(heap, cache, i, &n_bytes, sums);
            if (fault)
                return fault;
        }
        if (n_bytes != cache->cached_bytes || n_bytes > most_bytes)
            return "the bytes of a cache are wrong";
    }
    for (const struct cushim_mem_deferred_row *row = heap->deferred.first; row; row = row->next)
        sums->n_held_back--;
    for (const struct cushim_mem_deferred_line *line = heap->deferred.lines; line;
         line = line->next)
        for (const struct cushim_mem_deferred_row *row = line->first; row; row = row->next)
            sums->n_held_back--;
    if (sums->n_loose)
        return "a free cell is in no list and no cache, or in two";
    if (sums->n_held_back && !fixture_holds)
        return "a deferred block is in no list";
    return n_caches == heap->n_caches ? NULL : "caches and their number differ";
}

static const char *fault_of_heap(struct fixture *fixture, const struct cushim_mem_heap *heap,
                                 struct sums *all) {
    struct sums sums = {0};
    const char *fault = NULL;
    const struct cushim_mem_segment *segment = heap->segments;
    for (; segment && !fault; segment = segment->next)
        fault = fault_of_segment(fixture, segment, &sums);
    if (!fault)
        fault = fault_of_lists(heap, &sums);
    if (!fault)
        fault = fault_of_caches(heap, &sums);
    if (fault)
        return fault;
    all->cut_live_bytes += sums.cut_live_bytes;
    all->asked_bytes += sums.asked_bytes;
    all->held_bytes += sums.held_bytes;
    all->n_segments += sums.n_segments;
    all->free_bytes += sums.free_bytes;
    if (sums.cut_used_bytes != heap->live_bytes)
        return "live_bytes of the heap is wrong";
    if (sums.held_bytes != heap->held_bytes)
        return "held_bytes of the heap is wrong";
    return sums.free_bytes == heap->free_segment_bytes ? NULL : "free_segment_bytes is wrong";
}

const char *fixture_fault(struct fixture *fixture) {
    struct sums all = {0};
    for (unsigned k = 0; k < FIXTURE_HEAPS; k++) {
        const char *fault = cushim_mem_heap_is_open(&fixture->heaps[k])
                                ? fault_of_heap(fixture, &fixture->heaps[k], &all)
                                : NULL;
        if (fault)
            return fault;
    }
    const struct cushim_mem_stats *stats = fixture_stats(fixture);
    if (cushim_mem_stats_read(&stats->live_bytes) != all.asked_bytes)
        return "live_bytes of the statistics is wrong";
    if (cushim_mem_stats_read(&stats->block_bytes) != all.cut_live_bytes)
        return "block_bytes of the statistics is wrong";
    if (cushim_mem_stats_read(&stats->held_bytes) != all.held_bytes)
        return "held_bytes of the statistics is wrong";
    if (cushim_mem_stats_read(&stats->n_segments) != all.n_segments)
        return "n_segments of the statistics is wrong";
    if (cushim_mem_stats_read(&stats->free_segment_bytes) != all.free_bytes)
        return "free_segment_bytes of the statistics is wrong";
    if (fixture_n_enters != fixture_n_leaves)
        return "the capture guard was entered and not left";
    return fake_n_faults() ? "the driver was used wrongly" : NULL;
}

void fixture_check(struct fixture *fixture) {
    const char *fault = fixture_fault(fixture);
    ck_assert_msg(!fault, "%s", fault);
}
