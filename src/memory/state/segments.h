/*
 * The segments of a heap: from its provider into the page map and the lists, and back.
 *
 * Invariant: a segment is entered into the page map after it was obtained, and removed before it is
 * released, because the driver may give its addresses to another thread at once.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include "cushim/status.h"

struct cushim_mem_heap;

/**
 * Ask the driver for memory, without the lock; the heap's context is current.
 * @param base  set on success; the memory belongs to the caller, for enter or put_back
 * @return CUSHIM_OK | CUSHIM_NOMEM | another status of the driver
 * Stream   never waits; valid while any thread captures
 */
enum cushim_status cushim_mem_segments_fetch(struct cushim_mem_heap *heap, size_t n_bytes,
                                             uint64_t *base);

/* The driver's answer when it last refused the calling thread, because statuses are coarser. */
CUresult cushim_mem_segments_refusal(void);

/* Give memory back that was fetched and not entered. */
void cushim_mem_segments_put_back(struct cushim_mem_heap *heap, uint64_t base, size_t n_bytes);

/**
 * Make a segment of fetched memory.  Its one extent is free and listed or, if the segment is
 * dedicated, a BLOCK that belongs to the caller.  The caller holds the lock.
 * @return the extent; NULL when host memory is out or the address cannot be mapped: nothing has
 *         changed
 */
struct cushim_mem_extent *cushim_mem_segments_enter(struct cushim_mem_heap *heap, uint64_t base,
                                                    size_t n_bytes, bool is_dedicated);

/*
 * Take wholly free segments out of the heap until it holds at most target_bytes or none is left.
 * Returns them as a list by `next` for cushim_mem_segments_release, which also takes them out of
 * the page map.  Until then look-ups find them, without a block.  The caller holds the lock.
 */
struct cushim_mem_segment *cushim_mem_segments_detach(struct cushim_mem_heap *heap,
                                                      size_t target_bytes);

/* Give a list of detached segments back; the lock is not held.  Returns their bytes. */
size_t cushim_mem_segments_release(struct cushim_mem_heap *heap, struct cushim_mem_segment *list);

/**
 * Free a dedicated segment whose block is DEFERRED by the driver's free, as the caller would; the
 * block then no longer counts.  The lock is not held.
 * @param stream NULL: by the provider; otherwise after the work of *stream, by cuMemFreeAsync,
 *               which the driver must have and which must accept such memory
 * @return CUSHIM_OK | the status of `answer`: the segment is as before
 */
enum cushim_status cushim_mem_segments_free(struct cushim_mem_heap *heap,
                                            struct cushim_mem_segment *segment,
                                            const CUstream *stream, CUresult *answer);

/*
 * Forget all segments and their blocks without a driver call.  In the page map the pages of device
 * memory become vacated.  The caller holds the lock.
 */
void cushim_mem_segments_abandon(struct cushim_mem_heap *heap);

/*
 * Segments between the driver and the page map, which does not have them yet, or no longer.  They
 * are counted when they set out and when they arrive, for a host whose program may free any
 * address.
 */
struct cushim_mem_transits {
    atomic_uint_fast64_t n_begun, n_ended;
};
extern struct cushim_mem_transits cushim_mem_transits;
