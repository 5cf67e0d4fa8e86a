/*
 * Blocks: which one holds an address, what its state is, and what the program knows about it.
 *
 * A look-up needs no table of its own: the page map leads to the segment, the segment to the
 * extent, and the extent to the block's metadata.  It takes no lock.  Its result is stable only
 * while the block is LIVE.
 *
 * What the program asked for or was told about a block is kept in bits above LIVE in the state word
 * of its metadata.  They are set by compare and exchange while the block is LIVE, without a lock,
 * and handing a block out writes plain LIVE.  So they usually cost requests and frees nothing: the
 * fast path of a free exchanges only plain LIVE, and the slow path accepts every word that is LIVE.
 *
 * The page map leads from a device address to the segment that holds it, in three loads at most,
 * and to the slab in two, if the slab has the page alone.
 *
 * Addresses up to 2^49, which is what the driver hands out.  A *large* entry is for 2 MiB: NULL
 * (foreign memory), the segment that fills it, or *divided*.  Then the entries of its *spots* of 64
 * KiB count, which are NULL or a segment.  Otherwise these are not read, whatever they contain.
 *
 * The entries of a GiB lie in one table, which is mapped when a segment is first set there and
 * stays.  Look-ups take no lock and may race with set and clear: they see the old or the new entry.
 *
 * A range is *vacated* if a segment was there whose context went, until another segment is set
 * there or other memory is found there.  There is a bit for each page of the system, so that no
 * mapping and no large allocation ends inside one.  Until a context with a heap ends, nothing is
 * vacated, and one load says so.
 */
#pragma once

#include "memory/layout/segment.h"

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
    CUSHIM_MEM_DIVIDED = 1 /* a large entry whose spots count */
};

/* A segment's address, 0 or CUSHIM_MEM_DIVIDED. */
typedef atomic_uintptr_t cushim_mem_entry;

struct cushim_mem_table {
    cushim_mem_entry larges[CUSHIM_MEM_TABLE_LARGES];
    cushim_mem_entry spots[CUSHIM_MEM_TABLE_SPOTS];
    _Atomic(struct cushim_mem_extent *)
        slabs[CUSHIM_MEM_TABLE_PAGES]; /* written by the free lists */
    /* pages of both stay without memory until something in them is set */
    atomic_uint_fast64_t vacated[CUSHIM_MEM_TABLE_PAGES / 64];
};

/* All zero is an empty map.  It has 4 MiB of address space, of which only used parts are
 * touched. */
struct cushim_mem_pagemap {
    _Atomic(struct cushim_mem_table *) tables[CUSHIM_MEM_TABLES]; /* of a GiB each */
    atomic_bool has_vacated;                                      /* something is, or was */
};

/* The table of the GiB of an address, or NULL. */
static inline struct cushim_mem_table *cushim_mem_pagemap_table(struct cushim_mem_pagemap *map,
                                                                uint64_t address) {
    uint64_t giant = address >> (CUSHIM_MEM_LOG2_SPOT + CUSHIM_MEM_LOG2_TABLE);
    return giant < CUSHIM_MEM_TABLES ? load_acquire(&map->tables[giant]) : NULL;
}

/* The number of an address's page in its table. */
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
    uintptr_t entry = load_acquire(&table->larges[spot >> CUSHIM_MEM_LOG2_LARGE]);
    if (entry == CUSHIM_MEM_DIVIDED)
        entry = load_acquire(&table->spots[spot]);
    return (struct cushim_mem_segment *)entry;
}

/* The slab that has all of an address's page, or NULL. */
static inline struct cushim_mem_extent *cushim_mem_pagemap_slab(struct cushim_mem_pagemap *map,
                                                                uint64_t address) {
    struct cushim_mem_table *table = cushim_mem_pagemap_table(map, address);
    return table ? load_acquire(&table->slabs[cushim_mem_pagemap_page(address)]) : NULL;
}

static inline bool cushim_mem_pagemap_has_vacated(struct cushim_mem_pagemap *map) {
    return load_relaxed(&map->has_vacated);
}

/* Is the address vacated? */
static inline bool cushim_mem_pagemap_is_vacated(struct cushim_mem_pagemap *map, uint64_t address) {
    struct cushim_mem_table *table =
        cushim_mem_pagemap_has_vacated(map) ? cushim_mem_pagemap_table(map, address) : NULL;
    uint64_t page = cushim_mem_pagemap_page(address);
    uint64_t bit = (uint64_t)1 << page % 64;
    return table && load_relaxed(&table->vacated[page / 64]) & bit;
}

