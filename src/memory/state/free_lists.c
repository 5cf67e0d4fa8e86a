#include "memory/state/free_lists.h"

#include <utlist.h>

#include "memory/state/heap_state.h"

/* If large blocks are packed, those of this size and up are not. */
enum { LEAST_OWN_BYTES = 8 << 20 };

/* An idle dedicated segment of such a heap may be a sixteenth larger than the request it serves. */
enum { DEDICATED_WASTE = 16 };

/* More than any device has. */
static const size_t most_bytes = (size_t)1 << 43;

/* Was the segment wholly free before `extent` was taken from it?  Free neighbours are always
 * joined. */
static bool was_whole(const struct cushim_mem_extent *extent) {
    return !extent->before &&
           (!extent->after || (!extent->after->after &&
                               load_relaxed(&extent->after->kind) == CUSHIM_MEM_EXTENT_FREE));
}

/* A block is served from a segment that was wholly free. */
static void note_used(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment) {
    heap->free_segment_bytes -= segment->n_bytes;
    cushim_mem_stats_subtract(&heap->stats->free_segment_bytes, segment->n_bytes);
    DL_DELETE2(heap->watermark.oldest_free, segment, older_free, younger_free);
}

static void count_free(struct cushim_mem_heap *heap, const struct cushim_mem_segment *segment) {
    heap->free_segment_bytes += segment->n_bytes;
    cushim_mem_stats_add(&heap->stats->free_segment_bytes, segment->n_bytes);
}

static void note_free(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment) {
    cushim_mem_watermark_count_wasted(heap, segment, segment->n_bytes);
    count_free(heap, segment);
    DL_APPEND2(heap->watermark.oldest_free, segment, older_free, younger_free);
}

/* If large blocks are packed, all runs are multiples of this, and so are aligned to 64 KiB. */
enum { PACKED_GRAINS = (1 << 16) / CUSHIM_MEM_GRAIN_BYTES };

static struct cushim_mem_extent *take_run(struct cushim_mem_heap *heap, size_t n_grains) {
    if (cushim_mem_heap_packs(heap))
        n_grains = (n_grains + PACKED_GRAINS - 1) / PACKED_GRAINS * PACKED_GRAINS;
    struct cushim_mem_extent *extent =
        cushim_mem_extents_take(&heap->extents, &heap->meta, n_grains);
    if (extent && was_whole(extent))
        note_used(heap, extent->segment);
    return extent;
}

static void give_run(struct cushim_mem_heap *heap, struct cushim_mem_extent *extent) {
    extent = cushim_mem_extents_give(&heap->extents, &heap->meta, extent);
    if (cushim_mem_extent_is_whole(extent))
        note_free(heap, extent->segment);
}

/* The slab becomes a free run again. */
static void give_slab(struct cushim_mem_heap *heap, struct cushim_mem_extent *slab) {
    cushim_mem_pagemap_note_slab(&heap->blocks->map, slab, false);
    give_run(heap, slab);
}

/* A run for the next slab of a class; if none is long enough, one for the smallest slab. */
static struct cushim_mem_extent *take_slab(struct cushim_mem_heap *heap, unsigned class_index) {
    const struct cushim_mem_bucket empty = {0};
    size_t n_grains = cushim_mem_bucket_slab_grains(&heap->buckets[class_index], class_index);
    size_t n_least = cushim_mem_bucket_slab_grains(&empty, class_index);
    struct cushim_mem_extent *extent = take_run(heap, n_grains);
    return extent || n_grains == n_least ? extent : take_run(heap, n_least);
}

static bool take_small(struct cushim_mem_heap *heap, size_t n_bytes,
                       struct cushim_mem_blockref *ref) {
    unsigned class_index = cushim_mem_sizeclass_of(n_bytes);
    struct cushim_mem_bucket *bucket = &heap->buckets[class_index];
    if (cushim_mem_bucket_take(bucket, ref))
        return true;
    struct cushim_mem_extent *extent = take_slab(heap, class_index);
    if (!extent)
        return false;
    if (cushim_mem_bucket_add(bucket, &heap->meta, extent, class_index) != CUSHIM_OK) {
        give_run(heap, extent);
        return false;
    }
    cushim_mem_pagemap_note_slab(&heap->blocks->map, extent, true);
    return cushim_mem_bucket_take(bucket, ref);
}

static bool take_large(struct cushim_mem_heap *heap, size_t n_bytes,
                       struct cushim_mem_blockref *ref) {
    struct cushim_mem_extent *extent = take_run(heap, cushim_mem_grains_of(n_bytes));
    if (!extent)
        return false;
    cushim_mem_extent_make_block(extent, extent->n_grains << CUSHIM_MEM_LOG2_GRAIN);
    *ref = (struct cushim_mem_blockref){extent, 0};
    return true;
}

