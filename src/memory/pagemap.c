#include "memory/pagemap.h"

#include <sys/mman.h>

#include "base/bits.h"

/* Leaves are never unmapped, so two threads that race for one agree by compare and exchange. */
static struct cushim_mem_leaf *leaf_of(struct cushim_mem_pagemap *map, uint64_t root) {
    struct cushim_mem_leaf *leaf = atomic_load_explicit(&map->leaves[root], memory_order_acquire);
    if (leaf)
        return leaf;
    struct cushim_mem_leaf *fresh = mmap(NULL, sizeof *fresh, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED)
        return NULL;
    if (atomic_compare_exchange_strong(&map->leaves[root], &leaf, fresh))
        return fresh;
    munmap(fresh, sizeof *fresh);
    return leaf;
}

static void fill(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes,
                 struct cushim_mem_segment *segment) {
    uint64_t first = base >> CUSHIM_MEM_LOG2_PAGE;
    uint64_t end = first + cushim_mem_pages_of(n_bytes);
    for (uint64_t page = first; page < end; page++) {
        struct cushim_mem_leaf *leaf =
            atomic_load_explicit(&map->leaves[page >> CUSHIM_MEM_LOG2_LEAF], memory_order_acquire);
        atomic_store_explicit(&leaf->segments[page & (CUSHIM_MEM_LEAF_PAGES - 1)], segment,
                              memory_order_release);
    }
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
    fill(map, base, n_bytes, segment);
    return CUSHIM_OK;
}

void cushim_mem_pagemap_clear(struct cushim_mem_pagemap *map, uint64_t base, size_t n_bytes) {
    fill(map, base, n_bytes, NULL);
}
