/*
 * Questions about memory: what is at an address, as the program may know it (interposition.md C1,
 * C10).
 *
 * The driver knows our segments, but the program knows its blocks.  So an answer is about the
 * block, and if none is live, it is the driver's answer for unknown memory.
 */
#pragma once

#include "memory/layout/block.h"
#include "preload/state/contexts.h"
#include "preload/state/process.h"

enum cushim_sight {
    CUSHIM_SIGHT_FOREIGN, /* the driver's to answer */
    CUSHIM_SIGHT_BLOCK,   /* inside a live block of ours */
    CUSHIM_SIGHT_NOTHING  /* in a segment of ours, and in no live block, or past its end */
};

/* What [address, address + n_bytes) is; `lookup` is filled unless it is foreign. */
static inline enum cushim_sight cushim_sight(uint64_t address, size_t n_bytes,
                                             struct cushim_mem_lookup *lookup) {
    if (!cushim_process_is_on() ||
        !cushim_contexts_find_block(address, !cushim_thread.host_function_depth, lookup))
        return CUSHIM_SIGHT_FOREIGN;
    return cushim_mem_blocks_judge(lookup, address, n_bytes) > CUSHIM_MEM_INSIDE
               ? CUSHIM_SIGHT_NOTHING
               : CUSHIM_SIGHT_BLOCK;
}

/* No memory is ever here, so the driver answers as for any unknown address. */
enum { CUSHIM_UNKNOWN_ADDRESS = 16 };

/* The address to ask the driver about: the given one, or the unknown one if the program has no
 * block there. */
static inline uint64_t cushim_sight_ask(uint64_t address, size_t n_bytes) {
    struct cushim_mem_lookup lookup;
    return cushim_sight(address, n_bytes, &lookup) == CUSHIM_SIGHT_NOTHING ? CUSHIM_UNKNOWN_ADDRESS
                                                                           : address;
}

/* Its memory has no handle for other processes: say why, and count it.  Returns the answer. */
CUresult cushim_sight_refuse_handle(uint64_t address, const char *why);

/* A LIVE block is no longer synchronous (SYNC_MEMOPS).  If it was the last, its segment is not
 * either. */
void cushim_sight_reset(const struct cushim_mem_lookup *lookup);

/* A LIVE block is about to be freed. */
static inline void cushim_sight_end(const struct cushim_mem_lookup *lookup) {
    if (cushim_mem_block_is_synchronous(lookup))
        cushim_sight_reset(lookup);
}
