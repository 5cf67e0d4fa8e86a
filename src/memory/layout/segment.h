/*
 * A segment: memory that one driver call gave, and the extents into which it is divided.
 *
 * It is a row of grains, like the pages of the driver's small blocks.  An extent is a run of
 * grains: free, cut into small blocks (a slab), or one block.  So blocks lie as close together as
 * the driver's own.  `starts` has a bit for each grain at which an extent starts, and for each 64
 * grains the extent that contains the first of them, so one word of bits leads from any address to
 * its extent.  No extent is shorter than a page, so at most one starts in each page, and
 * `extent_at` has one row for each page.  A dedicated segment is a single block and has one of
 * each.
 *
 * Free extents wait in lists by size, eight per doubling.  One that becomes free joins its free
 * neighbours at once.
 *
 * The heap's lock guards all of it.  `starts`, `extent_at`, and an extent's `kind` and `cells` are
 * read without the lock.  What a look-up reads there for an address in a LIVE block does not change
 * while the block lives, because no extent starts between the block's start and the address,
 * whatever happens to its neighbours.
 */
#pragma once

#include "base/atomics.h"
#include "memory/layout/metadata.h"
#include "memory/layout/sizeclass.h"

enum {
    CUSHIM_MEM_GUARD_BYTES = 512, /* of a guard: blocks stay aligned */
    CUSHIM_MEM_LEAST_GRAINS = CUSHIM_MEM_PAGE_BYTES / CUSHIM_MEM_GRAIN_BYTES /* of an extent */
};

/* Of 64 grains: a bit for each at which an extent starts, and the extent of the first grain. */
struct cushim_mem_starts {
    atomic_uint_fast64_t bits;
    _Atomic(struct cushim_mem_extent *) inside;
};

/* The states of a block; a cell that was never handed out is FREE. */
enum cushim_mem_state { CUSHIM_MEM_FREE, CUSHIM_MEM_DEFERRED, CUSHIM_MEM_LIVE };

/* What we know about one block.  The `cells` of a slab or a chunk are an array of these.  `state`
 * goes LIVE -> DEFERRED by compare and exchange, without the lock. */
struct cushim_mem_block_meta {
    _Atomic uint32_t state; /* a state; the bits of block.h above it are set only while LIVE, except
                             * SHOWN */
    union {
        uint32_t
            next_free; /* while FREE: index of the next free cell of the slab, under the lock */
        _Atomic uint32_t user; /* otherwise: the value by which the heap's owner knows the block */
    };
    atomic_size_t asked_bytes; /* valid while LIVE or DEFERRED */
};

enum { CUSHIM_MEM_STATE_BITS = 2 };

/* The state in a cell's word. */
static inline enum cushim_mem_state cushim_mem_state_of(uint32_t word) {
    return (enum cushim_mem_state)(word & ((1u << CUSHIM_MEM_STATE_BITS) - 1));
}

enum cushim_mem_extent_kind {
    CUSHIM_MEM_EXTENT_FREE,
    CUSHIM_MEM_EXTENT_SLAB,
    CUSHIM_MEM_EXTENT_BLOCK,
    CUSHIM_MEM_EXTENT_ARENA,  /* a chunk of the arena */
    CUSHIM_MEM_EXTENT_RETIRED /* a slab, or free memory, of a segment that serves nothing more */
};

struct cushim_mem_extent {
    /* these are read by look-ups, in one cache line */
    struct cushim_mem_segment *segment;
    size_t n_grains;
    uint32_t first_grain;
    atomic_int kind; /* enum cushim_mem_extent_kind */
    /* n_cells blocks of block_bytes; none if it is free */
    size_t block_bytes;
    uint32_t n_cells;
    uint32_t inverse;                    /* of a slab's block_bytes (cushim_mem_extent_index) */
    struct cushim_mem_block_meta *cells; /* [n_cells]; of one block `single`; NULL: none */
    uint16_t class_index;
    /* the lock guards the rest */
    struct cushim_mem_extent *before, *after;  /* neighbours in the segment, by address */
    struct cushim_mem_extent *previous, *next; /* in a free list, or among the slabs of a bucket */
    uint32_t n_free_cells, first_free_cell;
    uint32_t n_retired_cells; /* of a slab: blocks that were shown and then freed, so they are never
                               * reused */
    struct cushim_mem_chunk *chunk; /* of kind ARENA; its cells are the chunk's own */
    struct cushim_mem_block_meta single;
};

struct cushim_mem_segment {
    uint64_t base;
    size_t n_bytes; /* as asked of the driver */
    size_t n_grains;
    bool is_dedicated;
    uint32_t guard_bytes; /* before and after each block of it (memory/check.h) */
    struct cushim_mem_heap *heap;
    uint64_t generation;      /* of the heap when it got this memory */
    atomic_size_t used_bytes; /* from the base to the end of what was ever handed out
                               * (memory/provider/fill.h) */
    bool has_retired_cells;   /* under the lock */
    /* its blocks are never handed out again: the driver was told about one; or it is a single
     * block, or a chunk of the arena, that another process was told about; or only retired cells
     * are left */
    atomic_bool is_retired;
    uint32_t n_not_back; /* if retired: its blocks that are not free, or in a thread's cache */
    atomic_uint n_synchronous; /* blocks that have SYNC_MEMOPS, or are getting it */
    struct cushim_mem_segment *previous, *next;           /* all segments of the heap */
    struct cushim_mem_segment *older_free, *younger_free; /* those that are wholly free */
    _Alignas(64) struct cushim_mem_extent first; /* which the others join when all is free */
    _Atomic(struct cushim_mem_extent *) *extent_at;
    struct cushim_mem_starts starts[];
};

