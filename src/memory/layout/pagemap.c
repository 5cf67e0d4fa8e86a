#include "memory/layout/block.h"

#include <pthread.h>

#include "base/bits.h"

enum {
    LARGE_SPOTS = 1 << CUSHIM_MEM_LOG2_LARGE,
    LOG2_SPOT_PAGES = CUSHIM_MEM_LOG2_SPOT - CUSHIM_MEM_LOG2_PAGE
};

/* A thread that sets holds it, because dividing an entry takes many stores.  A thread that clears
 * does not need it, because each of its stores stands alone. */
static pthread_mutex_t setting = PTHREAD_MUTEX_INITIALIZER;

/* Make the tables of a range, which are never unmapped; false: host memory is out.  The caller
 * holds the lock.
 */
static bool make_tables(struct cushim_mem_pagemap *map, uint64_t first, uint64_t last) {
    for (uint64_t giant = first; giant <= last; giant++) {
        if (load_relaxed(&map->tables[giant]))
            continue;
        struct cushim_mem_table *fresh = cushim_mem_meta_map(sizeof *fresh);
        if (!fresh)
            return false;
        store_release(&map->tables[giant], fresh);
    }
    return true;
}

/* ---- entries; spots and pages are counted from address 0 ---- */

static uint64_t spot_behind(uint64_t base, size_t n_bytes) {
    return (base + n_bytes + CUSHIM_MEM_SPOT_BYTES - 1) >> CUSHIM_MEM_LOG2_SPOT;
}

static cushim_mem_entry *large_of(struct cushim_mem_pagemap *map, uint64_t spot) {
    return &cushim_mem_pagemap_table(map, spot << CUSHIM_MEM_LOG2_SPOT)
                ->larges[(spot & (CUSHIM_MEM_TABLE_SPOTS - 1)) >> CUSHIM_MEM_LOG2_LARGE];
}

static cushim_mem_entry *entry_of(struct cushim_mem_pagemap *map, uint64_t spot) {
    return &cushim_mem_pagemap_table(map, spot << CUSHIM_MEM_LOG2_SPOT)
                ->spots[spot & (CUSHIM_MEM_TABLE_SPOTS - 1)];
}

static _Atomic(struct cushim_mem_extent *) *slab_of_page(struct cushim_mem_pagemap *map,
                                                         uint64_t page) {
    uint64_t address = page << CUSHIM_MEM_LOG2_PAGE;
    return &cushim_mem_pagemap_table(map, address)->slabs[cushim_mem_pagemap_page(address)];
}

/* The first page that begins at an address or after it. */
static uint64_t page_behind(uint64_t address) {
    return (address + CUSHIM_MEM_PAGE_BYTES - 1) >> CUSHIM_MEM_LOG2_PAGE;
}

/* Forget slabs of a segment whose context went a moment ago.  Entries are read first, because most
 * were never touched. */
static void forget_slabs(struct cushim_mem_pagemap *map, uint64_t first, uint64_t end) {
    for (uint64_t page = first << LOG2_SPOT_PAGES; page < end << LOG2_SPOT_PAGES; page++) {
        if (load_relaxed(slab_of_page(map, page)))
            store_relaxed(slab_of_page(map, page), NULL);
    }
}

static void fill_spots(struct cushim_mem_pagemap *map, uint64_t first, uint64_t end,
                       uintptr_t segment) {
    for (uint64_t spot = first; spot < end; spot++)
        store_release(entry_of(map, spot), segment);
}

/*
 * Divide the large entry of a spot: its spots get its segment, and then it refers to them.  If the
 * segment is cleared meanwhile, they are NULL again before any look-up reads them.
 */
static void divide(struct cushim_mem_pagemap *map, uint64_t spot) {
    uint64_t first = spot & ~(uint64_t)(LARGE_SPOTS - 1);
    uintptr_t seen = load_relaxed(large_of(map, spot));
    while (seen != CUSHIM_MEM_DIVIDED) {
        fill_spots(map, first, first + LARGE_SPOTS, seen);
        if (atomic_compare_exchange_strong(large_of(map, spot), &seen, CUSHIM_MEM_DIVIDED))
            break;
    }
}

/* Set spots first .. end - 1 to the segment.  The caller holds the lock. */
static void fill(struct cushim_mem_pagemap *map, uint64_t first, uint64_t end, uintptr_t segment) {
    for (uint64_t spot = first, next; spot < end; spot = next) {
        next = cushim_least((spot | (LARGE_SPOTS - 1)) + 1, end);
        bool was_set = load_relaxed(large_of(map, spot)) != 0;
        if (next - spot == LARGE_SPOTS) {
            store_release(large_of(map, spot), segment);
        } else {
            divide(map, spot);
            fill_spots(map, spot, next, segment);
        }
        if (was_set)
            forget_slabs(map, spot, next);
    }
}

