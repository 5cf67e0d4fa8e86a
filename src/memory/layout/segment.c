#include "memory/layout/segment.h"

#include <string.h>

#include <utlist.h>

#include "base/bits.h"

static size_t segment_bytes(size_t n_grains) {
    return sizeof(struct cushim_mem_segment) +
           (n_grains + 63) / 64 * sizeof(struct cushim_mem_starts);
}

/* The rows stay with the descriptor's piece of memory, so there are enough for any segment whose
 * descriptor may get this piece. */
static size_t rows_bytes(size_t n_grains) {
    size_t piece_bytes = (size_t)1 << (cushim_log2_floor(segment_bytes(n_grains) - 1) + 1);
    size_t most_grains = n_grains == 1 ? 1
                                       : (piece_bytes - sizeof(struct cushim_mem_segment)) /
                                             sizeof(struct cushim_mem_starts) * 64;
    return (most_grains + CUSHIM_MEM_LEAST_GRAINS - 1) / CUSHIM_MEM_LEAST_GRAINS *
           sizeof(struct cushim_mem_extent *);
}

static enum cushim_mem_meta_type type_of(bool is_dedicated) {
    return is_dedicated ? CUSHIM_MEM_META_DEDICATED : CUSHIM_MEM_META_SEGMENT;
}

enum {
    SEGMENT_LINK = offsetof(struct cushim_mem_segment, previous),
    EXTENT_LINK = offsetof(struct cushim_mem_extent, previous)
};

/* Clear all fields but the links, which a late look-up follows. */
static void clear_extent(struct cushim_mem_extent *extent) {
    enum { AT = offsetof(struct cushim_mem_extent, n_grains) };
    memset((char *)extent + AT, 0, sizeof *extent - AT);
}

/* The same for a segment: its heap, its rows and the extent in it stay for good. */
static void clear(struct cushim_mem_segment *segment, size_t n_grains) {
    enum {
        POOL = offsetof(struct cushim_mem_segment, heap),
        GENERATION = offsetof(struct cushim_mem_segment, generation),
        FIRST = offsetof(struct cushim_mem_segment, first),
        STARTS = offsetof(struct cushim_mem_segment, starts)
    };
    memset(segment, 0, POOL);
    memset((char *)segment + GENERATION, 0, FIRST - GENERATION);
    clear_extent(&segment->first);
    memset((char *)segment + STARTS, 0, segment_bytes(n_grains) - STARTS);
}

struct cushim_mem_segment *cushim_mem_segment_create(struct cushim_mem_meta *meta, uint64_t base,
                                                     size_t n_bytes, bool is_dedicated) {
    size_t n_grains = is_dedicated ? 1 : cushim_mem_grains_of(n_bytes);
    struct cushim_mem_segment *segment = cushim_mem_meta_obtain_as(
        meta, type_of(is_dedicated), segment_bytes(n_grains), SEGMENT_LINK);
    if (!segment)
        return NULL;
    clear(segment, n_grains);
    if (segment->extent_at)
        memset((void *)segment->extent_at, 0, rows_bytes(n_grains));
    else
        segment->extent_at = cushim_mem_meta_obtain(meta, rows_bytes(n_grains));
    if (!segment->extent_at) {
        cushim_mem_meta_release_as(meta, type_of(is_dedicated), segment, segment_bytes(n_grains),
                                   SEGMENT_LINK);
        return NULL;
    }
    segment->base = base;
    segment->n_bytes = n_bytes;
    segment->n_grains = cushim_mem_grains_of(n_bytes);
    segment->is_dedicated = is_dedicated;
    segment->first.segment = segment;
    segment->first.n_grains = segment->n_grains;
    cushim_mem_segment_enter(segment, 0, segment->n_grains, &segment->first);
    return segment;
}

