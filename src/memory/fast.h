/*
 * The fast paths of a request and of a free, for a block of a slab that the calling thread's cache
 * has, or takes.
 *
 * They take no lock and make no driver call but the wait of an exact free.  The only cache lines
 * they write that other threads write too are the block's own metadata and what waiting threads
 * share.
 *
 * Each does the whole operation or nothing; where it did nothing the caller takes the slow path
 * (heap.c, free.c), which covers all cases.
 */
#ifndef CUSHIM_MEMORY_FAST_H
#define CUSHIM_MEMORY_FAST_H

#include "memory/state/heap_state.h"

/* Is it of a size that caches have, and may it be served by who tells nobody of it?  Asked before
 * anything that costs. */
static inline bool cushim_mem_fast_may_obtain(const struct cushim_mem_heap *heap, size_t n_bytes) {
    return n_bytes - 1 < heap->quick_bytes;
}

/**
 * Serve a request from the thread's cache.
 * @param n_bytes  of a size that caches have; the heap has neither guards nor an arena
 * @return the address of a LIVE block; 0: it is not that simple, nothing was done
 */
uint64_t cushim_mem_fast_obtain(struct cushim_mem_heap *heap, size_t n_bytes);

/**
 * Take a LIVE block back without a wait, which is for `relaxed` alone.
 * @param address  where the block starts, or anything else
 * @param entry    ENTRY_PINNED takes pinned memory back, ENTRY_ANY all other
 * @return false: it is not that simple, nothing was done
 * Threads  any that captures nothing      Stream   none, but that what the heap may not hold any
 * more may go back to the driver, as in any free
 */
bool cushim_mem_fast_release(struct cushim_mem_blocks *blocks, uint64_t address,
                             enum cushim_mem_free_entry entry);

enum { CUSHIM_MEM_FAST_DECLINED = -1 };

/**
 * The same for `exact`, once all work of the context is over.
 * @return CUSHIM_MEM_FAST_DECLINED: it is not that simple, nothing was done | CUDA_SUCCESS | why
 * the driver refused: the block is LIVE as before, or went with its context Stream  host wait, as
 * cudaFree
 */
int cushim_mem_fast_release_behind_wait(struct cushim_mem_blocks *blocks, uint64_t address,
                                        enum cushim_mem_free_entry entry);

/* A free that took no lock has changed nothing of what is held, but time may have: then what the
 * heap may not hold any more is to go. */
bool cushim_mem_fast_is_stale(const struct cushim_mem_heap *heap);

#endif