/* A block: the extent it lies in and its cell there. */
struct cushim_mem_blockref {
    struct cushim_mem_extent *extent;
    uint32_t index;
};

enum {
    CUSHIM_MEM_EXTENT_DOUBLINGS = 31,
    CUSHIM_MEM_EXTENT_LISTS = 8 * CUSHIM_MEM_EXTENT_DOUBLINGS
};

/* All zero is empty. */
struct cushim_mem_extents {
    struct cushim_mem_extent *lists[CUSHIM_MEM_EXTENT_LISTS];
};

/* A descriptor for memory at base.  It has one extent, of kind FREE and on no list.  NULL: host
 * memory is out. */
struct cushim_mem_segment *cushim_mem_segment_create(struct cushim_mem_meta *meta, uint64_t base,
                                                     size_t n_bytes, bool is_dedicated);

/* All extents, which are on no list, become one extent without cells. */
void cushim_mem_segment_join(struct cushim_mem_meta *meta, struct cushim_mem_segment *segment);

/* The same, and give the descriptor back. */
void cushim_mem_segment_destroy(struct cushim_mem_meta *meta, struct cushim_mem_segment *segment);

/* Enter an extent of n grains, or take it out (extent NULL). */
void cushim_mem_segment_enter(struct cushim_mem_segment *segment, uint32_t first_grain,
                              size_t n_grains, struct cushim_mem_extent *extent);

/* The extent that contains an address of this segment; NULL only if nothing there is live: while it
 * is being cut or joined, or the segment is being taken down. */
static inline struct cushim_mem_extent *
cushim_mem_segment_extent(const struct cushim_mem_segment *segment, uint64_t address) {
    uint64_t grain = segment->is_dedicated ? 0 : (address - segment->base) >> CUSHIM_MEM_LOG2_GRAIN;
    if (grain >= segment->n_grains) /* a stale descriptor of a smaller segment now */
        return NULL;
    const struct cushim_mem_starts *starts = &segment->starts[grain / 64];
    uint64_t below = ~(uint64_t)0 >> (63 - grain % 64); /* bits 0 .. grain % 64 */
    uint64_t bits = load_acquire(&starts->bits) & below;
    if (!bits)
        return load_acquire(&starts->inside);
    uint64_t start = (grain | 63) - (uint64_t)__builtin_clzll(bits);
    return load_acquire(&segment->extent_at[start / CUSHIM_MEM_LEAST_GRAINS]);
}

/* ---- extents ---- */

static inline uint64_t cushim_mem_extent_address(const struct cushim_mem_extent *extent) {
    return extent->segment->base + ((uint64_t)extent->first_grain << CUSHIM_MEM_LOG2_GRAIN);
}

/*
 * Finds the block of an extent that contains an offset, without a division; an inverse of 0 means
 * one block (cushim_mem_extent_index).  Blocks of slabs are whole grains, few enough that grains /
 * block = grains * (2^31 / block + 1) / 2^31 exactly: grains * block < 2^31
 * (tests/unit/memory/layout/sizeclass_buckets.c tries all).
 */
static inline uint32_t cushim_mem_extent_inverse(size_t block_bytes) {
    return ((uint32_t)1 << 31) / (uint32_t)(block_bytes >> CUSHIM_MEM_LOG2_GRAIN) + 1;
}

/* From now on the extent is one block of block_bytes. */
void cushim_mem_extent_make_block(struct cushim_mem_extent *extent, size_t block_bytes);

/* Does it have cells for blocks of one class?  An extent that was free when it was retired has
 * none.
 */
static inline bool cushim_mem_extent_is_cut(const struct cushim_mem_extent *extent) {
    int kind = load_relaxed(&extent->kind);
    return kind == CUSHIM_MEM_EXTENT_SLAB || kind == CUSHIM_MEM_EXTENT_RETIRED;
}

static inline bool cushim_mem_extent_is_whole(const struct cushim_mem_extent *extent) {
    return extent->n_grains == extent->segment->n_grains;
}

/* Does the segment have room for only one block, live or not?  While the block is LIVE, that stays
 * so.
 */
static inline bool cushim_mem_segment_is_one_block(const struct cushim_mem_segment *segment) {
    const struct cushim_mem_extent *extent = &segment->first;
    return load_acquire(&extent->kind) == CUSHIM_MEM_EXTENT_BLOCK &&
           cushim_mem_extent_is_whole(extent);
}

/* Put a free extent on its list, and take it off. */
void cushim_mem_extents_list(struct cushim_mem_extents *extents, struct cushim_mem_extent *extent);
void cushim_mem_extents_unlist(struct cushim_mem_extents *extents,
                               struct cushim_mem_extent *extent);

/**
 * Take a run of grains: best fit by list, lowest waste first.  The rest is split off if it is large
 * enough for an extent, and otherwise taken, too.
 * @return an extent of n_grains or more that is on no list, kind still FREE; NULL if none fits, or
 *         host memory for the rest is out
 */
struct cushim_mem_extent *cushim_mem_extents_take(struct cushim_mem_extents *extents,
                                                  struct cushim_mem_meta *meta, size_t n_grains);

/* The smallest listed extent that has n_bytes to most_bytes, or NULL; it stays listed. */
struct cushim_mem_extent *cushim_mem_extents_fit(const struct cushim_mem_extents *extents,
                                                 size_t n_bytes, size_t most_bytes);

/* One of the largest listed extents, or NULL; it stays listed. */
struct cushim_mem_extent *cushim_mem_extents_largest(const struct cushim_mem_extents *extents);

/* Put a run back, joined with its free neighbours; returns the free extent that now contains it.
 */
struct cushim_mem_extent *cushim_mem_extents_give(struct cushim_mem_extents *extents,
                                                  struct cushim_mem_meta *meta,
                                                  struct cushim_mem_extent *extent);