/**
 * Enter all spots that [base, base + n_bytes) touches.  They are no longer vacated, and no slab has
 * their pages.
 * @param base     a multiple of CUSHIM_MEM_SPOT_BYTES
 * @param segment  what look-ups will answer
 * @return CUSHIM_OK | CUSHIM_INVALID (not aligned, or beyond 2^49) | CUSHIM_NOMEM (no spot was
 *         entered)
 * Threads  any; one at a time sets, under a lock of this file
 */
enum cushim_status cushim_mem_pagemap_set(struct cushim_mem_pagemap *map, uint64_t base,
                                          size_t n_bytes, struct cushim_mem_segment *segment);

/*
 * Note, or forget, that a slab has pages alone: those that lie wholly in it and in which its blocks
 * begin.  No other page is noted, because a look-up of a block of one extent must never read the
 * metadata of its neighbour, which may be taken down meanwhile.
 */
void cushim_mem_pagemap_note_slab(struct cushim_mem_pagemap *map, struct cushim_mem_extent *slab,
                                  bool is_there);

/*
 * Make the spots of the range that still name the segment foreign again, and forget its slabs.
 * After a context went, a segment of another one may lie there before we hear of it.  Any thread;
 * takes no lock.
 */
void cushim_mem_pagemap_clear(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                              struct cushim_mem_segment *segment);

/* The segment of a range that was set goes with its context, so its spots are vacated from now
 * on. */
void cushim_mem_pagemap_vacate(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes);

/* A range of addresses has another owner now, so pages of 4 KiB that lie wholly in it are no longer
 * vacated. */
void cushim_mem_pagemap_resettle(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes);

/* ---- look-ups ---- */

struct cushim_mem_blocks {
    struct cushim_mem_pagemap map;
};

struct cushim_mem_lookup {
    struct cushim_mem_segment *segment; /* never NULL */
    struct cushim_mem_blockref ref;     /* extent NULL if no block was ever cut there */
    struct cushim_mem_block_meta *meta; /* NULL if ref.extent is, and in the tail of a slab */
    enum cushim_mem_state state;        /* FREE if `meta` is NULL */
    uint64_t base;                      /* of the block */
    size_t asked_bytes;
    size_t block_bytes;
};

/* The block of a slab that contains an offset; see cushim_mem_extent_inverse. */
static inline uint32_t cushim_mem_extent_index(const struct cushim_mem_extent *slab,
                                               uint64_t offset) {
    return (uint32_t)(((offset >> CUSHIM_MEM_LOG2_GRAIN) * slab->inverse) >> 31);
}

/*
 * Find the block that covers an address in a slab of `segment`, or in an extent that is one block,
 * guards included.  It sets ref, meta, base and block_bytes of `lookup`.  False: in the tail that
 * no block covers, or if the slab is being taken down, because the program uses what it frees.
 */
static inline bool cushim_mem_blocks_find_in_slab(const struct cushim_mem_segment *segment,
                                                  struct cushim_mem_extent *slab, uint64_t address,
                                                  struct cushim_mem_lookup *lookup) {
    /* not through the extent, because the segment's base was loaded already */
    uint64_t start = segment->base + ((uint64_t)slab->first_grain << CUSHIM_MEM_LOG2_GRAIN);
    uint32_t index = cushim_mem_extent_index(slab, address - start);
    struct cushim_mem_block_meta *cells = load_checked(&slab->cells);
    if (index >= load_checked(&slab->n_cells) || !cells)
        return false;
    lookup->ref = (struct cushim_mem_blockref){slab, index};
    lookup->meta = &cells[index];
    lookup->base = start + index * slab->block_bytes;
    lookup->block_bytes = slab->block_bytes;
    return true;
}

/* The same in any extent that is not a chunk of the arena.  Also false if the extent was never cut
 * into blocks. */
static inline bool cushim_mem_blocks_find_in_extent(const struct cushim_mem_segment *segment,
                                                    struct cushim_mem_extent *extent,
                                                    uint64_t address,
                                                    struct cushim_mem_lookup *lookup) {
    int kind = load_acquire(&extent->kind);
    return kind != CUSHIM_MEM_EXTENT_FREE && kind != CUSHIM_MEM_EXTENT_ARENA &&
           cushim_mem_blocks_find_in_slab(segment, extent, address, lookup);
}

/*
 * The slab of an address, from the segment's bits of grains, so also if slabs share its page.
 * NULL: there is none.  So for a block that is LIVE or in a cache only the descriptor of its own
 * slab is read, which stays.
 */
struct cushim_mem_extent *cushim_mem_blocks_slab(struct cushim_mem_blocks *blocks,
                                                 uint64_t address);

/* False: the address is foreign, `lookup` untouched. */
bool cushim_mem_blocks_find(struct cushim_mem_blocks *blocks, uint64_t address,
                            struct cushim_mem_lookup *lookup);