void cushim_mem_segment_enter(struct cushim_mem_segment *segment, uint32_t first_grain,
                              size_t n_grains, struct cushim_mem_extent *extent) {
    struct cushim_mem_starts *starts = &segment->starts[first_grain / 64];
    uint64_t bit = (uint64_t)1 << first_grain % 64;
    store_release(&segment->extent_at[first_grain / CUSHIM_MEM_LEAST_GRAINS], extent);
    if (extent)
        atomic_fetch_or_explicit(&starts->bits, bit, memory_order_release);
    else
        atomic_fetch_and_explicit(&starts->bits, ~bit, memory_order_release);
    size_t end = segment->is_dedicated ? 0 : first_grain + n_grains;
    for (size_t grain = (first_grain | 63) + (size_t)1; grain < end; grain += 64)
        store_release(&segment->starts[grain / 64].inside, extent);
}

/* ---- extents ---- */

/* The list of extents of n_grains, by their leading bit and the next three bits. */
static unsigned list_of(size_t n_grains) {
    unsigned doubling = cushim_log2_floor(n_grains);
    if (doubling >= CUSHIM_MEM_EXTENT_DOUBLINGS) /* whole large segments are all in the last list */
        return CUSHIM_MEM_EXTENT_LISTS - 1;
    return 8 * doubling + (unsigned)((n_grains << 3 >> doubling) & 7);
}

void cushim_mem_extents_list(struct cushim_mem_extents *extents, struct cushim_mem_extent *extent) {
    DL_PREPEND2(extents->lists[list_of(extent->n_grains)], extent, previous, next);
}

void cushim_mem_extents_unlist(struct cushim_mem_extents *extents,
                               struct cushim_mem_extent *extent) {
    DL_DELETE2(extents->lists[list_of(extent->n_grains)], extent, previous, next);
}

void cushim_mem_extent_make_block(struct cushim_mem_extent *extent, size_t block_bytes) {
    extent->block_bytes = block_bytes;
    extent->n_cells = 1;
    extent->inverse = 0;
    extent->cells = &extent->single;
    store_release(&extent->kind, CUSHIM_MEM_EXTENT_BLOCK);
}

/* Give the cells of an extent back, if it has any. */
static void give_cells(struct cushim_mem_meta *meta, struct cushim_mem_extent *extent) {
    if (extent->cells && extent->cells != &extent->single)
        cushim_mem_meta_release_as(meta, CUSHIM_MEM_META_CELLS, extent->cells,
                                   extent->n_cells * sizeof *extent->cells, 0);
    __atomic_store_n(&extent->cells, NULL, __ATOMIC_RELAXED); /* look-ups may read both */
    __atomic_store_n(&extent->n_cells, 0, __ATOMIC_RELAXED);
}

/* The bytes of an extent.  A dedicated segment has what the driver was asked for, which may be less
 * than its grains. */
static size_t bytes_of(const struct cushim_mem_extent *extent) {
    return cushim_least(extent->n_grains << CUSHIM_MEM_LOG2_GRAIN, extent->segment->n_bytes);
}

/* How far a list is searched. */
enum { DEPTH = 16 };

/* Sizes in one list differ by less than an eighth, so look only at a few for the smallest that
 * fits. */
static struct cushim_mem_extent *fit_in(struct cushim_mem_extent *head, size_t n_bytes,
                                        size_t most_bytes) {
    struct cushim_mem_extent *best = NULL;
    for (int depth = 0; head && depth < DEPTH; head = head->next, depth++) {
        size_t head_bytes = bytes_of(head);
        if (head_bytes >= n_bytes && head_bytes <= most_bytes &&
            (!best || head_bytes < bytes_of(best)))
            best = head;
    }
    return best;
}

struct cushim_mem_extent *cushim_mem_extents_fit(const struct cushim_mem_extents *extents,
                                                 size_t n_bytes, size_t most_bytes) {
    unsigned last = list_of((most_bytes >> CUSHIM_MEM_LOG2_GRAIN) + 1);
    struct cushim_mem_extent *fit = NULL;
    for (unsigned list = list_of(cushim_mem_grains_of(n_bytes)); !fit && list <= last; list++)
        fit = fit_in(extents->lists[list], n_bytes, most_bytes);
    return fit;
}

struct cushim_mem_extent *cushim_mem_extents_largest(const struct cushim_mem_extents *extents) {
    for (unsigned list = CUSHIM_MEM_EXTENT_LISTS; list-- > 0;) {
        if (extents->lists[list])
            return extents->lists[list]->previous; /* the one that was idle longest */
    }
    return NULL;
}

