/*
 * Size classes: which block size serves a small request.
 *
 * 512-byte steps up to 4 KiB, then eight classes per doubling up to 1 MiB, so that at most 12.5 %
 * of a block is waste.  A slab is the run of 64 KiB pages that a class cuts into blocks: as few
 * pages as leave no more than a sixteenth of it unused.  Pure functions; no state.
 */
#ifndef CUSHIM_MEMORY_SIZECLASS_H
#define CUSHIM_MEMORY_SIZECLASS_H

#include <stddef.h>
#include <stdint.h>

enum {
    CUSHIM_MEM_GRAIN_BYTES = 512, /* every block is aligned to this */
    CUSHIM_MEM_LOG2_PAGE = 16,
    CUSHIM_MEM_PAGE_BYTES = 1 << CUSHIM_MEM_LOG2_PAGE,
    CUSHIM_MEM_SLAB_LIMIT_BYTES = 1 << 20, /* the largest request that a class serves */
    CUSHIM_MEM_N_CLASSES = 72
};

/* The class of a request of 1 .. CUSHIM_MEM_SLAB_LIMIT_BYTES. */
unsigned cushim_mem_sizeclass_of(size_t n_bytes);

/* The block size of a class. */
size_t cushim_mem_sizeclass_bytes(unsigned class_index);

/* The pages in a slab of a class. */
uint32_t cushim_mem_sizeclass_slab_pages(unsigned class_index);

/* The pages that a request above the slab limit takes; n_bytes must leave room to round up. */
static inline size_t cushim_mem_pages_of(size_t n_bytes) {
    return (n_bytes + CUSHIM_MEM_PAGE_BYTES - 1) >> CUSHIM_MEM_LOG2_PAGE;
}

#endif
