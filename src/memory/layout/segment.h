/*
 * A segment: device memory got from the driver by one call.
 *
 * It is a row of pages, divided into extents in address order.  `extent_at` has the extent at its
 * first page and at each 64th of the segment, and `starts` a bit there, so that any inner address
 * finds its extent in one word of bits.  A dedicated segment is one block of its own and has a row
 * of one.
 *
 * Lists and counts are written under the pool's lock.  `extent_at` and `starts` are read without
 * it.
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

enum { CUSHIM_MEM_GUARD_BYTES = 512 }; /* of a guard: blocks stay aligned */

struct cushim_mem_segment {
    uint64_t base;
    size_t n_bytes; /* as asked of the driver */
    uint32_t n_pages;
    uint32_t n_rows; /* n_pages, or 1 where dedicated */
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
    _Atomic(struct cushim_mem_extent *) *extent_at;       /* [n_rows] */
    atomic_uint_fast64_t *starts;                         /* [ceil(n_rows / 64)] */
};

/* A descriptor for memory at base, without extents yet; NULL when host memory is out. */
struct cushim_mem_segment *cushim_mem_segment_create(struct cushim_mem_meta *meta, uint64_t base,
                                                     size_t n_bytes, bool is_dedicated);

/* Give the descriptor back; its extents are gone already. */
void cushim_mem_segment_destroy(struct cushim_mem_meta *meta, struct cushim_mem_segment *segment);

/* Enter an extent of so many pages, or take it out (extent NULL). */
void cushim_mem_segment_enter(struct cushim_mem_segment *segment, uint32_t first_page,
                              uint32_t n_pages, struct cushim_mem_extent *extent);

/* The extent that holds an address of this segment; NULL only where nothing is live: while it is
 * being cut or joined, or the segment taken down. */
static inline struct cushim_mem_extent *
cushim_mem_segment_extent(const struct cushim_mem_segment *segment, uint64_t address) {
    uint64_t page = segment->is_dedicated ? 0 : (address - segment->base) >> CUSHIM_MEM_LOG2_PAGE;
    if (page >= segment->n_rows) /* a stale descriptor, reused for a smaller segment */
        return NULL;
    uint32_t word = (uint32_t)(page / 64);
    uint64_t below = ~(uint64_t)0 >> (63 - page % 64); /* bits 0 .. page % 64 */
    uint64_t bits = atomic_load_explicit(&segment->starts[word], memory_order_acquire) & below;
    if (!bits)
        return NULL;
    uint32_t start = word * 64 + 63 - (uint32_t)__builtin_clzll(bits);
    return atomic_load_explicit(&segment->extent_at[start], memory_order_acquire);
}

#endif
