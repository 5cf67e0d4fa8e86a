/*
 * Sites: with CUSHIM_SITES, a sample of the program's requests by the places that made them
 * (report/site.h).
 *
 * A request is looked at for a few instructions; one that is taken costs its call stack and a lock.
 * So are frees: a block of a heap that was taken is WATCHED (memory/layout/block.h), so that the
 * fast path of a free leaves it to the slow path, which asks here; all others are freed as ever.
 */
#ifndef CUSHIM_PRELOAD_SITES_H
#define CUSHIM_PRELOAD_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_mem_blocks;
struct cushim_mem_lookup;
struct cushim_page_head;

/* The options were read; the page, whose head is given, is where it will be, and the table of
 * blocks has the blocks of all heaps. */
void cushim_sites_begin(const struct cushim_page_head *head, struct cushim_mem_blocks *blocks);

/* In a forked child: it has none, or if it `is_fresh` begins anew. */
void cushim_sites_in_child(bool is_fresh);

bool cushim_sites_are_on(void);

/* A heap, or where it is NULL the driver, served a request; nobody else has the address yet. */
void cushim_sites_alloc(const void *heap, uint64_t address, size_t n_bytes);

/* A block is about to be given back; where it was taken and that fails, it is to be there again.
 * `lookup` is NULL where the driver served it. */
struct cushim_sites_free {
    uint64_t address;
    const void *heap;
    size_t n_bytes;
    uint64_t key; /* 0: it was not taken */
};
struct cushim_sites_free cushim_sites_free(const struct cushim_mem_lookup *lookup,
                                           uint64_t address);
void cushim_sites_restore(const struct cushim_sites_free *freed);

/* A context took all blocks of a heap along. */
void cushim_sites_gone(const void *heap);

#endif
