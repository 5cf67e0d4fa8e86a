/*
 * Blocks held for graphs: freed during a capture, and not reused while a graph may use them.
 *
 * A block that a thread frees while it captures may be used whenever a graph made from that capture
 * runs.  It is DEFERRED, is on no list of its heap, and has a reference from each capture that was
 * open to the thread.  When the last reference is dropped the block goes onto its heap's stack
 * `unheld`, and the heap's next operation defers it as any other free does.
 *
 * Lock: a list of references is guarded by its owner.  Dropping it takes no lock and makes no
 * driver call, so that a destructor which the driver runs may do it.  A heap that is abandoned
 * forgets its held blocks.
 */
#pragma once

#include "memory/layout/block.h"

/* A block's place in one hold. */
struct cushim_mem_graph_resources_slot {
    struct cushim_mem_graph_resources_slot *next; /* in the same hold */
    struct cushim_mem_held *held;
};

/* All zero is empty. */
struct cushim_mem_graph_resources {
    struct cushim_mem_graph_resources_slot *first;
    size_t n_blocks;
};

/**
 * Free a LIVE block into holds: LIVE -> DEFERRED, without a wait and without a driver call.
 * @param lookup   from the table of blocks
 * @param holds    [n_holds], n_holds > 0; the block stays until each of them was let go
 * @return CUSHIM_OK | CUSHIM_DOUBLEFREE (another thread freed it first) | CUSHIM_STATE (the heap is
 *         not open, or its context is damaged; nothing happened) | CUSHIM_NOMEM (host memory is
 *         out: the block was freed and is never reused)
 * Threads  any
 * Stream   none
 */
enum cushim_status cushim_mem_graph_resources_free(struct cushim_mem_heap *heap,
                                                   const struct cushim_mem_lookup *lookup,
                                                   struct cushim_mem_graph_resources *const *holds,
                                                   unsigned n_holds);

/* Let go of all blocks from `first` on (NULL: none); their hold no longer has them.
 */
void cushim_mem_graph_resources_let_go(struct cushim_mem_graph_resources_slot *first);

/* Blocks that were let go become deferred.  A heap's operations call this first. */
void cushim_mem_graph_resources_take_back(struct cushim_mem_heap *heap);
