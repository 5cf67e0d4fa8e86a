#include "memory/layout/pagemap.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/helgrind.h"

/* Entries by what they are for: 1 GiB, 2 MiB, a spot. */
enum level { GIANT, LARGE, SPOT };
static const unsigned log2_spots[] = {CUSHIM_MEM_LOG2_TABLE, CUSHIM_MEM_LOG2_LARGE, 0};

/* Held by who sets: to divide an entry takes many stores.  Who clears needs but one at a time. */
static pthread_mutex_t setting = PTHREAD_MUTEX_INITIALIZER;

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Under the lock: the tables of a range, which are never unmapped; false where host memory is out.
 */
static bool make_tables(struct cushim_mem_pagemap *map, uint64_t first, uint64_t last) {
    for (uint64_t giant = first; giant <= last; giant++) {
        if (atomic_load_explicit(&map->tables[giant], memory_order_relaxed))
            continue;
        struct cushim_mem_table *fresh = mmap(NULL, sizeof *fresh, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (fresh == MAP_FAILED)
            return false;
        cushim_helgrind_ignore(fresh, sizeof *fresh);
        atomic_store_explicit(&map->tables[giant], fresh, memory_order_release);
    }
    return true;
}

/* Spots are counted from address 0. */
static struct cushim_mem_table *table_of(struct cushim_mem_pagemap *map, uint64_t spot) {
    return cushim_mem_pagemap_table(map, spot << CUSHIM_MEM_LOG2_SPOT);
}

static uint64_t spot_behind(uint64_t base, size_t n_bytes) {
    return (base + n_bytes + CUSHIM_MEM_SPOT_BYTES - 1) >> CUSHIM_MEM_LOG2_SPOT;
}

static cushim_mem_entry *entry_of(struct cushim_mem_pagemap *map, enum level level, uint64_t spot) {
    uint64_t place = spot & (CUSHIM_MEM_TABLE_SPOTS - 1);
    if (level == GIANT)
        return &map->giants[spot >> CUSHIM_MEM_LOG2_TABLE];
    struct cushim_mem_table *table = table_of(map, spot);
    return level == LARGE ? &table->larges[place >> CUSHIM_MEM_LOG2_LARGE] : &table->spots[place];
}

/* Where the entry ends that a spot lies in. */
static uint64_t end_of(enum level level, uint64_t spot) {
    return ((spot >> log2_spots[level]) + 1) << log2_spots[level];
}

/* Of a segment whose context went a moment ago; read first: most of it is never touched. */
static void forget_slabs(struct cushim_mem_pagemap *map, uint64_t first, uint64_t end) {
    for (uint64_t at = first << CUSHIM_MEM_LOG2_SPOT; at < end << CUSHIM_MEM_LOG2_SPOT;
         at += CUSHIM_MEM_PAGE_BYTES) {
        _Atomic(struct cushim_mem_extent *) *slab =
            &cushim_mem_pagemap_table(map, at)->slabs[cushim_mem_pagemap_page(at)];
        if (atomic_load_explicit(slab, memory_order_relaxed))
            atomic_store_explicit(slab, NULL, memory_order_relaxed);
    }
}

static void fill(struct cushim_mem_pagemap *map, enum level level, uint64_t first, uint64_t end,
                 uintptr_t segment);

/*
 * What the entry leads to, those below lead to, and it to them.  If its segment is cleared
 * meanwhile, they are NULL again before anybody is led there.
 */
static void divide(struct cushim_mem_pagemap *map, enum level level, uint64_t spot) {
    uint64_t end = end_of(level, spot), first = end - ((uint64_t)1 << log2_spots[level]);
    cushim_mem_entry *entry = entry_of(map, level, spot);
    uintptr_t seen = atomic_load_explicit(entry, memory_order_relaxed);
    uintptr_t table = level == GIANT ? (uintptr_t)table_of(map, spot) : 0;
    while (!(seen & CUSHIM_MEM_DIVIDED)) {
        fill(map, level + 1, first, end, seen);
        if (atomic_compare_exchange_strong(entry, &seen, table + CUSHIM_MEM_DIVIDED))
            break;
    }
}

/* Under the lock: spots first .. end - 1 are the segment's, or, with 0, nobody's. */
static void fill(struct cushim_mem_pagemap *map, enum level level, uint64_t first, uint64_t end,
                 uintptr_t segment) {
    for (uint64_t spot = first, next; spot < end; spot = next) {
        next = least(end_of(level, spot), end);
        if (next - spot < (uint64_t)1 << log2_spots[level]) {
            divide(map, level, spot);
            fill(map, level + 1, spot, next, segment);
            continue;
        }
        cushim_mem_entry *entry = entry_of(map, level, spot);
        uintptr_t seen = atomic_load_explicit(entry, memory_order_relaxed);
        if (seen != segment)
            atomic_store_explicit(entry, segment, memory_order_release);
        if (seen & CUSHIM_MEM_DIVIDED)
            fill(map, level + 1, spot, next, 0);
        else if (seen)
            forget_slabs(map, spot, next);
    }
}

/* The bits first .. end - 1, counted from address 0, as far as there are tables. */
static void mark(struct cushim_mem_pagemap *map, uint64_t first, uint64_t end, bool is_vacated) {
    for (uint64_t bit = first, next; bit < end; bit = next) {
        struct cushim_mem_table *table = cushim_mem_pagemap_table(map, bit << CUSHIM_MEM_LOG2_PAGE);
        if (table && is_vacated)
            atomic_store_explicit(&table->has_vacated, true, memory_order_relaxed);
        bool is_concerned =
            table && atomic_load_explicit(&table->has_vacated, memory_order_relaxed);
        next = least((bit | (is_concerned ? 63 : CUSHIM_MEM_TABLE_PAGES - 1)) + 1, end);
        if (!is_concerned)
            continue;
        uint64_t bits = ~(uint64_t)0 << bit % 64 & ~(uint64_t)0 >> (63 - (next - 1) % 64);
        atomic_uint_fast64_t *word = &table->vacated[(bit & (CUSHIM_MEM_TABLE_PAGES - 1)) / 64];
        if (is_vacated)
            atomic_fetch_or_explicit(word, bits, memory_order_relaxed);
        else if (atomic_load_explicit(word, memory_order_relaxed) & bits) /* most are untouched */
            atomic_fetch_and_explicit(word, ~bits, memory_order_relaxed);
    }
}

/* The same of all spots that a range touches. */
static void mark_spots(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                       bool is_vacated) {
    const unsigned shift = CUSHIM_MEM_LOG2_SPOT - CUSHIM_MEM_LOG2_PAGE;
    uint64_t first = base >> CUSHIM_MEM_LOG2_SPOT, end = spot_behind(base, n_bytes);
    mark(map, first << shift, end << shift, is_vacated);
}

static _Atomic(struct cushim_mem_extent *) *slab_of_page(struct cushim_mem_pagemap *map,
                                                         uint64_t page) {
    uint64_t address = page << CUSHIM_MEM_LOG2_PAGE;
    return &cushim_mem_pagemap_table(map, address)->slabs[cushim_mem_pagemap_page(address)];
}

/* The first page that begins at an address or behind it. */
static uint64_t page_behind(uint64_t address) {
    return (address + CUSHIM_MEM_PAGE_BYTES - 1) >> CUSHIM_MEM_LOG2_PAGE;
}

void cushim_mem_pagemap_set_slab(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                                 struct cushim_mem_extent *slab) {
    uint64_t end = (base + n_bytes) >> CUSHIM_MEM_LOG2_PAGE;
    for (uint64_t page = page_behind(base); page < end; page++)
        atomic_store_explicit(slab_of_page(map, page), slab, memory_order_release);
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
        mark_spots(map, base, n_bytes, false);
    if (has_tables)
        fill(map, GIANT, first, end, (uintptr_t)segment);
    pthread_mutex_unlock(&setting);
    return has_tables ? CUSHIM_OK : CUSHIM_NOMEM;
}

/* Where another's segment was set in a part of an entry, it leads down by now. */
static void empty(struct cushim_mem_pagemap *map, enum level level, uint64_t first, uint64_t end,
                  uintptr_t segment) {
    for (uint64_t spot = first, next; spot < end; spot = next) {
        next = least(end_of(level, spot), end);
        cushim_mem_entry *entry = entry_of(map, level, spot);
        uintptr_t seen = atomic_load_explicit(entry, memory_order_acquire);
        if (seen == segment && atomic_compare_exchange_strong(entry, &seen, 0))
            continue;
        if (seen & CUSHIM_MEM_DIVIDED)
            empty(map, level + 1, spot, next, segment);
    }
}

void cushim_mem_pagemap_clear(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                              struct cushim_mem_segment *segment) {
    empty(map, GIANT, base >> CUSHIM_MEM_LOG2_SPOT, spot_behind(base, n_bytes), (uintptr_t)segment);
}

void cushim_mem_pagemap_clear_slab(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                                   struct cushim_mem_extent *slab) {
    uint64_t end = (base + n_bytes) >> CUSHIM_MEM_LOG2_PAGE;
    for (uint64_t page = page_behind(base); page < end; page++) {
        struct cushim_mem_extent *seen = slab;
        atomic_compare_exchange_strong(slab_of_page(map, page), &seen, NULL);
    }
}

void cushim_mem_pagemap_vacate(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes) {
    mark_spots(map, base, n_bytes, true);
    atomic_store_explicit(&map->has_vacated, true, memory_order_relaxed);
}

void cushim_mem_pagemap_resettle(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes) {
    const uint64_t limit = (uint64_t)1 << CUSHIM_MEM_LOG2_ADDRESS;
    uint64_t end = base < limit && n_bytes < limit - base ? base + n_bytes : limit;
    if (base < limit)
        mark(map, page_behind(base), end >> CUSHIM_MEM_LOG2_PAGE, false);
}
