#include "memory/layout/block.h"

#include "base/bits.h"
#include "memory/layout/chunk.h"

enum { LOG2_NUMBER = CUSHIM_MEM_STATE_BITS + 4, MOST_NUMBERS = 1 << (32 - LOG2_NUMBER) };

/* The same in a chunk of the arena; false if no block was ever cut there. */
static bool find_in_chunk(struct cushim_mem_extent *extent, uint64_t address,
                          struct cushim_mem_lookup *lookup) {
    if (load_acquire(&extent->kind) != CUSHIM_MEM_EXTENT_ARENA)
        return false;
    const struct cushim_mem_chunk *chunk = extent->chunk;
    uint64_t start = cushim_mem_extent_address(extent);
    uint32_t index;
    if (!chunk || !cushim_mem_chunk_find(
                      chunk, (uint32_t)((address - start) / CUSHIM_MEM_GRAIN_BYTES), &index))
        return false;
    lookup->ref = (struct cushim_mem_blockref){extent, index};
    lookup->meta = &chunk->cells[index];
    lookup->base = start + (uint64_t)index * CUSHIM_MEM_GRAIN_BYTES;
    lookup->block_bytes =
        cushim_rounded(load_relaxed(&lookup->meta->asked_bytes), CUSHIM_MEM_GRAIN_BYTES);
    return true;
}

struct cushim_mem_extent *cushim_mem_blocks_slab(struct cushim_mem_blocks *blocks,
                                                 uint64_t address) {
    const struct cushim_mem_segment *segment = cushim_mem_pagemap_find(&blocks->map, address);
    if (!segment || segment->is_dedicated)
        return NULL;
    struct cushim_mem_extent *extent = cushim_mem_segment_extent(segment, address);
    return extent && cushim_mem_extent_is_cut(extent) ? extent : NULL;
}

bool cushim_mem_blocks_find(struct cushim_mem_blocks *blocks, uint64_t address,
                            struct cushim_mem_lookup *lookup) {
    struct cushim_mem_segment *segment = cushim_mem_pagemap_find(&blocks->map, address);
    if (!segment)
        return false;
    lookup->segment = segment;
    struct cushim_mem_extent *extent = cushim_mem_segment_extent(segment, address);
    bool is_cut = extent && (cushim_mem_blocks_find_in_extent(segment, extent, address, lookup) ||
                             find_in_chunk(extent, address, lookup));
    if (!is_cut) {
        *lookup = (struct cushim_mem_lookup){.segment = segment, .state = CUSHIM_MEM_FREE};
        return true;
    }
    lookup->base += segment->guard_bytes;
    lookup->state = cushim_mem_state_of(load_acquire(&lookup->meta->state));
    lookup->asked_bytes = load_relaxed(&lookup->meta->asked_bytes);
    return true;
}

/* ---- what the program knows about a LIVE block ---- */

static uint32_t next_number(void) {
    static atomic_uint last;
    uint32_t number = (atomic_fetch_add(&last, 1) + 1) % MOST_NUMBERS;
    return number ? number : next_number();
}

uint32_t cushim_mem_block_number(const struct cushim_mem_lookup *lookup) {
    uint32_t word = atomic_load(&lookup->meta->state), number = 0;
    while (cushim_mem_state_of(word) == CUSHIM_MEM_LIVE && !(word >> LOG2_NUMBER)) {
        if (!number)
            number = next_number();
        if (atomic_compare_exchange_weak(&lookup->meta->state, &word, word | number << LOG2_NUMBER))
            return number;
    }
    return cushim_mem_state_of(word) == CUSHIM_MEM_LIVE ? word >> LOG2_NUMBER : 0;
}

void cushim_mem_block_watch(const struct cushim_mem_lookup *lookup) {
    atomic_fetch_or_explicit(&lookup->meta->state, CUSHIM_MEM_BLOCK_WATCHED, memory_order_relaxed);
}

/* Set a bit of a LIVE block, or clear it; false: nothing changed. */
static bool exchange(struct cushim_mem_block_meta *meta, uint32_t bit, bool is_set) {
    uint32_t word = atomic_load(&meta->state);
    while (cushim_mem_state_of(word) == CUSHIM_MEM_LIVE && !(word & bit) == is_set) {
        if (atomic_compare_exchange_weak(&meta->state, &word, word ^ bit))
            return true;
    }
    return false;
}

void cushim_mem_block_show(const struct cushim_mem_lookup *lookup) {
    exchange(lookup->meta, CUSHIM_MEM_BLOCK_SHOWN, true);
}

bool cushim_mem_block_set_recorded(struct cushim_mem_block_meta *meta, bool is_recorded) {
    return exchange(meta, CUSHIM_MEM_BLOCK_RECORDED, is_recorded);
}

bool cushim_mem_block_set_synchronous(const struct cushim_mem_lookup *lookup, bool is_synchronous) {
    atomic_uint *n_synchronous = &lookup->segment->n_synchronous;
    if (is_synchronous)
        atomic_fetch_add(n_synchronous, 1);
    bool is_done = exchange(lookup->meta, CUSHIM_MEM_BLOCK_SYNCHRONOUS, is_synchronous);
    if (is_done != is_synchronous)
        atomic_fetch_sub(n_synchronous, 1);
    return is_done;
}
