#include "memory/ledger.h"

#include "memory/chunk.h"

/* The same in a chunk of the arena; false where no block was ever cut. */
static bool find_in_chunk(struct cushim_mem_extent *extent, uint64_t address,
                          struct cushim_mem_found *found) {
    const struct cushim_mem_chunk *chunk = extent->chunk;
    uint64_t start = cushim_mem_extent_address(extent);
    uint32_t index;
    if (!chunk || !cushim_mem_chunk_find(
                      chunk, (uint32_t)((address - start) / CUSHIM_MEM_GRAIN_BYTES), &index))
        return false;
    found->place = (struct cushim_mem_place){extent, index};
    found->cell = &chunk->cells[index];
    found->base = start + (uint64_t)index * CUSHIM_MEM_GRAIN_BYTES;
    found->block_bytes = cushim_mem_chunk_cut_bytes(
        atomic_load_explicit(&found->cell->asked_bytes, memory_order_relaxed));
    return true;
}

/* The cell of an address in an extent; false in the tail of a slab that no block covers. */
static bool find_cell(struct cushim_mem_extent *extent, uint64_t address, int kind,
                      struct cushim_mem_found *found) {
    /* not by way of the extent: the segment's base is at hand already */
    uint64_t start = found->segment->base + ((uint64_t)extent->first_page << CUSHIM_MEM_LOG2_PAGE);
    uint32_t index = 0;
    struct cushim_mem_cell *cells = &extent->single;
    if (kind == CUSHIM_MEM_EXTENT_ARENA)
        return find_in_chunk(extent, address, found);
    if (kind == CUSHIM_MEM_EXTENT_SLAB) {
        /* a slab and its blocks are far below 4 GiB, and the short division takes half as long */
        uint32_t cell_bytes = (uint32_t)extent->block_bytes;
        if (!cell_bytes) /* another kind of extent by now */
            return false;
        index = (uint32_t)(address - start) / cell_bytes;
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
    found->segment = segment;
    struct cushim_mem_extent *extent = cushim_mem_segment_extent(segment, address);
    int kind =
        extent ? atomic_load_explicit(&extent->kind, memory_order_acquire) : CUSHIM_MEM_EXTENT_FREE;
    if (kind == CUSHIM_MEM_EXTENT_FREE || !find_cell(extent, address, kind, found)) {
        *found = (struct cushim_mem_found){.segment = segment, .state = CUSHIM_MEM_FREE};
        return true;
    }
    found->base += segment->guard_bytes;
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
    return cushim_mem_ledger_judge_found(&found, address, n_bytes);
}
