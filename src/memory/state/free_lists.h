/*
 * The free lists of a heap: its free blocks, and the order in which they serve.
 *
 * Up to 1 MiB from the bucket of the class, which cuts a new slab where it is empty; above from an
 * extent; dedicated sizes from a free segment of about that size.  No driver call; all under the
 * heap's lock.
 */
#ifndef CUSHIM_MEMORY_FREE_LISTS_H
#define CUSHIM_MEMORY_FREE_LISTS_H

#include "memory/layout/segment.h"

struct cushim_mem_heap;

/* Is a request of this size a driver allocation of its own? */
bool cushim_mem_free_lists_is_dedicated(const struct cushim_mem_heap *heap, size_t n_bytes);

/* Take a block that fits, its state still FREE; false where none is free, or host memory is out. */
bool cushim_mem_free_lists_take(struct cushim_mem_heap *heap, size_t n_bytes,
                                struct cushim_mem_blockref *ref);

/* As take, but a run of pages whatever its size is. */
bool cushim_mem_free_lists_take_run(struct cushim_mem_heap *heap, size_t n_bytes,
                                    struct cushim_mem_blockref *ref);

/* As take, but only a block that is cut already. */
bool cushim_mem_free_lists_take_cut(struct cushim_mem_heap *heap, unsigned class_index,
                                    struct cushim_mem_blockref *ref);

/* Put a block back: its state is FREE from here on. */
void cushim_mem_free_lists_give(struct cushim_mem_heap *heap,
                                const struct cushim_mem_blockref *ref);

/*
 * No block of the segment is handed out any more.  When its last block is back it is wholly free,
 * and the first that goes back to the driver.  Blocks in threads' caches are handed out once more:
 * nobody was told of them.  A segment with a chunk of the arena stays as it is.
 */
void cushim_mem_free_lists_retire(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment);

/*
 * Another process was told of a block, and may read it until it closes its handle, also after the
 * block was freed.  So once it is freed, its cell serves nobody; its neighbours live on, and their
 * cells serve again.  When nothing else of its segment is in use, that is retired.  Of a block that
 * is no cell of a slab the segment is at once.
 */
void cushim_mem_free_lists_show(struct cushim_mem_heap *heap, uint64_t address);

/* Slabs that buckets keep at hand become free pages. */
void cushim_mem_free_lists_drain(struct cushim_mem_heap *heap);

/* Take a wholly free segment off the lists: nothing is served from it any more. */
void cushim_mem_free_lists_remove(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment);

/* Put a wholly free segment into the lists: it is the last that goes back to the driver. */
void cushim_mem_free_lists_put_back(struct cushim_mem_heap *heap,
                                    struct cushim_mem_segment *segment);

#endif
