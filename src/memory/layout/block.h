/*
 * Blocks: which one holds an address, in which state it is, and what the program knows of it.
 *
 * A look-up stores nothing of its own: the page map leads to the segment, the segment to the
 * extent, the extent to the block's metadata.  It takes no lock.  Its result is stable only while
 * the block is LIVE.
 *
 * What the program asked for or was told of a block is bits above LIVE in the state word of its
 * metadata, set by compare and exchange while it is LIVE; handing a block out writes plain LIVE.
 * So they cost requests and frees nothing in the common case: the fast path of a free exchanges
 * plain LIVE alone, and the slow path accepts every word that is LIVE.  No lock.
 *
 * The page map leads from a device address to the segment that holds it, in three loads at most,
 * and to the slab in two, if a page is one's alone.
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
#ifndef CUSHIM_MEMORY_BLOCK_H
#define CUSHIM_MEMORY_BLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"
#include "memory/layout/segment.h"
#include "memory/layout/sizeclass.h"

/* ---- the page map ---- */

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

/* ---- look-ups ---- */

struct cushim_mem_blocks {
    struct cushim_mem_pagemap map;
};

struct cushim_mem_lookup {
    struct cushim_mem_segment *segment; /* never NULL */
    struct cushim_mem_blockref ref;     /* extent NULL where no block was ever cut there */
    struct cushim_mem_block_meta *meta; /* NULL if ref.extent is, and in the tail of a slab */
    enum cushim_mem_state state;        /* FREE if `meta` is NULL */
    uint64_t base;                      /* of the block */
    size_t asked_bytes;
    size_t block_bytes;
};

/* The block of a slab that an offset in it lies in: see cushim_mem_extent_inverse. */
static inline uint32_t cushim_mem_extent_index(const struct cushim_mem_extent *slab,
                                               uint64_t offset) {
    return (uint32_t)(((offset >> CUSHIM_MEM_LOG2_GRAIN) * slab->inverse) >> 31);
}

/*
 * The block that covers an address in a slab of `segment`, or in an extent that is one, its guards
 * included: ref, meta, base and block_bytes of `lookup`.  False in the tail that no block covers,
 * and where the slab is being taken down meanwhile: the program uses what it frees.
 */
static inline bool cushim_mem_blocks_find_in_slab(const struct cushim_mem_segment *segment,
                                                  struct cushim_mem_extent *slab, uint64_t address,
                                                  struct cushim_mem_lookup *lookup) {
    /* not by way of the extent: the segment's base is at hand already */
    uint64_t start = segment->base + ((uint64_t)slab->first_grain << CUSHIM_MEM_LOG2_GRAIN);
    uint32_t index = cushim_mem_extent_index(slab, address - start);
    struct cushim_mem_block_meta *cells = slab->cells;
    if (index >= slab->n_cells || !cells)
        return false;
    lookup->ref = (struct cushim_mem_blockref){slab, index};
    lookup->meta = &cells[index];
    lookup->base = start + index * slab->block_bytes;
    lookup->block_bytes = slab->block_bytes;
    return true;
}

/* The same in any extent but a chunk of the arena; false also where no block was ever cut. */
static inline bool cushim_mem_blocks_find_in_extent(const struct cushim_mem_segment *segment,
                                                    struct cushim_mem_extent *extent,
                                                    uint64_t address,
                                                    struct cushim_mem_lookup *lookup) {
    int kind = atomic_load_explicit(&extent->kind, memory_order_acquire);
    return kind != CUSHIM_MEM_EXTENT_FREE && kind != CUSHIM_MEM_EXTENT_ARENA &&
           cushim_mem_blocks_find_in_slab(segment, extent, address, lookup);
}

/*
 * The slab of an address as its segment knows it, to the grain: also where its page is no slab's
 * alone.  NULL where there is none.  So of a LIVE block, or one in a cache, no descriptor is read
 * but its own slab's, which stays.
 */
struct cushim_mem_extent *cushim_mem_blocks_slab(struct cushim_mem_blocks *blocks,
                                                 uint64_t address);

/* False: the address is foreign, `lookup` untouched. */
bool cushim_mem_blocks_find(struct cushim_mem_blocks *blocks, uint64_t address,
                            struct cushim_mem_lookup *lookup);

enum cushim_mem_verdict {
    CUSHIM_MEM_FOREIGN, /* not ours to judge */
    CUSHIM_MEM_INSIDE,  /* wholly inside a live block, or n_bytes 0 */
    CUSHIM_MEM_OVERRUN, /* begins in a live block and leaves it, or lies in its slack */
    CUSHIM_MEM_NO_BLOCK /* begins where no block is live */
};

