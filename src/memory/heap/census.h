/*
 * A census: what is in the segments of a heap at a moment, counted block by block.
 *
 * For rare moments, such as out of memory: it walks all segments under the heap's lock.
 */
#ifndef CUSHIM_MEMORY_CENSUS_H
#define CUSHIM_MEMORY_CENSUS_H

#include <stddef.h>

struct cushim_mem_heap;

enum { CUSHIM_MEM_CENSUS_SIZES = 64 };

struct cushim_mem_census {
    size_t device_bytes, held_bytes;
    size_t live_bytes, pending_bytes; /* of blocks, as cut; pending: freed, the GPU may use them */
    size_t cached_bytes;              /* free, in caches of threads */
    size_t free_bytes, largest_free_bytes; /* free whole: extents that no block lies in */
    /* live blocks by size, in no order; those of further sizes are not told apart */
    unsigned n_sizes;
    struct cushim_mem_census_size {
        size_t block_bytes, n;
    } sizes[CUSHIM_MEM_CENSUS_SIZES];
};

void cushim_mem_census_take(struct cushim_mem_heap *pool, struct cushim_mem_census *census);

#endif
