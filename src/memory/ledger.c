#include "memory/ledger.h"

/* The cell of an address in an extent; false in the tail of a slab that no block covers. */
static bool find_cell(struct cushim_mem_extent *extent, uint64_t address, int kind,
                      struct cushim_mem_found *found) {
    uint64_t start = cushim_mem_extent_address(extent);
    uint32_t index = 0;
    struct cushim_mem_cell *cells = &extent->single;
    if (kind == CUSHIM_MEM_EXTENT_SLAB) {
        index = (uint32_t)((address - start) / extent->block_bytes);
        if (index >= extent->n_cells)
            return false;
        cells = extent->cells;
        if (!cells) /* taken down meanwhile: the program uses what it frees */
            return false;
        start += index * extent->block_bytes;
    }
    found->place = (struct cushim_mem_place){extent, index};
    found->cell = &cells[index];
    found->base = start;
    found->block_bytes = extent->block_bytes;
    return true;
}

bool cushim_mem_ledger_find(struct cushim_mem_ledger *ledger, uint64_t address,
                            struct cushim_mem_found *found) {
    struct cushim_mem_segment *segment = cushim_mem_pagemap_find(&ledger->map, address);
    if (!segment)
        return false;
    *found = (struct cushim_mem_found){.segment = segment, .state = CUSHIM_MEM_FREE};
    struct cushim_mem_extent *extent = cushim_mem_segment_extent(segment, address);
    int kind =
        extent ? atomic_load_explicit(&extent->kind, memory_order_acquire) : CUSHIM_MEM_EXTENT_FREE;
    if (kind == CUSHIM_MEM_EXTENT_FREE || !find_cell(extent, address, kind, found))
        return true;
    found->state =
        (enum cushim_mem_state)atomic_load_explicit(&found->cell->state, memory_order_acquire);
    found->asked_bytes = atomic_load_explicit(&found->cell->asked_bytes, memory_order_relaxed);
    return true;
}

enum cushim_mem_verdict cushim_mem_ledger_judge(struct cushim_mem_ledger *ledger, uint64_t address,
                                                size_t n_bytes) {
    struct cushim_mem_found found;
    if (!n_bytes)
        return CUSHIM_MEM_INSIDE;
    if (!cushim_mem_ledger_find(ledger, address, &found))
        return CUSHIM_MEM_FOREIGN;
    if (found.state != CUSHIM_MEM_LIVE)
        return CUSHIM_MEM_NO_BLOCK;
    uint64_t offset = address - found.base;
    bool is_inside = offset < found.asked_bytes && n_bytes <= found.asked_bytes - offset;
    return is_inside ? CUSHIM_MEM_INSIDE : CUSHIM_MEM_OVERRUN;
}
