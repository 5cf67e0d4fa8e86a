/*
 * Pending blocks: freed, and not reusable before the work submitted before the free is over.
 *
 * There are three kinds: blocks freed in stream order (cudaFreeAsync), each with an event on its
 * stream; in `relaxed`, blocks with the epoch that they were freed in; and blocks whose wait failed
 * for want of memory, which the next wait of the context covers.
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
    struct cushim_mem_deferred_row *next;
    struct cushim_mem_segment *segment;
    struct cushim_mem_blockref place;
    CUevent event; /* NULL: see tag */
    uint64_t tag;  /* 0: covered by a wait of the context that begins later; else its epoch */
    uint64_t serial;
};

/* Blocks freed in the order of one stream; a stream may have several, where streams are many. */
struct cushim_mem_deferred_line {
    struct cushim_mem_deferred_line *next;
    CUstream stream;
    struct cushim_mem_deferred_row *first, *last;
};

/* All zero is empty. */
struct cushim_mem_deferred {
    struct cushim_mem_deferred_row *first, *last;       /* without an event */
    struct cushim_mem_deferred_line *lines, *last_line; /* never empty ones */
    atomic_uint_fast64_t serial; /* of the youngest row; read without the lock as well */
    atomic_size_t n_rows;        /* read without the lock as well */
    atomic_size_t n_bytes;       /* of the blocks, as cut */
};

/* Append; false where host memory is out. */
bool cushim_mem_deferred_add(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta,
                             struct cushim_mem_segment *segment,
                             const struct cushim_mem_blockref *place, uint64_t tag);

/* The same for a block whose work is over with an event on a stream. */
bool cushim_mem_deferred_add_on(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta,
                                struct cushim_mem_segment *segment,
                                const struct cushim_mem_blockref *place, CUstream stream,
                                CUevent event);

/* What is known of the time that has passed. */
struct cushim_mem_over {
    uint64_t waited_serial; /* rows up to this one are covered by a wait that is over */
    uint64_t done;          /* epochs up to this one are over */
};

/* Take out a row that is over, looking at the first few.  False where none is. */
bool cushim_mem_deferred_take(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta,
                              struct cushim_cuda *cuda, struct cushim_mem_over over,
                              struct cushim_mem_deferred_row *row);

/* Forget all rows, without a driver call. */
void cushim_mem_deferred_forget(struct cushim_mem_deferred *pending, struct cushim_mem_meta *meta);

/* The tag of the first block of n_bytes to twice as much; 0 where there is none. */
uint64_t cushim_mem_deferred_tag_of(const struct cushim_mem_deferred *pending, size_t n_bytes);

#endif
