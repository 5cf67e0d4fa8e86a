/*
 * Deferred blocks: they are freed, but cannot be reused before the work submitted before the free
 * is over.
 *
 * A block waits for the epoch in which it was freed or, if it was freed in stream order
 * (cudaFreeAsync), for an event on its stream.  In `exact` mode few blocks have an epoch: those
 * that a graph let go, and those whose wait failed because memory was out.
 *
 * Blocks with events are queued by stream, and only the first of a queue is queried, because a busy
 * stream must not hide what is done on others.  A pass queries the first sixteen queues and moves
 * them to the end.
 *
 * In `relaxed` mode a fence costs 0.5 to 2 us whatever it covers, and more if threads make several
 * at once.  So a thread frees dozens of blocks before one is made (the batch), and all threads
 * share it.  While a fence is in flight no other is made, unless a thread has freed more than it
 * may leave without one.
 *
 * The bytes that may wait are limited to a two-thousandth of the device for each thread, because a
 * persistent kernel that starts before the fence pins these blocks as long as it runs.  That is
 * worth it if the freed sizes are requested again; otherwise it pins memory that cannot be used.
 * So when the driver has to be asked although the waiting blocks are over, the limit falls to a
 * share of the live bytes, and then grows with each fence.
 *
 * Lock: the heap's.  Each list has its oldest block first.
 */
#pragma once

#include "cuda/types.h"
#include "memory/layout/segment.h"

struct cushim_mem_deferred_row {
    struct cushim_mem_deferred_row *previous, *next;
    struct cushim_mem_blockref ref;
    CUevent event; /* NULL: see tag */
    uint64_t tag;  /* its epoch */
};

/* Blocks freed in the order of one stream.  If there are many streams, a stream may have several
 * lines. */
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

/* Append a block; false: host memory is out. */
bool cushim_mem_deferred_add(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                             const struct cushim_mem_blockref *ref, uint64_t tag);

/* Make an event after the work of `stream`, whatever context it belongs to. */
CUresult cushim_mem_deferred_record(struct cushim_mem_heap *heap, CUstream stream, CUevent *event);

/* Append a block whose work is over with such an event; false if host memory is out. */
bool cushim_mem_deferred_add_on(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                                const struct cushim_mem_blockref *ref, CUstream stream,
                                CUevent event);

/* Take out a block of an epoch up to `done`, looking at the first few; false if there is none. */
bool cushim_mem_deferred_take(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                              uint64_t done, struct cushim_mem_blockref *ref);

/* The same for a block whose event is over; the event is destroyed. */
bool cushim_mem_deferred_take_on(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta,
                                 struct cushim_cuda *cuda, struct cushim_mem_blockref *ref);

/* Forget all blocks, without a driver call. */
void cushim_mem_deferred_forget(struct cushim_mem_deferred *deferred, struct cushim_mem_meta *meta);

/* The epoch of the first block of n_bytes to twice as much; 0: there is none. */
uint64_t cushim_mem_deferred_tag_of(const struct cushim_mem_deferred *deferred, size_t n_bytes);

/* ---- when a fence is made, and for how much ---- */

enum {
    CUSHIM_MEM_DEFERRED_BATCH_LEAST_BYTES = 4 << 20, /* for each thread, whatever the device */
    CUSHIM_MEM_DEFERRED_BATCH_MOST_BYTES = 64 << 20,
    CUSHIM_MEM_DEFERRED_BATCH_THREADS = 4 /* threads that may have this much each; more threads
                                           * share it */
};

/* The frees of one thread since any thread made a fence. */
struct cushim_mem_unfenced {
    uint64_t tag;     /* the epoch that is counted */
    size_t n_bytes;   /* a small block counts as a share of the limit */
    size_t due_bytes; /* from here on a fence is due */
};

/* The bytes that a thread may keep without a fence; 0 if frees wait.  The caller holds the lock. */
size_t cushim_mem_deferred_batch_bytes(const struct cushim_mem_heap *heap);

/* From now on the limit is a share of the live bytes, plus wider_bytes.  The caller holds the
 * lock. */
void cushim_mem_deferred_batch_begin(struct cushim_mem_heap *heap, size_t wider_bytes);

/* How much of most_bytes may wait now.  The caller holds the lock. */
size_t cushim_mem_deferred_batch_limit(struct cushim_mem_heap *heap, size_t most_bytes);

/* Are the waiting bytes far more than that share?  The caller holds the lock. */
bool cushim_mem_deferred_batch_is_much(struct cushim_mem_heap *heap, size_t waiting_bytes);

enum cushim_mem_due {
    CUSHIM_MEM_NOT_DUE,
    CUSHIM_MEM_DUE,
    CUSHIM_MEM_PRESSING /* even if one is in flight */
};

/*
 * Make the fence that is due, unless one is in flight and this is not pressing; the one in flight
 * is queried first.  Answers as cushim_mem_fence_start; CUSHIM_NOTREADY if none was made.
 */
enum cushim_status cushim_mem_deferred_batch_fence(struct cushim_mem_heap *heap,
                                                   enum cushim_mem_due due, CUresult *answer);

/*
 * Is the epoch `tag` over?  If no fence is in flight, one is made and queried.  If one is, a later
 * one could not be over before it.
 */
bool cushim_mem_deferred_batch_prove(struct cushim_mem_heap *heap, uint64_t tag, CUresult *answer);
