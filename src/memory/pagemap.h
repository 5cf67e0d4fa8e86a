/*
 * The page map: from a device address to the segment that holds it, in two loads, and to the slab,
 * where a page is one's.
 *
 * Pages of 64 KiB; addresses up to 2^49, which is what the driver hands out.  A page without a
 * segment is NULL: foreign memory.  Leaves are mapped when first needed and stay.  Look-ups take no
 * lock and may race with set and clear: they see the old or the new entry.
 *
 * A range is *vacated* where a segment was whose context went, until another segment is set there
 * or somebody else's memory is found there: a bit for each 4 KiB, which are the system's pages, so
 * that no mapping and no large allocation ends inside one.  While no context went, nothing is, and
 * to be told so costs one load.
 */
#ifndef CUSHIM_MEMORY_PAGEMAP_H
#define CUSHIM_MEMORY_PAGEMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"
#include "memory/sizeclass.h"

enum {
    CUSHIM_MEM_LOG2_ADDRESS = 49,
    CUSHIM_MEM_LOG2_LEAF = 16, /* pages in a leaf: 4 GiB of addresses */
    CUSHIM_MEM_LEAF_PAGES = 1 << CUSHIM_MEM_LOG2_LEAF,
    CUSHIM_MEM_LOG2_BIT = 12, /* bytes that a bit stands for */
    CUSHIM_MEM_LEAF_BITS = CUSHIM_MEM_LEAF_PAGES << (CUSHIM_MEM_LOG2_PAGE - CUSHIM_MEM_LOG2_BIT),
    CUSHIM_MEM_ROOT_LEAVES =
        1 << (CUSHIM_MEM_LOG2_ADDRESS - CUSHIM_MEM_LOG2_PAGE - CUSHIM_MEM_LOG2_LEAF)
};

struct cushim_mem_extent;
struct cushim_mem_segment;

struct cushim_mem_leaf {
    _Atomic(struct cushim_mem_segment *) segments[CUSHIM_MEM_LEAF_PAGES];
    _Atomic(struct cushim_mem_extent *) slabs[CUSHIM_MEM_LEAF_PAGES]; /* written by the shelf */
    atomic_uint_fast64_t vacated[CUSHIM_MEM_LEAF_BITS / 64];          /* touched where set */
};

/* All zero is an empty map; 1 MiB of address space, touched where it is used. */
struct cushim_mem_pagemap {
    _Atomic(struct cushim_mem_leaf *) leaves[CUSHIM_MEM_ROOT_LEAVES];
    atomic_bool has_vacated; /* something is, or was */
};

static inline struct cushim_mem_leaf *cushim_mem_pagemap_leaf(struct cushim_mem_pagemap *map,
                                                              uint64_t address) {
    uint64_t root = address >> (CUSHIM_MEM_LOG2_PAGE + CUSHIM_MEM_LOG2_LEAF);
    return root < CUSHIM_MEM_ROOT_LEAVES
               ? atomic_load_explicit(&map->leaves[root], memory_order_acquire)
               : NULL;
}

static inline uint64_t cushim_mem_pagemap_place(uint64_t address) {
    return (address >> CUSHIM_MEM_LOG2_PAGE) & (CUSHIM_MEM_LEAF_PAGES - 1);
}

/* The segment of an address, or NULL. */
static inline struct cushim_mem_segment *cushim_mem_pagemap_find(struct cushim_mem_pagemap *map,
                                                                 uint64_t address) {
    struct cushim_mem_leaf *leaf = cushim_mem_pagemap_leaf(map, address);
    return leaf ? atomic_load_explicit(&leaf->segments[cushim_mem_pagemap_place(address)],
                                       memory_order_acquire)
                : NULL;
}

/* The slab of an address, or NULL. */
static inline struct cushim_mem_extent *cushim_mem_pagemap_slab(struct cushim_mem_pagemap *map,
                                                                uint64_t address) {
    struct cushim_mem_leaf *leaf = cushim_mem_pagemap_leaf(map, address);
    return leaf ? atomic_load_explicit(&leaf->slabs[cushim_mem_pagemap_place(address)],
                                       memory_order_acquire)
                : NULL;
}

static inline bool cushim_mem_pagemap_has_vacated(struct cushim_mem_pagemap *map) {
    return atomic_load_explicit(&map->has_vacated, memory_order_relaxed);
}

/* Is the address vacated? */
static inline bool cushim_mem_pagemap_is_vacated(struct cushim_mem_pagemap *map, uint64_t address) {
    struct cushim_mem_leaf *leaf =
        cushim_mem_pagemap_has_vacated(map) ? cushim_mem_pagemap_leaf(map, address) : NULL;
    uint64_t place = (address >> CUSHIM_MEM_LOG2_BIT) & (CUSHIM_MEM_LEAF_BITS - 1);
    uint64_t bit = (uint64_t)1 << place % 64;
    return leaf && atomic_load_explicit(&leaf->vacated[place / 64], memory_order_relaxed) & bit;
}

/**
 * Enter all pages that [base, base + n_bytes) touches; none of them is vacated any more, nor a
 * slab's.
 * @param base     a multiple of the page size
 * @param segment  what look-ups will answer
 * @return CUSHIM_OK | CUSHIM_INVALID (not aligned, or beyond 2^49) | CUSHIM_NOMEM (no page was
 * entered) Threads  any, for ranges that do not overlap
 */
enum cushim_status cushim_mem_pagemap_set(struct cushim_mem_pagemap *map, uint64_t base,
                                          size_t n_bytes, struct cushim_mem_segment *segment);

/* Pages of a range that was set are a slab's from now on. */
void cushim_mem_pagemap_set_slab(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                                 struct cushim_mem_extent *slab);

/*
 * Make pages that are still the segment's foreign again, or pages that are still the slab's no
 * slab's.  Where a context went, another's segment may lie there before we hear of it.
 */
void cushim_mem_pagemap_clear(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                              struct cushim_mem_segment *segment);
void cushim_mem_pagemap_clear_slab(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                                   struct cushim_mem_extent *slab);

/* The segment of a range that was set goes with its context: its pages are vacated from now on. */
void cushim_mem_pagemap_vacate(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes);

/* Any range of addresses is somebody else's now: what 4 KiB lie wholly in it are not vacated. */
void cushim_mem_pagemap_resettle(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes);

#endif
