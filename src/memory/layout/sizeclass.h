/*
 * Size classes: which block size serves a small request.
 *
 * Fine, the default: 512-byte steps up to 4 KiB, then eight classes per doubling up to 1 MiB, so
 * that at most 12.5 % of a block is waste.  Above 128 KiB a class ends where the driver has room
 * for one block less in a page.  Pow2: a class per power of two, for few slabs and much reuse.
 * Exact: every multiple of 512 is a class of its own, and nothing is waste.
 *
 * The scheme is chosen once, before the first pool is opened; beyond that these are pure functions.
 */
#ifndef CUSHIM_MEMORY_SIZECLASS_H
#define CUSHIM_MEMORY_SIZECLASS_H

#include <stddef.h>
#include <stdint.h>

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

/* For the whole process; no thread uses a class yet. */
void cushim_mem_sizeclass_choose(enum cushim_mem_scheme scheme);

/* How many classes the scheme has: 74, 12 or CUSHIM_MEM_MOST_CLASSES. */
unsigned cushim_mem_sizeclass_count(void);

/* The class by the grains of a request, less one; written once. */
extern uint16_t cushim_mem_sizeclass_table[CUSHIM_MEM_MOST_CLASSES];

/* The class of a request of 1 .. CUSHIM_MEM_SLAB_LIMIT_BYTES. */
static inline unsigned cushim_mem_sizeclass_of(size_t n_bytes) {
    return cushim_mem_sizeclass_table[(n_bytes - 1) >> CUSHIM_MEM_LOG2_GRAIN];
}

/* The block size of a class. */
size_t cushim_mem_sizeclass_bytes(unsigned class_index);

/* The grains of so many bytes, which must leave room to round up. */
static inline size_t cushim_mem_grains_of(size_t n_bytes) {
    return (n_bytes + CUSHIM_MEM_GRAIN_BYTES - 1) >> CUSHIM_MEM_LOG2_GRAIN;
}

#endif
