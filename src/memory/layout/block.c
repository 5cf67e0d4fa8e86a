#include "memory/layout/block.h"

#include "memory/layout/chunk.h"

/* The same in a chunk of the arena; false where no block was ever cut. */
static bool find_in_chunk(struct cushim_mem_extent *extent, uint64_t address,
                          struct cushim_mem_lookup *found) {
    const struct cushim_mem_chunk *chunk = extent->chunk;
    uint64_t start = cushim_mem_extent_address(extent);
    uint32_t index;
    if (!chunk || !cushim_mem_chunk_find(
                      chunk, (uint32_t)((address - start) / CUSHIM_MEM_GRAIN_BYTES), &index))
        return false;
    found->place = (struct cushim_mem_blockref){extent, index};
    found->cell = &chunk->cells[index];
    found->base = start + (uint64_t)index * CUSHIM_MEM_GRAIN_BYTES;
    found->block_bytes = cushim_mem_chunk_cut_bytes(
        atomic_load_explicit(&found->cell->asked_bytes, memory_order_relaxed));
    return true;
}

/* The same where the extent is one block. */
static bool find_single(struct cushim_mem_extent *extent, struct cushim_mem_lookup *found) {
    found->place = (struct cushim_mem_blockref){extent, 0};
    found->cell = &extent->single;
    found->base = cushim_mem_extent_address(extent);
    found->block_bytes = extent->block_bytes;
    return true;
}

/* False where no block was ever cut. */
static bool find_cell(struct cushim_mem_extent *extent, uint64_t address,
                      struct cushim_mem_lookup *found) {
    switch (atomic_load_explicit(&extent->kind, memory_order_acquire)) {
    case CUSHIM_MEM_EXTENT_SLAB:
    case CUSHIM_MEM_EXTENT_RETIRED:
        return cushim_mem_blocks_find_in_slab(found->segment, extent, address, found);
    case CUSHIM_MEM_EXTENT_BLOCK:
        return find_single(extent, found);
    case CUSHIM_MEM_EXTENT_ARENA:
        return find_in_chunk(extent, address, found);
    default:
        return false;
    }
}

bool cushim_mem_blocks_find(struct cushim_mem_blocks *ledger, uint64_t address,
                            struct cushim_mem_lookup *found) {
    struct cushim_mem_segment *segment = cushim_mem_pagemap_find(&ledger->map, address);
    if (!segment)
        return false;
    found->segment = segment;
    struct cushim_mem_extent *extent = cushim_mem_segment_extent(segment, address);
    if (!extent || !find_cell(extent, address, found)) {
        *found = (struct cushim_mem_lookup){.segment = segment, .state = CUSHIM_MEM_FREE};
        return true;
    }
    found->base += segment->guard_bytes;
    found->state =
        cushim_mem_state_of(atomic_load_explicit(&found->cell->state, memory_order_acquire));
    found->asked_bytes = atomic_load_explicit(&found->cell->asked_bytes, memory_order_relaxed);
    return true;
}
