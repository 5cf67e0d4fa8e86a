/*
 * Size classes: the block size that serves a small request, and the bucket of a class.
 *
 * Fine, the default: 512-byte steps up to 4 KiB, then eight classes per doubling up to 1 MiB, so
 * that at most 12.5 % of a block is waste.  Above 128 KiB a class ends where one block less fits
 * into a page of the driver.  Pow2: a class for each power of two, for few slabs and much reuse.
 * Exact: every multiple of 512 is a class, and nothing is wasted.
 *
 * The scheme is chosen once, before the first heap is opened; beyond that these are pure functions.
 *
 * A bucket has the slabs of one class that have a free block.  A slab is an extent cut into blocks;
 * its free blocks form a list by index, and the one freed last is handed out first.  Lock: the
 * heap's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"

struct cushim_mem_blockref;
struct cushim_mem_meta;

enum {
    CUSHIM_MEM_LOG2_GRAIN = 9,
    CUSHIM_MEM_GRAIN_BYTES = 1 << CUSHIM_MEM_LOG2_GRAIN, /* every block is aligned to this */
    CUSHIM_MEM_LOG2_PAGE = 12,                           /* the page map finds slabs by pages */
    CUSHIM_MEM_PAGE_BYTES = 1 << CUSHIM_MEM_LOG2_PAGE,
    CUSHIM_MEM_SLAB_LIMIT_BYTES = 1 << 20, /* the largest request that a class serves */
    CUSHIM_MEM_N_CLASSES = 74,             /* of the fine scheme */
    CUSHIM_MEM_MOST_CLASSES = CUSHIM_MEM_SLAB_LIMIT_BYTES / CUSHIM_MEM_GRAIN_BYTES
};

enum cushim_mem_scheme { CUSHIM_MEM_FINE, CUSHIM_MEM_POW2, CUSHIM_MEM_EXACT };

/* Choose for the whole process, before any thread uses a class. */
void cushim_mem_sizeclass_choose(enum cushim_mem_scheme scheme);

/* How many classes the scheme has: 74, 12 or CUSHIM_MEM_MOST_CLASSES. */
unsigned cushim_mem_sizeclass_count(void);

/* The class for each number of grains of a request, less one; written once. */
extern uint16_t cushim_mem_sizeclass_table[CUSHIM_MEM_MOST_CLASSES];

/* The class of a request of 1 .. CUSHIM_MEM_SLAB_LIMIT_BYTES. */
static inline unsigned cushim_mem_sizeclass_of(size_t n_bytes) {
    return cushim_mem_sizeclass_table[(n_bytes - 1) >> CUSHIM_MEM_LOG2_GRAIN];
}

/* The block size of a class. */
size_t cushim_mem_sizeclass_bytes(unsigned class_index);

/* The grains of n_bytes, which must leave room to round up. */
static inline size_t cushim_mem_grains_of(size_t n_bytes) {
    return (n_bytes + CUSHIM_MEM_GRAIN_BYTES - 1) >> CUSHIM_MEM_LOG2_GRAIN;
}

/* ---- buckets ---- */

/* All zero is empty. */
struct cushim_mem_bucket {
    struct cushim_mem_extent *slabs; /* those with a free cell; full ones are on no list */
    uint32_t n_cells;                /* of all its slabs */
};

/*
 * The grains of the next slab of a class.  It has room for as many blocks as all other slabs have,
 * up to 64 KiB, but for at least one, and at least the grains of the shortest extent.  So few
 * blocks hold little, and many take few slabs.  Slabs of several blocks are whole pages if
 * possible, so that the next slab begins with a page, and the page map has all of it.
 */
size_t cushim_mem_bucket_slab_grains(const struct cushim_mem_bucket *bucket, unsigned class_index);

/**
 * Cut an extent into blocks of a class and add it.
 * @return CUSHIM_OK | CUSHIM_NOMEM (host memory; the extent is as it was)
 */
enum cushim_status cushim_mem_bucket_add(struct cushim_mem_bucket *bucket,
                                         struct cushim_mem_meta *meta,
                                         struct cushim_mem_extent *extent, unsigned class_index);

/* Take a free cell; false if the bucket has none. */
bool cushim_mem_bucket_take(struct cushim_mem_bucket *bucket, struct cushim_mem_blockref *ref);

/* Take a slab out of the bucket, and off the list if it is there.  Its free cells are no longer
 * handed out.  Returns the slab.
 */
struct cushim_mem_extent *cushim_mem_bucket_leave(struct cushim_mem_bucket *bucket,
                                                  struct cushim_mem_extent *slab);

/* Put a cell back.  If its slab has become wholly free and is not the bucket's only one, the slab
 * is taken out of the bucket and returned, and belongs to the caller.  Otherwise NULL. */
struct cushim_mem_extent *cushim_mem_bucket_give(struct cushim_mem_bucket *bucket,
                                                 const struct cushim_mem_blockref *ref);

/* Take out a slab that is wholly free; NULL if there is none. */
struct cushim_mem_extent *cushim_mem_bucket_drain(struct cushim_mem_bucket *bucket);
