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
 * In `relaxed` a fence costs 0.5 to 2 us whatever it covers, and more where threads make several at
 * once.  So a thread frees dozens of blocks before one is made (the batch), and all threads share
 * it: while a fence is in flight nobody makes another, unless a thread has freed more than it may
 * leave without one.
 *
 * The bytes that may wait are bounded, a two-thousandth of the device a thread: a persistent kernel
 * that starts before the fence does pins these blocks for as long as it runs.  That much is worth
 * it where the sizes that were freed are requested again; else it pins memory that nobody can use.
 * So once the driver would have to be asked although what waits is over, the limit falls to a share
 * of the live bytes, from where it widens with each fence.
 *
 * Lock: the heap's.  Each list has its oldest block first.
 */
#ifndef CUSHIM_MEMORY_DEFERRED_H
#define CUSHIM_MEMORY_DEFERRED_H

#include "cuda/types.h"
#include "memory/layout/segment.h"

struct cushim_mem_heap;

struct cushim_mem_deferred_row {
    struct cushim_mem_deferred_row *previous, *next;
    struct cushim_mem_blockref ref;
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
                             const struct cushim_mem_blockref *ref, uint64_t tag);

/* Make an event behind the work of `stream`, whatever context that belongs to. */
CUresult cushim_mem_deferred_record(struct cushim_mem_heap *heap, CUstream stream, CUevent *event);

/* Append a block whose work is over with such an event; false if host memory is out. */
bool cushim_mem_deferred_add_on(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                                const struct cushim_mem_blockref *ref, CUstream stream,
                                CUevent event);

/* Take out a block of an epoch up to `done`, looking at the first few.  False where none is. */
bool cushim_mem_deferred_take(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                              uint64_t done, struct cushim_mem_blockref *ref);

/* The same of one whose event is over; that is destroyed. */
bool cushim_mem_deferred_take_on(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                                 struct cushim_cuda *cuda, struct cushim_mem_blockref *ref);

/* Forget all blocks, without a driver call. */
void cushim_mem_deferred_forget(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta);

/* The epoch of the first block of n_bytes to twice as much; 0 where there is none. */
uint64_t cushim_mem_deferred_tag_of(const struct cushim_mem_deferred *deferred, size_t n_bytes);

/* ---- when a fence is made, and for how much ---- */

enum {
    CUSHIM_MEM_DEFERRED_BATCH_LEAST_BYTES = 4 << 20, /* of a thread, whatever the device */
    CUSHIM_MEM_DEFERRED_BATCH_MOST_BYTES = 64 << 20,
    CUSHIM_MEM_DEFERRED_BATCH_THREADS = 4 /* that may have this much each; more threads share it */
};

/* The frees of one thread since a fence was made, by whichever thread. */
struct cushim_mem_unfenced {
    uint64_t tag;     /* the epoch that is counted */
    size_t n_bytes;   /* a small block counts as a share of what may wait */
    size_t due_bytes; /* whence a fence is looked for */
};

/* Under the lock: what a thread may keep unfenced; 0 where frees wait. */
size_t cushim_mem_deferred_batch_bytes(const struct cushim_mem_heap *heap);

/* Under the lock: from now on the limit is a share of the live bytes, and wider_bytes more. */
void cushim_mem_deferred_batch_begin(struct cushim_mem_heap *heap, size_t wider_bytes);

/* Under the lock: how much of most_bytes may wait now. */
size_t cushim_mem_deferred_batch_limit(struct cushim_mem_heap *heap, size_t most_bytes);

/* Under the lock: are these bytes, which wait, far more than that share? */
bool cushim_mem_deferred_batch_is_much(struct cushim_mem_heap *heap, size_t waiting_bytes);

enum cushim_mem_due {
    CUSHIM_MEM_NOT_DUE,
    CUSHIM_MEM_DUE,
    CUSHIM_MEM_PRESSING /* even where one is in flight */
};

/*
 * Make the fence that is due, unless one is in flight and this is not pressing; that one is asked
 * after first.  As cushim_mem_fence_start; CUSHIM_NOTREADY where none was made.
 */
enum cushim_status cushim_mem_deferred_batch_fence(struct cushim_mem_heap *heap,
                                                   enum cushim_mem_due due, CUresult *answer);

/*
 * Is the epoch `tag` over?  A fence is made and asked after where none is in flight; where one is,
 * a later one could not be over before it.  True where it is.
 */
bool cushim_mem_deferred_batch_prove(struct cushim_mem_heap *heap, uint64_t tag, CUresult *answer);

#endif
