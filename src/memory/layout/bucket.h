/*
 * A bucket: the slabs of one size class that have a free block.
 *
 * A slab is an extent cut into blocks; its free blocks form a list by index.  The block freed last
 * is handed out first.
 *
 * Lock: the heap's.
 */
#ifndef CUSHIM_MEMORY_BUCKET_H
#define CUSHIM_MEMORY_BUCKET_H

#include "memory/layout/extent.h"

/* All zero is empty. */
struct cushim_mem_bucket {
    struct cushim_mem_extent *slabs; /* those with a free cell; full ones are on no list */
    uint32_t n_cells;                /* of all its slabs */
};

/*
 * The grains of the next slab of a class: room for as many blocks as the others have, in 64 KiB,
 * but for one at least, and for as many as the shortest extent.  So few blocks hold little, and
 * many take few slabs.  Several blocks are whole pages where they can be: so the slab behind them
 * begins with a page, and the page map has all of it.
 */
size_t cushim_mem_bucket_slab_grains(const struct cushim_mem_bucket *bucket, unsigned class_index);

/* Of the smallest one. */
size_t cushim_mem_bucket_least_grains(unsigned class_index);

/**
 * Cut an extent into blocks of a class and add it.
 * @return CUSHIM_OK | CUSHIM_NOMEM (host memory; the extent is as it was)
 */
enum cushim_status cushim_mem_bucket_add(struct cushim_mem_bucket *bucket,
                                         struct cushim_mem_meta *meta,
                                         struct cushim_mem_extent *extent, unsigned class_index);

/* Take a free cell; false where the bucket has none. */
bool cushim_mem_bucket_take(struct cushim_mem_bucket *bucket, struct cushim_mem_blockref *place);

/*
 * Put a cell back.  Returns the slab where it has become wholly free and is not the bucket's only
 * one: it is then out of the bucket, its cells are gone, and it belongs to the caller.  Else NULL.
 */
struct cushim_mem_extent *cushim_mem_bucket_give(struct cushim_mem_bucket *bucket,
                                                 struct cushim_mem_meta *meta,
                                                 const struct cushim_mem_blockref *place);

/* Take a slab off the bucket's list, if it is there: its free cells are handed out no more. */
void cushim_mem_bucket_leave(struct cushim_mem_bucket *bucket, struct cushim_mem_extent *slab);

/* Take out one slab that is wholly free, as above; NULL where there is none. */
struct cushim_mem_extent *cushim_mem_bucket_drain(struct cushim_mem_bucket *bucket,
                                                  struct cushim_mem_meta *meta);

#endif
