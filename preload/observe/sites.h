/*
 * Sites: with CUSHIM_SITES, a sample of the program's requests by the places that made them
 * (report/site.h).
 *
 * A request that is not sampled costs a few instructions, and a sampled one its call stack and a
 * lock.  A sampled block of a heap is WATCHED (memory/layout/block.h), so the fast path of a free
 * leaves it to the slow path, which asks here.  All other blocks are freed as without sites.
 */
#ifndef CUSHIM_PRELOAD_SITES_H
#define CUSHIM_PRELOAD_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_backtrace;
struct cushim_mem_blocks;
struct cushim_mem_lookup;
struct cushim_page_head;

/* The options were read, and the page has its final place.  `head` is the page's; `blocks` has the
 * blocks of all heaps. */
void cushim_sites_begin(const struct cushim_page_head *head, struct cushim_mem_blocks *blocks);

/* In a forked child: it has no sites, or begins anew if it `is_fresh`. */
void cushim_sites_in_child(bool is_fresh);

bool cushim_sites_are_on(void);

/* A heap served a request, or the driver if `heap` is NULL.  No other thread has the address
 * yet. */
void cushim_sites_alloc(const void *heap, uint64_t address, size_t n_bytes, bool is_spilled);

/* A block is about to be given back.  If it was sampled and the free fails, it is entered again.
 * `lookup` is NULL if the driver served it. */
struct cushim_sites_free {
    uint64_t address;
    const void *heap;
    size_t n_bytes;
    uint64_t key; /* 0: it was not sampled */
};
struct cushim_sites_free cushim_sites_free(const struct cushim_mem_lookup *lookup,
                                           uint64_t address);
void cushim_sites_restore(const struct cushim_sites_free *freed);

/* The stack that asked for a live block; false: it was not sampled. */
bool cushim_sites_stack(uint64_t address, struct cushim_backtrace *stack);

/* A context was destroyed, and with it all blocks of a heap. */
void cushim_sites_gone(const void *heap);

#endif
