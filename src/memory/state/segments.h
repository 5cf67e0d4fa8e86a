/*
 * The segments of a heap: from its provider into the page map and the lists, and back.
 *
 * Invariant: a segment is entered in the page map after it was obtained and removed before it is
 * released, since the driver may give its addresses to another thread at once.
 */
#ifndef CUSHIM_MEMORY_SEGMENTS_H
#define CUSHIM_MEMORY_SEGMENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include "cushim/status.h"

struct cushim_mem_extent;
struct cushim_mem_heap;
struct cushim_mem_segment;

/**
 * Ask the driver for memory, without the lock; the heap's context is current.
 * @param base  set on success; the memory belongs to the caller, for enter or put_back
 * @return CUSHIM_OK | CUSHIM_NOMEM | another status of the driver
 * Stream   never waits; valid while any thread captures
 */
enum cushim_status cushim_mem_segments_fetch(struct cushim_mem_heap *heap, size_t n_bytes,
                                             uint64_t *base);

/* What the driver said when it last refused the calling thread: statuses are coarser. */
CUresult cushim_mem_segments_refusal(void);

/* Give memory back that was fetched and not entered. */
void cushim_mem_segments_put_back(struct cushim_mem_heap *heap, uint64_t base, size_t n_bytes);

/**
 * Under the lock: make a segment of fetched memory.  Its one extent is free and listed, or, where
 * the segment is dedicated, a BLOCK that belongs to the caller.
 * @return the extent; NULL when host memory is out or the address cannot be mapped: nothing has
 * changed
 */
struct cushim_mem_extent *cushim_mem_segments_enter(struct cushim_mem_heap *heap, uint64_t base,
                                                    size_t n_bytes, bool is_dedicated);

/*
 * Under the lock: take wholly free segments out of the heap until it holds at most target_bytes or
 * none is left.  Returns them as a list by `next`, for cushim_mem_segments_release, which takes
 * them out of the page map, too: until then they are found, with no block in them.
 */
struct cushim_mem_segment *cushim_mem_segments_detach(struct cushim_mem_heap *heap,
                                                      size_t target_bytes);

/* Without the lock: give a list of detached segments back.  Returns their bytes. */
size_t cushim_mem_segments_release(struct cushim_mem_heap *heap, struct cushim_mem_segment *list);

/**
 * Without the lock: free a dedicated segment whose block is DEFERRED natively, as the caller would;
 * the block counts no more then.
 * @param stream NULL: by the source; otherwise behind the work of *stream, by cuMemFreeAsync, which
 *               the driver has and which takes such memory
 * @return CUSHIM_OK | the status of `answer`: the segment is as before
 */
enum cushim_status cushim_mem_segments_free(struct cushim_mem_heap *heap,
                                            struct cushim_mem_segment *segment,
                                            const CUstream *stream, CUresult *answer);

/*
 * Under the lock: forget all segments and their blocks without a driver call.  In the page map the
 * pages of device memory are vacated.
 */
void cushim_mem_segments_abandon(struct cushim_mem_heap *heap);

/*
 * Segments on their way between the driver and the page map, which has them not yet, or no more.
 * Counted here as each sets out and as it arrives: for a host whose program may free any address.
 */
struct cushim_mem_transits {
    atomic_uint_fast64_t n_begun, n_ended;
};
extern struct cushim_mem_transits cushim_mem_transits;

#endif
