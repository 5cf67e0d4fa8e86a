/*
 * Free: a live block goes back to its heap.
 *
 * The fast path is for a block of a slab that the cache of the calling thread takes.  It takes no
 * lock and makes no driver call but the wait of an exact free.  It does the whole operation or
 * nothing; then the slow path does it, which covers all cases.
 */
#pragma once

#include "cuda/types.h"
#include "memory/layout/block.h"
#include "memory/policy.h"

/**
 * Take a LIVE block back without a wait; only in `relaxed` mode.
 * @param address  where the block starts, or anything else
 * @param entry    ENTRY_PINNED takes pinned memory back, ENTRY_ANY all other
 * @return false: the free needs the slow path, and nothing was done
 * Threads  any that captures nothing
 * Stream   none, except that memory which the heap may no longer hold may go back to the driver, as
 *          in any free
 */
bool cushim_mem_free_fast(struct cushim_mem_blocks *blocks, uint64_t address,
                          enum cushim_mem_free_entry entry);

enum { CUSHIM_MEM_FREE_DECLINED = -1 };

/**
 * The same for `exact`, once all work of the context is over.
 * @return CUSHIM_MEM_FREE_DECLINED: the free needs the slow path, and nothing was done |
 *         CUDA_SUCCESS | the driver's reason to refuse: the block is LIVE as before, or went with
 *         its context
 * Stream   host wait, as cudaFree
 */
int cushim_mem_free_fast_behind_wait(struct cushim_mem_blocks *blocks, uint64_t address,
                                     enum cushim_mem_free_entry entry);

/**
 * Take a LIVE block back, once all work of the context is over.
 * @param lookup  from the table of blocks
 * @param answer  what the driver said if the wait failed, else CUDA_SUCCESS
 * @return CUSHIM_OK | CUSHIM_DOUBLEFREE (another thread freed it first) | the status of `answer`
 *         (the block is LIVE as before)
 * Threads  any
 * Stream   host wait, as cudaFree
 */
enum cushim_status cushim_mem_free(struct cushim_mem_heap *heap,
                                   const struct cushim_mem_lookup *lookup, CUresult *answer);

/* The same in the order of `stream`: it returns at once, and the block is reused after the work
 * that is in the stream now. */
enum cushim_status cushim_mem_free_on(struct cushim_mem_heap *heap,
                                      const struct cushim_mem_lookup *lookup, CUstream stream,
                                      CUresult *answer);

/* The first half of a free: only LIVE -> DEFERRED.  The caller keeps the block for a while
 * (check.h, graph_resources.h).  CUSHIM_OK | CUSHIM_DOUBLEFREE | CUSHIM_STATE (the
 * heap is not open, or its context is damaged). */
enum cushim_status cushim_mem_free_claim(struct cushim_mem_heap *heap,
                                         const struct cushim_mem_lookup *lookup);