/* Set or clear the vacated bits of pages first .. end - 1, if their tables exist. */
static void mark(struct cushim_mem_pagemap *map, uint64_t first, uint64_t end, bool is_vacated) {
    for (uint64_t page = first, next; page < end; page = next) {
        struct cushim_mem_table *table =
            cushim_mem_pagemap_table(map, page << CUSHIM_MEM_LOG2_PAGE);
        next = cushim_least((page | (table ? 63 : CUSHIM_MEM_TABLE_PAGES - 1)) + 1, end);
        if (!table)
            continue;
        uint64_t bits = ~(uint64_t)0 << page % 64 & ~(uint64_t)0 >> (63 - (next - 1) % 64);
        atomic_uint_fast64_t *word = &table->vacated[(page & (CUSHIM_MEM_TABLE_PAGES - 1)) / 64];
        if (is_vacated)
            atomic_fetch_or_explicit(word, bits, memory_order_relaxed);
        else if (load_relaxed(word) & bits) /* most were never
                                             * touched */
            atomic_fetch_and_explicit(word, ~bits, memory_order_relaxed);
    }
}

void cushim_mem_pagemap_note_slab(struct cushim_mem_pagemap *map, struct cushim_mem_extent *slab,
                                  bool is_there) {
    uint64_t base = cushim_mem_extent_address(slab);
    /* the only block begins in the first page */
    size_t n_bytes =
        slab->n_cells > 1 ? slab->n_grains << CUSHIM_MEM_LOG2_GRAIN : CUSHIM_MEM_PAGE_BYTES;
    uint64_t end = (base + n_bytes) >> CUSHIM_MEM_LOG2_PAGE;
    for (uint64_t page = page_behind(base); page < end; page++) {
        struct cushim_mem_extent *seen = slab;
        if (is_there)
            store_release(slab_of_page(map, page), slab);
        else
            atomic_compare_exchange_strong(slab_of_page(map, page), &seen, NULL);
    }
}

enum cushim_status cushim_mem_pagemap_set(struct cushim_mem_pagemap *map, uint64_t base,
                                          size_t n_bytes, struct cushim_mem_segment *segment) {
    const uint64_t limit = (uint64_t)1 << CUSHIM_MEM_LOG2_ADDRESS;
    if (!n_bytes || !cushim_is_aligned(base, CUSHIM_MEM_SPOT_BYTES) || base >= limit ||
        n_bytes > limit - base)
        return CUSHIM_INVALID;
    uint64_t first = base >> CUSHIM_MEM_LOG2_SPOT, end = spot_behind(base, n_bytes);
    pthread_mutex_lock(&setting);
    bool has_tables =
        make_tables(map, first >> CUSHIM_MEM_LOG2_TABLE, (end - 1) >> CUSHIM_MEM_LOG2_TABLE);
    if (has_tables && cushim_mem_pagemap_has_vacated(map))
        mark(map, first << LOG2_SPOT_PAGES, end << LOG2_SPOT_PAGES, false);
    if (has_tables)
        fill(map, first, end, (uintptr_t)segment);
    pthread_mutex_unlock(&setting);
    return has_tables ? CUSHIM_OK : CUSHIM_NOMEM;
}

void cushim_mem_pagemap_clear(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                              struct cushim_mem_segment *segment) {
    uint64_t end = spot_behind(base, n_bytes);
    for (uint64_t spot = base >> CUSHIM_MEM_LOG2_SPOT, next; spot < end; spot = next) {
        uintptr_t seen = (uintptr_t)segment;
        next = cushim_least((spot | (LARGE_SPOTS - 1)) + 1, end);
        if (atomic_compare_exchange_strong(large_of(map, spot), &seen, 0) ||
            seen != CUSHIM_MEM_DIVIDED) /* a part of it already belongs to another segment */
            continue;
        for (; spot < next; spot++) {
            seen = (uintptr_t)segment;
            atomic_compare_exchange_strong(entry_of(map, spot), &seen, 0);
        }
    }
}

void cushim_mem_pagemap_vacate(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes) {
    mark(map, base >> CUSHIM_MEM_LOG2_PAGE, spot_behind(base, n_bytes) << LOG2_SPOT_PAGES, true);
    store_relaxed(&map->has_vacated, true);
}

void cushim_mem_pagemap_resettle(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes) {
    const uint64_t limit = (uint64_t)1 << CUSHIM_MEM_LOG2_ADDRESS;
    uint64_t end = base < limit && n_bytes < limit - base ? base + n_bytes : limit;
    if (base < limit)
        mark(map, page_behind(base), end >> CUSHIM_MEM_LOG2_PAGE, false);
}
