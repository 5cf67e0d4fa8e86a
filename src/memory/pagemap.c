#include "memory/pagemap.h"

#include <sys/mman.h>

#include "base/bits.h"
#include "base/helgrind.h"

/* Leaves are never unmapped, so two threads that race for one agree by compare and exchange. */
static struct cushim_mem_leaf *leaf_of(struct cushim_mem_pagemap *map, uint64_t root) {
    struct cushim_mem_leaf *leaf = atomic_load_explicit(&map->leaves[root], memory_order_acquire);
    if (leaf)
        return leaf;
    struct cushim_mem_leaf *fresh = mmap(NULL, sizeof *fresh, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED)
        return NULL;
    cushim_helgrind_ignore(fresh, sizeof *fresh);
    if (atomic_compare_exchange_strong(&map->leaves[root], &leaf, fresh))
        return fresh;
    munmap(fresh, sizeof *fresh);
    return leaf;
}

static void fill(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                 struct cushim_mem_segment *segment) {
    for (uint64_t at = base; at < base + n_bytes; at += CUSHIM_MEM_PAGE_BYTES) {
        struct cushim_mem_leaf *leaf = cushim_mem_pagemap_leaf(map, at);
        uint64_t place = cushim_mem_pagemap_place(at);
        /* of a segment whose context went a moment ago; read first: most of it is never touched */
        if (atomic_load_explicit(&leaf->slabs[place], memory_order_relaxed))
            atomic_store_explicit(&leaf->slabs[place], NULL, memory_order_relaxed);
        atomic_store_explicit(&leaf->segments[place], segment, memory_order_release);
    }
}

/* The bits first .. end - 1, counted from address 0, as far as there are leaves. */
static void mark(struct cushim_mem_pagemap *map, uint64_t first, uint64_t end, bool is_vacated) {
    for (uint64_t bit = first, next; bit < end; bit = next) {
        struct cushim_mem_leaf *leaf = cushim_mem_pagemap_leaf(map, bit << CUSHIM_MEM_LOG2_BIT);
        uint64_t last = bit | (leaf ? 63 : CUSHIM_MEM_LEAF_BITS - 1);
        next = last < end ? last + 1 : end;
        if (!leaf)
            continue;
        uint64_t bits = ~(uint64_t)0 << bit % 64 & ~(uint64_t)0 >> (63 - (next - 1) % 64);
        atomic_uint_fast64_t *word = &leaf->vacated[(bit & (CUSHIM_MEM_LEAF_BITS - 1)) / 64];
        if (is_vacated)
            atomic_fetch_or_explicit(word, bits, memory_order_relaxed);
        else if (atomic_load_explicit(word, memory_order_relaxed) & bits) /* most are untouched */
            atomic_fetch_and_explicit(word, ~bits, memory_order_relaxed);
    }
}

/* The same of all pages that a range touches. */
static void mark_pages(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                       bool is_vacated) {
    const unsigned shift = CUSHIM_MEM_LOG2_PAGE - CUSHIM_MEM_LOG2_BIT;
    uint64_t first = base >> CUSHIM_MEM_LOG2_PAGE, end = first + cushim_mem_pages_of(n_bytes);
    mark(map, first << shift, end << shift, is_vacated);
}

void cushim_mem_pagemap_set_slab(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                                 struct cushim_mem_extent *slab) {
    for (uint64_t at = base; at < base + n_bytes; at += CUSHIM_MEM_PAGE_BYTES)
        atomic_store_explicit(
            &cushim_mem_pagemap_leaf(map, at)->slabs[cushim_mem_pagemap_place(at)], slab,
            memory_order_release);
}

enum cushim_status cushim_mem_pagemap_set(struct cushim_mem_pagemap *map, uint64_t base,
                                          size_t n_bytes, struct cushim_mem_segment *segment) {
    const uint64_t limit = (uint64_t)1 << CUSHIM_MEM_LOG2_ADDRESS;
    if (!n_bytes || !cushim_is_aligned(base, CUSHIM_MEM_PAGE_BYTES) || base >= limit ||
        n_bytes > limit - base)
        return CUSHIM_INVALID;
    const unsigned shift = CUSHIM_MEM_LOG2_PAGE + CUSHIM_MEM_LOG2_LEAF;
    for (uint64_t root = base >> shift; root <= (base + n_bytes - 1) >> shift; root++) {
        if (!leaf_of(map, root))
            return CUSHIM_NOMEM;
    }
    if (cushim_mem_pagemap_has_vacated(map))
        mark_pages(map, base, n_bytes, false);
    fill(map, base, n_bytes, segment);
    return CUSHIM_OK;
}

void cushim_mem_pagemap_clear(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                              struct cushim_mem_segment *segment) {
    for (uint64_t at = base; at < base + n_bytes; at += CUSHIM_MEM_PAGE_BYTES) {
        struct cushim_mem_segment *seen = segment;
        atomic_compare_exchange_strong(
            &cushim_mem_pagemap_leaf(map, at)->segments[cushim_mem_pagemap_place(at)], &seen, NULL);
    }
}

void cushim_mem_pagemap_clear_slab(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                                   struct cushim_mem_extent *slab) {
    for (uint64_t at = base; at < base + n_bytes; at += CUSHIM_MEM_PAGE_BYTES) {
        struct cushim_mem_extent *seen = slab;
        atomic_compare_exchange_strong(
            &cushim_mem_pagemap_leaf(map, at)->slabs[cushim_mem_pagemap_place(at)], &seen, NULL);
    }
}

void cushim_mem_pagemap_vacate(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes) {
    mark_pages(map, base, n_bytes, true);
    atomic_store_explicit(&map->has_vacated, true, memory_order_relaxed);
}

void cushim_mem_pagemap_resettle(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes) {
    const uint64_t limit = (uint64_t)1 << CUSHIM_MEM_LOG2_ADDRESS;
    uint64_t end = base < limit && n_bytes < limit - base ? base + n_bytes : limit;
    const uint64_t bit_bytes = (uint64_t)1 << CUSHIM_MEM_LOG2_BIT;
    if (base < limit)
        mark(map, (base + bit_bytes - 1) >> CUSHIM_MEM_LOG2_BIT, end >> CUSHIM_MEM_LOG2_BIT, false);
}
