/*
 * Deferred blocks: freed, and not reusable before the work submitted before the free is over.
 *
 * A block waits for the epoch that it was freed in or, freed in stream order (cudaFreeAsync), for
 * an event on its stream.  In `exact` those with an epoch are few: what a graph let go of, and
 * blocks whose wait failed for want of memory.
 *
 * Blocks with events are queued by stream, and only the first of a queue is queried: streams
 * advance independently, and a busy one must not hide what is done on others.  A pass queries the
 * first sixteen queues and moves them to the end.
 *
 * Lock: the heap's.  Each list has its oldest block first.
 */
#ifndef CUSHIM_MEMORY_DEFERRED_H
#define CUSHIM_MEMORY_DEFERRED_H

#include "cuda/types.h"
#include "memory/layout/bucket.h"

struct cushim_mem_deferred_row {
    struct cushim_mem_deferred_row *previous, *next;
    struct cushim_mem_blockref place;
    CUevent event; /* NULL: see tag */
    uint64_t tag;  /* its epoch */
};

/* Blocks freed in the order of one stream; a stream may have several, where streams are many. */
struct cushim_mem_deferred_line {
    struct cushim_mem_deferred_line *previous, *next;
    CUstream stream;
    struct cushim_mem_deferred_row *first;
};

/* All zero is empty. */
struct cushim_mem_deferred {
    struct cushim_mem_deferred_row *first;  /* with an epoch */
    struct cushim_mem_deferred_line *lines; /* never empty ones */
    atomic_size_t n_rows;                   /* read without the lock as well */
    atomic_size_t n_bytes;                  /* of the blocks, as cut */
};

/* Append; false where host memory is out. */
bool cushim_mem_deferred_add(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                             const struct cushim_mem_blockref *place, uint64_t tag);

/* The same for a block whose work is over with an event on a stream. */
bool cushim_mem_deferred_add_on(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                                const struct cushim_mem_blockref *place, CUstream stream,
                                CUevent event);

/* Take out a block of an epoch up to `done`, looking at the first few.  False where none is. */
bool cushim_mem_deferred_take(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                              uint64_t done, struct cushim_mem_blockref *place);

/* The same of one whose event is over; that is destroyed. */
bool cushim_mem_deferred_take_on(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                                 struct cushim_cuda *cuda, struct cushim_mem_blockref *place);

/* Forget all blocks, without a driver call. */
void cushim_mem_deferred_forget(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta);

/* The epoch of the first block of n_bytes to twice as much; 0 where there is none. */
uint64_t cushim_mem_deferred_tag_of(const struct cushim_mem_deferred *deferred, size_t n_bytes);

#endif
