/*
 * Metadata memory: host memory for descriptors of segments, extents and blocks.
 *
 * It is type-stable: a piece that was handed out once stays mapped for the life of the process, and
 * is only handed out again for descriptors.  A program that uses an address while another thread
 * frees it may make us read a stale descriptor; the read then gives an old value, never a fault.
 *
 * Sizes are rounded to powers of two, one free list each.  The caller holds the lock of the owner.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { CUSHIM_MEM_META_ORDERS = 40 };

enum cushim_mem_meta_type {
    CUSHIM_MEM_META_ANY,
    CUSHIM_MEM_META_CELLS,
    CUSHIM_MEM_META_EXTENT,
    CUSHIM_MEM_META_SEGMENT,
    CUSHIM_MEM_META_DEDICATED,
    CUSHIM_MEM_META_TYPES
};

struct cushim_mem_meta {
    /* by log2 of the size */
    void *free_lists[CUSHIM_MEM_META_TYPES][CUSHIM_MEM_META_ORDERS];
    char *chunk; /* where fresh pieces are cut from */
    size_t chunk_left_bytes;
};

/* Whole pages of zeros, which are never unmapped and which helgrind does not check; NULL: host
 * memory is out.
 */
void *cushim_mem_meta_map(size_t n_bytes);

/* At least n_bytes (n_bytes > 0), zeroed, aligned to 64; NULL when host memory is out. */
void *cushim_mem_meta_obtain(struct cushim_mem_meta *meta, size_t n_bytes);

/* Take a piece back; n_bytes as obtained.  NULL is ignored. */
void cushim_mem_meta_release(struct cushim_mem_meta *meta, void *piece, size_t n_bytes);

/*
 * The same for memory that look-ups read and frees change without a lock, because a thread may come
 * late while another one ends the context.  So each type has its own lists, and a piece is handed
 * out as it was given back (zeroed the first time), so that fields that its type keeps stay valid.
 * The link of the list is `link_at` bytes after its start.
 */
void *cushim_mem_meta_obtain_as(struct cushim_mem_meta *meta, enum cushim_mem_meta_type type,
                                size_t n_bytes, size_t link_at);
void cushim_mem_meta_release_as(struct cushim_mem_meta *meta, enum cushim_mem_meta_type type,
                                void *piece, size_t n_bytes, size_t link_at);