static bool take_idle(struct cushim_mem_heap *heap, size_t n_bytes,
                      struct cushim_mem_blockref *ref) {
    size_t own_bytes = cushim_mem_provider_round(heap->provider, n_bytes);
    size_t waste_bytes = cushim_mem_heap_packs(heap) ? own_bytes / DEDICATED_WASTE : 0;
    struct cushim_mem_extent *best =
        cushim_mem_extents_fit(&heap->idle, own_bytes, own_bytes + waste_bytes);
    if (!best && cushim_mem_watermark_is_ample(heap, own_bytes) &&
        (waste_bytes = cushim_mem_watermark_waste_bytes(heap, own_bytes)) > 0)
        best = cushim_mem_extents_fit(&heap->idle, own_bytes, own_bytes + waste_bytes);
    if (!best)
        return false;
    cushim_mem_free_lists_remove(heap, best->segment);
    cushim_mem_watermark_count_wasted(heap, best->segment, own_bytes);
    *ref = (struct cushim_mem_blockref){best, 0};
    return true;
}

bool cushim_mem_free_lists_is_dedicated(const struct cushim_mem_heap *heap, size_t n_bytes) {
    bool is_large = n_bytes > CUSHIM_MEM_SLAB_LIMIT_BYTES &&
                    (!cushim_mem_heap_packs(heap) || n_bytes >= LEAST_OWN_BYTES);
    return is_large || n_bytes >= load_relaxed(&heap->policy->dedicated_bytes);
}

static bool take(struct cushim_mem_heap *heap, size_t n_bytes, struct cushim_mem_blockref *ref) {
    if (n_bytes > most_bytes)
        return false;
    if (cushim_mem_free_lists_is_dedicated(heap, n_bytes))
        return take_idle(heap, n_bytes, ref);
    return n_bytes <= CUSHIM_MEM_SLAB_LIMIT_BYTES ? take_small(heap, n_bytes, ref)
                                                  : take_large(heap, n_bytes, ref);
}

/* Count the block if it was taken. */
static bool counted(struct cushim_mem_heap *heap, bool is_taken,
                    const struct cushim_mem_blockref *ref) {
    if (is_taken)
        cushim_mem_watermark_count_taken(heap, ref->extent->block_bytes);
    return is_taken;
}

bool cushim_mem_free_lists_take(struct cushim_mem_heap *heap, size_t n_bytes,
                                struct cushim_mem_blockref *ref) {
    return counted(heap, take(heap, n_bytes, ref), ref);
}

bool cushim_mem_free_lists_take_run(struct cushim_mem_heap *heap, size_t n_bytes,
                                    struct cushim_mem_blockref *ref) {
    return counted(heap, take_large(heap, n_bytes, ref), ref);
}

bool cushim_mem_free_lists_take_cut(struct cushim_mem_heap *heap, unsigned class_index,
                                    struct cushim_mem_blockref *ref) {
    return counted(heap, cushim_mem_bucket_take(&heap->buckets[class_index], ref), ref);
}

/* ---- blocks that the driver, or another process, was told about ---- */

/* Take the extent off its list; returns how many of its blocks must come back. */
static uint32_t retire(struct cushim_mem_heap *heap, struct cushim_mem_extent *extent) {
    int kind = load_relaxed(&extent->kind);
    if (kind == CUSHIM_MEM_EXTENT_BLOCK)
        return 1;
    if (kind == CUSHIM_MEM_EXTENT_ARENA) {
        /* It comes back as one run of pages when it is closed.  It serves on, but no memory a
         * second time until it is opened again, because another process may read it. */
        store_relaxed(&extent->chunk->is_shown, true);
        return 1;
    }
    if (kind == CUSHIM_MEM_EXTENT_SLAB) {
        cushim_mem_bucket_leave(&heap->buckets[extent->class_index], extent);
    } else {
        cushim_mem_extents_unlist(&heap->extents, extent);
        extent->n_free_cells = 0;
    }
    store_release(&extent->kind, CUSHIM_MEM_EXTENT_RETIRED);
    return extent->n_cells - extent->n_free_cells - extent->n_retired_cells;
}

void cushim_mem_free_lists_retire(struct cushim_mem_heap *heap,
                                  struct cushim_mem_segment *segment) {
    struct cushim_mem_extent *extent = &segment->first;
    bool is_late = segment->is_dedicated && /* its block was freed meanwhile, and may be reused */
                   load_relaxed(&extent->single.state) == CUSHIM_MEM_FREE;
    if (segment->is_retired || is_late)
        return;
    store_relaxed(&segment->is_retired, true);
    segment->n_not_back = 0;
    for (; extent; extent = extent->after)
        segment->n_not_back += retire(heap, extent);
}

