/*
 * The page map: from a device address to the segment that holds it, in three loads at most, and to
 * the slab, where a page is one's alone, in two.
 *
 * Addresses up to 2^49, which is what the driver hands out.  A *large* entry is for 2 MiB: NULL
 * (foreign memory), the segment that fills it, or *divided*.  Then the entries of its *spots* of
 * 64 KiB count, which are NULL or a segment; else nobody is led to them, whatever they have.
 *
 * The entries of a GiB lie in one table, which is mapped when a segment is first set there and
 * stays.  Look-ups take no lock and may race with set and clear: they see the old or the new entry.
 *
 * A range is *vacated* where a segment was whose context went, until another segment is set there
 * or somebody else's memory is found there: a bit for each page, which are the system's, so that no
 * mapping and no large allocation ends inside one.  While no context went, nothing is, and
 * to be told so costs one load.
 */
#ifndef CUSHIM_MEMORY_PAGEMAP_H
#define CUSHIM_MEMORY_PAGEMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"
#include "memory/layout/sizeclass.h"

enum {
    CUSHIM_MEM_LOG2_ADDRESS = 49,
    CUSHIM_MEM_LOG2_SPOT = 16,
    CUSHIM_MEM_SPOT_BYTES = 1 << CUSHIM_MEM_LOG2_SPOT,
    CUSHIM_MEM_LOG2_LARGE = 5,  /* spots in a large entry: 2 MiB of addresses */
    CUSHIM_MEM_LOG2_TABLE = 14, /* spots in a table: 1 GiB */
    CUSHIM_MEM_TABLE_SPOTS = 1 << CUSHIM_MEM_LOG2_TABLE,
    CUSHIM_MEM_TABLE_LARGES = CUSHIM_MEM_TABLE_SPOTS >> CUSHIM_MEM_LOG2_LARGE,
    CUSHIM_MEM_TABLE_PAGES = CUSHIM_MEM_TABLE_SPOTS
                             << (CUSHIM_MEM_LOG2_SPOT - CUSHIM_MEM_LOG2_PAGE),
    CUSHIM_MEM_TABLES =
        1 << (CUSHIM_MEM_LOG2_ADDRESS - CUSHIM_MEM_LOG2_SPOT - CUSHIM_MEM_LOG2_TABLE),
    CUSHIM_MEM_DIVIDED = 1 /* a large entry of which the spots' count */
};

struct cushim_mem_extent;
struct cushim_mem_segment;

/* A segment's address, 0 or CUSHIM_MEM_DIVIDED. */
typedef atomic_uintptr_t cushim_mem_entry;

struct cushim_mem_table {
    cushim_mem_entry larges[CUSHIM_MEM_TABLE_LARGES];
    cushim_mem_entry spots[CUSHIM_MEM_TABLE_SPOTS];
    _Atomic(struct cushim_mem_extent *)
        slabs[CUSHIM_MEM_TABLE_PAGES]; /* written by the free lists; both touched where set */
    atomic_uint_fast64_t vacated[CUSHIM_MEM_TABLE_PAGES / 64];
};

/* All zero is an empty map; 4 MiB of address space, touched where it is used. */
struct cushim_mem_pagemap {
    _Atomic(struct cushim_mem_table *) tables[CUSHIM_MEM_TABLES]; /* of a GiB each */
    atomic_bool has_vacated;                                      /* something is, or was */
};

/* Of the GiB of an address, or NULL. */
static inline struct cushim_mem_table *cushim_mem_pagemap_table(struct cushim_mem_pagemap *map,
                                                                uint64_t address) {
    uint64_t giant = address >> (CUSHIM_MEM_LOG2_SPOT + CUSHIM_MEM_LOG2_TABLE);
    return giant < CUSHIM_MEM_TABLES
               ? atomic_load_explicit(&map->tables[giant], memory_order_acquire)
               : NULL;
}

