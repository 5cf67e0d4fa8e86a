/*
 * Metadata memory: host memory for descriptors of segments, extents and blocks.
 *
 * It is type-stable: what was handed out once stays mapped for the life of the process and is only
 * handed out again for descriptors.  A program that uses an address while another thread frees it
 * may make us read a stale descriptor; the read then gives an old value, never a fault.
 *
 * Sizes are rounded to powers of two, one free list each.  The caller holds the lock of the owner.
 */
#ifndef CUSHIM_MEMORY_METADATA_H
#define CUSHIM_MEMORY_METADATA_H

#include <stddef.h>
#include <stdint.h>

enum { CUSHIM_MEM_META_ORDERS = 40 };

struct cushim_mem_meta {
    /* by log2 of the size, those of cells apart; linked through the first word */
    void *free_lists[CUSHIM_MEM_META_ORDERS], *cell_lists[CUSHIM_MEM_META_ORDERS];
    char *chunk; /* where fresh pieces are cut from */
    size_t chunk_left_bytes;
};

/* Whole pages, zeroed, which nobody unmaps and helgrind does not check; NULL when host memory is
 * out.
 */
void *cushim_mem_meta_map(size_t n_bytes);

/* At least n_bytes (n_bytes > 0), zeroed, aligned to 64; NULL when host memory is out. */
void *cushim_mem_meta_obtain(struct cushim_mem_meta *meta, size_t n_bytes);

/* Take it back; n_bytes as obtained.  NULL is nothing. */
void cushim_mem_meta_release(struct cushim_mem_meta *meta, void *piece, size_t n_bytes);

/*
 * The same for cells of slabs, which serve as such for good: a thread that frees a block while
 * another ends its context may come late with its exchange of the block's state, and meets no word
 * of anything else.
 */
void *cushim_mem_meta_obtain_cells(struct cushim_mem_meta *meta, size_t n_bytes);
void cushim_mem_meta_release_cells(struct cushim_mem_meta *meta, void *cells, size_t n_bytes);

#endif