struct cushim_mem_extent *cushim_mem_extents_take(struct cushim_mem_extents *extents,
                                                  struct cushim_mem_meta *meta, size_t n_grains) {
    if (n_grains < CUSHIM_MEM_LEAST_GRAINS)
        n_grains = CUSHIM_MEM_LEAST_GRAINS;
    struct cushim_mem_extent *extent =
        cushim_mem_extents_fit(extents, n_grains << CUSHIM_MEM_LOG2_GRAIN, SIZE_MAX);
    if (!extent)
        return NULL;
    if (extent->n_grains - n_grains < CUSHIM_MEM_LEAST_GRAINS) {
        cushim_mem_extents_unlist(extents, extent);
        return extent;
    }
    struct cushim_mem_extent *rest =
        cushim_mem_meta_obtain_as(meta, CUSHIM_MEM_META_EXTENT, sizeof *rest, EXTENT_LINK);
    if (!rest)
        return NULL;
    clear_extent(rest);
    cushim_mem_extents_unlist(extents, extent);
    rest->segment = extent->segment;
    rest->first_grain = extent->first_grain + (uint32_t)n_grains;
    rest->n_grains = extent->n_grains - n_grains;
    rest->before = extent;
    rest->after = extent->after;
    if (rest->after)
        rest->after->before = rest;
    extent->after = rest;
    extent->n_grains = n_grains;
    cushim_mem_segment_enter(rest->segment, rest->first_grain, rest->n_grains, rest);
    cushim_mem_extents_list(extents, rest);
    return extent;
}

/* Join `right` with `left`; neither is on a list. */
static void join(struct cushim_mem_meta *meta, struct cushim_mem_extent *left,
                 struct cushim_mem_extent *right) {
    left->n_grains += right->n_grains;
    left->after = right->after;
    if (left->after)
        left->after->before = left;
    cushim_mem_segment_enter(right->segment, right->first_grain, right->n_grains, NULL);
    cushim_mem_meta_release_as(meta, CUSHIM_MEM_META_EXTENT, right, sizeof *right, EXTENT_LINK);
    cushim_mem_segment_enter(left->segment, left->first_grain, left->n_grains, left);
}

void cushim_mem_segment_join(struct cushim_mem_meta *meta, struct cushim_mem_segment *segment) {
    struct cushim_mem_extent *first = &segment->first;
    for (struct cushim_mem_extent *extent = first; extent; extent = extent->after)
        give_cells(meta, extent);
    while (first->after)
        join(meta, first, first->after);
}

void cushim_mem_segment_destroy(struct cushim_mem_meta *meta, struct cushim_mem_segment *segment) {
    /* of a dedicated segment only the first grain is entered */
    size_t n_grains = segment->is_dedicated ? 1 : segment->n_grains;
    cushim_mem_segment_join(meta, segment);
    cushim_mem_segment_enter(segment, 0, segment->n_grains, NULL);
    cushim_mem_meta_release_as(meta, type_of(segment->is_dedicated), segment,
                               segment_bytes(n_grains), SEGMENT_LINK);
}

static bool is_free(const struct cushim_mem_extent *extent) {
    return extent && load_relaxed(&extent->kind) == CUSHIM_MEM_EXTENT_FREE;
}

struct cushim_mem_extent *cushim_mem_extents_give(struct cushim_mem_extents *extents,
                                                  struct cushim_mem_meta *meta,
                                                  struct cushim_mem_extent *extent) {
    store_release(&extent->kind, CUSHIM_MEM_EXTENT_FREE);
    give_cells(meta, extent);
    if (is_free(extent->after)) {
        cushim_mem_extents_unlist(extents, extent->after);
        join(meta, extent, extent->after);
    }
    if (is_free(extent->before)) {
        struct cushim_mem_extent *left = extent->before;
        cushim_mem_extents_unlist(extents, left);
        join(meta, left, extent);
        extent = left;
    }
    cushim_mem_extents_list(extents, extent);
    return extent;
}