/* The last block is back, so the segment becomes one extent, on no list. */
static void end_retired(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment) {
    for (struct cushim_mem_extent *extent = &segment->first; extent; extent = extent->after) {
        store_release(&extent->kind, CUSHIM_MEM_EXTENT_RETIRED);
        cushim_mem_pagemap_note_slab(&heap->blocks->map, extent, false);
    }
    cushim_mem_segment_join(&heap->meta, segment);
    segment->first.n_free_cells = segment->first.n_retired_cells = 0;
    count_free(heap, segment);
    DL_PREPEND2(heap->watermark.oldest_free, segment, older_free, younger_free); /* so that it goes
                                                                                  * first */
}

static void give_retired(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment,
                         const struct cushim_mem_blockref *ref) {
    struct cushim_mem_extent *extent = ref->extent;
    extent->cells[ref->index].next_free = extent->first_free_cell;
    extent->first_free_cell = ref->index;
    extent->n_free_cells++;
    if (--segment->n_not_back == 0)
        end_retired(heap, segment);
}

void cushim_mem_free_lists_show(struct cushim_mem_heap *heap, uint64_t address) {
    struct cushim_mem_lookup lookup;
    /* since its handle was asked for, the block may have been freed, and its segment, too */
    if (!cushim_mem_blocks_find(heap->blocks, address, &lookup) || lookup.segment->heap != heap ||
        lookup.state != CUSHIM_MEM_LIVE)
        return;
    if (load_relaxed(&lookup.ref.extent->kind) == CUSHIM_MEM_EXTENT_SLAB)
        cushim_mem_block_show(&lookup);
    else
        cushim_mem_free_lists_retire(heap, lookup.segment);
}

/* A segment with retired cells goes when nothing else in it is in use. */
static void retire_if_unused(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment) {
    for (const struct cushim_mem_extent *extent = &segment->first; extent; extent = extent->after) {
        /* is anything of the extent in use or in a cache? */
        int kind = load_relaxed(&extent->kind);
        bool is_slab = kind == CUSHIM_MEM_EXTENT_SLAB;
        if (kind != CUSHIM_MEM_EXTENT_FREE &&
            !(is_slab && extent->n_free_cells + extent->n_retired_cells == extent->n_cells))
            return;
    }
    cushim_mem_free_lists_retire(heap, segment);
    end_retired(heap, segment);
}

static void give_cell(struct cushim_mem_heap *heap, const struct cushim_mem_blockref *ref) {
    struct cushim_mem_extent *extent = ref->extent;
    if (cushim_mem_block_is_shown(&extent->cells[ref->index])) {
        extent->n_retired_cells++;
        extent->segment->has_retired_cells = true;
        return;
    }
    struct cushim_mem_extent *slab =
        cushim_mem_bucket_give(&heap->buckets[extent->class_index], ref);
    if (slab)
        give_slab(heap, slab);
}

void cushim_mem_free_lists_give(struct cushim_mem_heap *heap,
                                const struct cushim_mem_blockref *ref) {
    struct cushim_mem_extent *extent = ref->extent;
    struct cushim_mem_segment *segment = extent->segment;
    cushim_mem_heap_count(heap, -(ptrdiff_t)extent->block_bytes, 0);
    struct cushim_mem_block_meta *meta = &extent->cells[ref->index];
    bool is_shown = cushim_mem_block_is_shown(meta);
    store_release(&meta->state, CUSHIM_MEM_FREE | (is_shown ? CUSHIM_MEM_BLOCK_SHOWN : 0));
    if (segment->is_retired)
        give_retired(heap, segment, ref);
    else if (segment->is_dedicated)
        cushim_mem_free_lists_put_back(heap, segment);
    else if (cushim_mem_extent_is_cut(extent))
        give_cell(heap, ref);
    else
        give_run(heap, extent);
    if (segment->has_retired_cells && !segment->is_retired)
        retire_if_unused(heap, segment);
}

void cushim_mem_free_lists_drain(struct cushim_mem_heap *heap) {
    for (unsigned i = 0; i < cushim_mem_sizeclass_count(); i++) {
        struct cushim_mem_extent *slab;
        while ((slab = cushim_mem_bucket_drain(&heap->buckets[i])))
            give_slab(heap, slab);
    }
}

void cushim_mem_free_lists_remove(struct cushim_mem_heap *heap,
                                  struct cushim_mem_segment *segment) {
    struct cushim_mem_extents *extents = segment->is_dedicated ? &heap->idle : &heap->extents;
    if (!segment->is_retired)
        cushim_mem_extents_unlist(extents, &segment->first);
    note_used(heap, segment);
}

void cushim_mem_free_lists_put_back(struct cushim_mem_heap *heap,
                                    struct cushim_mem_segment *segment) {
    struct cushim_mem_extents *extents = segment->is_dedicated ? &heap->idle : &heap->extents;
    if (!segment->is_retired)
        cushim_mem_extents_list(extents, &segment->first);
    note_free(heap, segment);
}