/* Judge an access to [address, address + n_bytes) by what was found at its address. */
static inline enum cushim_mem_verdict
cushim_mem_blocks_judge(const struct cushim_mem_lookup *lookup, uint64_t address, size_t n_bytes) {
    uint64_t offset = address - lookup->base;
    if (!n_bytes)
        return CUSHIM_MEM_INSIDE;
    if (lookup->state != CUSHIM_MEM_LIVE)
        return CUSHIM_MEM_NO_BLOCK;
    bool is_inside = offset < lookup->asked_bytes && n_bytes <= lookup->asked_bytes - offset;
    return is_inside ? CUSHIM_MEM_INSIDE : CUSHIM_MEM_OVERRUN;
}

/*
 * The same at a glance, for who looks on where it says NO_BLOCK: that also stands for whatever is
 * not a plain case, as blocks of the arena and between guards.
 */
static inline __attribute__((always_inline)) enum cushim_mem_verdict
cushim_mem_blocks_glance(struct cushim_mem_blocks *blocks, uint64_t address, size_t n_bytes) {
    struct cushim_mem_lookup lookup;
    struct cushim_mem_extent *extent = cushim_mem_pagemap_slab(&blocks->map, address);
    const struct cushim_mem_segment *segment =
        extent ? extent->segment : cushim_mem_pagemap_find(&blocks->map, address);
    if (!segment)
        return CUSHIM_MEM_FOREIGN;
    if (!extent)
        extent = cushim_mem_segment_extent(segment, address);
    if (!extent || !cushim_mem_blocks_find_in_extent(segment, extent, address, &lookup))
        return CUSHIM_MEM_NO_BLOCK;
    lookup.state =
        cushim_mem_state_of(atomic_load_explicit(&lookup.meta->state, memory_order_acquire));
    lookup.asked_bytes = atomic_load_explicit(&lookup.meta->asked_bytes, memory_order_relaxed);
    return segment->guard_bytes ? CUSHIM_MEM_NO_BLOCK
                                : cushim_mem_blocks_judge(&lookup, address, n_bytes);
}

/* ---- what the program knows of a LIVE block ---- */

/*
 * The number of this life of a block, given at the first question; 0: it is LIVE no more.  No other
 * block has it until 2^27 were asked for.
 */
uint32_t cushim_mem_block_number(const struct cushim_mem_lookup *lookup);

enum {
    CUSHIM_MEM_BLOCK_SYNCHRONOUS = 1 << CUSHIM_MEM_STATE_BITS,
    CUSHIM_MEM_BLOCK_WATCHED = 2 << CUSHIM_MEM_STATE_BITS,
    CUSHIM_MEM_BLOCK_SHOWN = 4 << CUSHIM_MEM_STATE_BITS
};

/* Somebody keeps account of this life of a block, which the caller just got and nobody else has:
 * its free is to be told. */
void cushim_mem_block_watch(const struct cushim_mem_lookup *lookup);

static inline bool cushim_mem_block_is_watched(const struct cushim_mem_lookup *lookup) {
    uint32_t word = atomic_load_explicit(&lookup->meta->state, memory_order_relaxed);
    return word & CUSHIM_MEM_BLOCK_WATCHED;
}

/*
 * Another process was told of it, and may read it until it closes its handle, also once it is
 * freed: so it is handed out no more.  This bit stays behind the free.  Nothing happens unless it
 * is LIVE.
 */
void cushim_mem_block_show(const struct cushim_mem_lookup *lookup);

static inline bool cushim_mem_block_is_shown(const struct cushim_mem_block_meta *meta) {
    return atomic_load_explicit(&meta->state, memory_order_relaxed) & CUSHIM_MEM_BLOCK_SHOWN;
}

/* Does the host wait for copies and sets of it (SYNC_MEMOPS)? */
static inline bool cushim_mem_block_is_synchronous(const struct cushim_mem_lookup *lookup) {
    uint32_t word = atomic_load_explicit(&lookup->meta->state, memory_order_relaxed);
    return word & CUSHIM_MEM_BLOCK_SYNCHRONOUS;
}

/*
 * It does from now on, or no more.  Counted in the segment's n_synchronous, before the one and
 * behind the other.  False: nothing changed, it did or did not before, or is LIVE no more.
 */
bool cushim_mem_block_set_synchronous(const struct cushim_mem_lookup *lookup, bool is_synchronous);

#endif
