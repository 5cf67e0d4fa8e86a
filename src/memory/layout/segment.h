/*
 * A segment: device memory got from the driver by one call.
 *
 * It is a row of grains, as the driver's own small blocks are, divided into extents in address
 * order.  `starts` has a bit for each grain that an extent starts at, and for each 64 grains the
 * extent that the first of them is inside of, so that any inner address finds its extent by one
 * word of bits.  No extent is shorter than a page, so that in each page at most one starts:
 * `extent_at` has a row a page.  A dedicated segment is one block of its own and has one of each.
 *
 * Lists and counts are written under the pool's lock.  `starts` and `extent_at` are read without
 * it.  What a look-up of a LIVE block's address reads there stays as it is while the block lives:
 * no extent starts between the block's and the address, whatever becomes of its neighbours.
 */
#ifndef CUSHIM_MEMORY_SEGMENT_H
#define CUSHIM_MEMORY_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"
#include "memory/layout/metadata.h"
#include "memory/layout/sizeclass.h"

struct cushim_mem_extent;
struct cushim_mem_heap;

enum {
    CUSHIM_MEM_GUARD_BYTES = 512, /* of a guard: blocks stay aligned */
    CUSHIM_MEM_LEAST_GRAINS = CUSHIM_MEM_PAGE_BYTES / CUSHIM_MEM_GRAIN_BYTES /* of an extent */
};

/* Of 64 grains: which of them an extent starts at, and the one that reaches into the first. */
struct cushim_mem_starts {
    atomic_uint_fast64_t bits;
    _Atomic(struct cushim_mem_extent *) inside;
};

struct cushim_mem_segment {
    uint64_t base;
    size_t n_bytes; /* as asked of the driver */
    size_t n_grains;
    bool is_dedicated;
    uint32_t guard_bytes; /* before and behind each block of it (memory/special/check.h) */
    struct cushim_mem_heap *pool;
    uint64_t generation; /* of the pool when it got this memory */
    atomic_size_t
        used_bytes; /* from the base on: what was ever handed out (memory/provider/fill.h) */
    /* its blocks are handed out no more: the driver, or another process, was told of one */
    atomic_bool is_retired;
    uint32_t n_not_back; /* where retired: its blocks that are not free, or in a thread's cache */
    atomic_uint n_synchronous; /* blocks with SYNC_MEMOPS, and such as it is being set on */
    struct cushim_mem_segment *previous, *next;           /* all segments of the pool */
    struct cushim_mem_segment *older_free, *younger_free; /* those that are wholly free */
    struct cushim_mem_starts *starts;
    _Atomic(struct cushim_mem_extent *) *extent_at;
};

/* A descriptor for memory at base, without extents yet; NULL when host memory is out. */
struct cushim_mem_segment *cushim_mem_segment_create(struct cushim_mem_meta *meta, uint64_t base,
                                                     size_t n_bytes, bool is_dedicated);

/* Give the descriptor back; its extents are gone already. */
void cushim_mem_segment_destroy(struct cushim_mem_meta *meta, struct cushim_mem_segment *segment);

/* Enter an extent of so many grains, or take it out (extent NULL). */
void cushim_mem_segment_enter(struct cushim_mem_segment *segment, uint32_t first_grain,
                              size_t n_grains, struct cushim_mem_extent *extent);

/* The extent that holds an address of this segment; NULL only where nothing is live: while it is
 * being cut or joined, or the segment taken down. */
static inline struct cushim_mem_extent *
cushim_mem_segment_extent(const struct cushim_mem_segment *segment, uint64_t address) {
    uint64_t grain = segment->is_dedicated ? 0 : (address - segment->base) >> CUSHIM_MEM_LOG2_GRAIN;
    if (grain >= segment->n_grains) /* a stale descriptor, reused for a smaller segment */
        return NULL;
    const struct cushim_mem_starts *starts = &segment->starts[grain / 64];
    uint64_t below = ~(uint64_t)0 >> (63 - grain % 64); /* bits 0 .. grain % 64 */
    uint64_t bits = atomic_load_explicit(&starts->bits, memory_order_acquire) & below;
    if (!bits)
        return atomic_load_explicit(&starts->inside, memory_order_acquire);
    uint64_t start = (grain | 63) - (uint64_t)__builtin_clzll(bits);
    return atomic_load_explicit(&segment->extent_at[start / CUSHIM_MEM_LEAST_GRAINS],
                                memory_order_acquire);
}

#endif
