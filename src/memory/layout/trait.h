/*
 * Traits: flags of a LIVE block, for what the program asked for or was told of it; they end with
 * the block.
 *
 * They are bits above LIVE in the state word of the block's metadata, set by compare and exchange
 * while it is LIVE; handing a block out writes plain LIVE.  So they cost requests and frees nothing
 * in the common case: the fast path of a free exchanges plain LIVE alone, and the slow path accepts
 * every word that is LIVE.  No lock.
 */
#ifndef CUSHIM_MEMORY_TRAIT_H
#define CUSHIM_MEMORY_TRAIT_H

#include "memory/layout/block.h"

/*
 * The number of this life of a block, given at the first question; 0: it is LIVE no more.  No other
 * block has it until 2^28 were asked for.
 */
uint32_t cushim_mem_trait_number(const struct cushim_mem_lookup *found);

enum {
    CUSHIM_MEM_TRAIT_SYNCHRONOUS = 1 << CUSHIM_MEM_STATE_BITS,
    CUSHIM_MEM_TRAIT_WATCHED = 2 << CUSHIM_MEM_STATE_BITS
};

/* Somebody keeps account of this life of a block, which the caller just got and nobody else has:
 * its free is to be told. */
void cushim_mem_trait_watch(const struct cushim_mem_lookup *found);

static inline bool cushim_mem_trait_is_watched(const struct cushim_mem_lookup *found) {
    uint32_t word = atomic_load_explicit(&found->cell->state, memory_order_relaxed);
    return word & CUSHIM_MEM_TRAIT_WATCHED;
}

/* Does the host wait for copies and sets of it (SYNC_MEMOPS)? */
static inline bool cushim_mem_trait_is_synchronous(const struct cushim_mem_lookup *found) {
    uint32_t word = atomic_load_explicit(&found->cell->state, memory_order_relaxed);
    return word & CUSHIM_MEM_TRAIT_SYNCHRONOUS;
}

/*
 * It does from now on, or no more.  Counted in the segment's n_synchronous, before the one and
 * behind the other.  False: nothing changed, it did or did not before, or is LIVE no more.
 */
bool cushim_mem_trait_set_synchronous(const struct cushim_mem_lookup *found, bool is_synchronous);

#endif