/* Which page of its table an address lies in. */
static inline uint64_t cushim_mem_pagemap_page(uint64_t address) {
    return (address >> CUSHIM_MEM_LOG2_PAGE) & (CUSHIM_MEM_TABLE_PAGES - 1);
}

/* The segment of an address, or NULL. */
static inline struct cushim_mem_segment *cushim_mem_pagemap_find(struct cushim_mem_pagemap *map,
                                                                 uint64_t address) {
    struct cushim_mem_table *table = cushim_mem_pagemap_table(map, address);
    uint64_t spot = (address >> CUSHIM_MEM_LOG2_SPOT) & (CUSHIM_MEM_TABLE_SPOTS - 1);
    if (!table)
        return NULL;
    uintptr_t entry =
        atomic_load_explicit(&table->larges[spot >> CUSHIM_MEM_LOG2_LARGE], memory_order_acquire);
    if (entry == CUSHIM_MEM_DIVIDED)
        entry = atomic_load_explicit(&table->spots[spot], memory_order_acquire);
    return (struct cushim_mem_segment *)entry;
}

/* The slab that has all of an address's page, or NULL. */
static inline struct cushim_mem_extent *cushim_mem_pagemap_slab(struct cushim_mem_pagemap *map,
                                                                uint64_t address) {
    struct cushim_mem_table *table = cushim_mem_pagemap_table(map, address);
    return table ? atomic_load_explicit(&table->slabs[cushim_mem_pagemap_page(address)],
                                        memory_order_acquire)
                 : NULL;
}

static inline bool cushim_mem_pagemap_has_vacated(struct cushim_mem_pagemap *map) {
    return atomic_load_explicit(&map->has_vacated, memory_order_relaxed);
}

/* Is the address vacated? */
static inline bool cushim_mem_pagemap_is_vacated(struct cushim_mem_pagemap *map, uint64_t address) {
    struct cushim_mem_table *table =
        cushim_mem_pagemap_has_vacated(map) ? cushim_mem_pagemap_table(map, address) : NULL;
    uint64_t page = cushim_mem_pagemap_page(address);
    uint64_t bit = (uint64_t)1 << page % 64;
    return table && atomic_load_explicit(&table->vacated[page / 64], memory_order_relaxed) & bit;
}

/**
 * Enter all spots that [base, base + n_bytes) touches; none of them is vacated any more, nor a
 * slab's.
 * @param base     a multiple of CUSHIM_MEM_SPOT_BYTES
 * @param segment  what look-ups will answer
 * @return CUSHIM_OK | CUSHIM_INVALID (not aligned, or beyond 2^49) | CUSHIM_NOMEM (no spot was
 * entered)
 * Threads  any; one sets at a time, behind a lock of this file's
 */
enum cushim_status cushim_mem_pagemap_set(struct cushim_mem_pagemap *map, uint64_t base,
                                          size_t n_bytes, struct cushim_mem_segment *segment);

/*
 * The pages of a slab where its blocks begin, and that lie wholly in it, are its own from now on;
 * or those that still are, are no more.  No other page is: who looks up a block of one extent never
 * reads the notes of its neighbour, which may be taken down meanwhile.
 */
void cushim_mem_pagemap_note_slab(struct cushim_mem_pagemap *map, struct cushim_mem_extent *slab,
                                  bool is_there);

/*
 * Make what is still the segment's of the range it was set to foreign again; its slabs are noted no
 * more.  Where a context went, another's segment may lie there before we hear of it.  Any thread;
 * takes no lock.
 */
void cushim_mem_pagemap_clear(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                              struct cushim_mem_segment *segment);

/* The segment of a range that was set goes with its context: its spots are vacated from now on. */
void cushim_mem_pagemap_vacate(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes);

/* Any range of addresses is somebody else's now: what 4 KiB lie wholly in it are not vacated. */
void cushim_mem_pagemap_resettle(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes);

#endif