/* Also false if the block is not LIVE.  Even one that was just served may not be, because its
 * context may have ended, and the driver may have given its address to others. */
static inline bool cushim_mem_blocks_find_live(struct cushim_mem_blocks *blocks, uint64_t address,
                                               struct cushim_mem_lookup *lookup) {
    return cushim_mem_blocks_find(blocks, address, lookup) && lookup->state == CUSHIM_MEM_LIVE;
}

enum cushim_mem_verdict {
    CUSHIM_MEM_FOREIGN, /* the driver must judge it */
    CUSHIM_MEM_INSIDE,  /* wholly inside a live block, or n_bytes 0 */
    CUSHIM_MEM_OVERRUN, /* begins in a live block and leaves it, or lies in its slack */
    CUSHIM_MEM_NO_BLOCK /* begins where no block is live */
};

/* Judge an access to [address, address + n_bytes) by the result of a look-up. */
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
 * The same, quickly.  NO_BLOCK here also means any case that is not plain, such as blocks of the
 * arena and blocks with guards; then the caller must look up and judge as above.
 */
ALWAYS_INLINE enum cushim_mem_verdict cushim_mem_blocks_glance(struct cushim_mem_blocks *blocks,
                                                               uint64_t address, size_t n_bytes) {
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
    lookup.state = cushim_mem_state_of(load_acquire(&lookup.meta->state));
    lookup.asked_bytes = load_relaxed(&lookup.meta->asked_bytes);
    return segment->guard_bytes ? CUSHIM_MEM_NO_BLOCK
                                : cushim_mem_blocks_judge(&lookup, address, n_bytes);
}

/* ---- what the program knows about a LIVE block ---- */

/*
 * The number of this life of a block, which it gets at the first call; 0: it is no longer LIVE.  No
 * other block gets this number before 2^26 were given.
 */
uint32_t cushim_mem_block_number(const struct cushim_mem_lookup *lookup);

enum {
    CUSHIM_MEM_BLOCK_SYNCHRONOUS = 1 << CUSHIM_MEM_STATE_BITS,
    CUSHIM_MEM_BLOCK_WATCHED = 2 << CUSHIM_MEM_STATE_BITS,
    CUSHIM_MEM_BLOCK_SHOWN = 4 << CUSHIM_MEM_STATE_BITS,
    CUSHIM_MEM_BLOCK_RECORDED = 8 << CUSHIM_MEM_STATE_BITS
};

/* From now on the free of this life of a block must be reported.  The caller just got the block,
 * and no other thread has it. */
void cushim_mem_block_watch(const struct cushim_mem_lookup *lookup);

static inline bool cushim_mem_block_is_watched(const struct cushim_mem_lookup *lookup) {
    uint32_t word = load_relaxed(&lookup->meta->state);
    return word & CUSHIM_MEM_BLOCK_WATCHED;
}

/*
 * A recording has this life of the block, or no longer.  The thread whose free claims the block
 * sees the bit, and calls the policy's block_moved.  False: nothing changed, because it was so
 * already, or the block is not LIVE.  The caller of the first just got the block.
 */
static inline bool cushim_mem_block_record(const struct cushim_mem_lookup *lookup) {
    uint32_t word = atomic_fetch_or(&lookup->meta->state, CUSHIM_MEM_BLOCK_RECORDED);
    return !(word & CUSHIM_MEM_BLOCK_RECORDED);
}
bool cushim_mem_block_set_recorded(struct cushim_mem_block_meta *meta, bool is_recorded);

/*
 * Another process was told about the block, and may read it until it closes its handle, even after
 * the free.  So it is never handed out again, and this bit outlives the free.  Nothing happens
 * unless the block is LIVE.
 */
void cushim_mem_block_show(const struct cushim_mem_lookup *lookup);

static inline bool cushim_mem_block_is_shown(const struct cushim_mem_block_meta *meta) {
    return load_relaxed(&meta->state) & CUSHIM_MEM_BLOCK_SHOWN;
}

/* Does the host wait for copies and sets of the block (SYNC_MEMOPS)? */
static inline bool cushim_mem_block_is_synchronous(const struct cushim_mem_lookup *lookup) {
    uint32_t word = load_relaxed(&lookup->meta->state);
    return word & CUSHIM_MEM_BLOCK_SYNCHRONOUS;
}

/*
 * From now on it does, or does not.  The segment's n_synchronous is raised before the bit is set,
 * and lowered after it is cleared.  False: nothing changed, because it was so already, or the block
 * is no longer LIVE.
 */
bool cushim_mem_block_set_synchronous(const struct cushim_mem_lookup *lookup, bool is_synchronous);
