/*
 * The free lists of a heap: its free blocks, and the order in which they serve.
 *
 * Blocks up to 1 MiB come from the bucket of the class, which cuts a new slab if it is empty,
 * larger ones from an extent, and dedicated sizes from a free segment of about that size.  There is
 * no driver call, and the caller holds the heap's lock.
 */
#pragma once

#include "memory/layout/segment.h"

/* Is a request of this size a driver allocation of its own? */
bool cushim_mem_free_lists_is_dedicated(const struct cushim_mem_heap *heap, size_t n_bytes);

/* Take a block that fits, with its state still FREE; false: none is free, or host memory is out. */
bool cushim_mem_free_lists_take(struct cushim_mem_heap *heap, size_t n_bytes,
                                struct cushim_mem_blockref *ref);

/* As take, but takes a run of pages, whatever the size is. */
bool cushim_mem_free_lists_take_run(struct cushim_mem_heap *heap, size_t n_bytes,
                                    struct cushim_mem_blockref *ref);

/* As take, but only a block that is cut already. */
bool cushim_mem_free_lists_take_cut(struct cushim_mem_heap *heap, unsigned class_index,
                                    struct cushim_mem_blockref *ref);

/* Put a block back.  Its state is FREE from here on. */
void cushim_mem_free_lists_give(struct cushim_mem_heap *heap,
                                const struct cushim_mem_blockref *ref);

/*
 * No block of the segment is handed out again.  When its last block is back, it is wholly free, and
 * is the first to go back to the driver.  Blocks in threads' caches may be handed out once more,
 * because nobody was told about them.  A segment with a chunk of the arena stays as it is.
 */
void cushim_mem_free_lists_retire(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment);

/*
 * Another process was told about a block, and may read it until it closes its handle, even after
 * the block was freed.  So its cell is not reused after the free, but its neighbours are.  When
 * nothing else of its segment is in use, the segment is retired.  If the block is no cell of a
 * slab, its segment is retired at once.
 */
void cushim_mem_free_lists_show(struct cushim_mem_heap *heap, uint64_t address);

/* Free slabs that buckets keep become free pages. */
void cushim_mem_free_lists_drain(struct cushim_mem_heap *heap);

/* Take a wholly free segment off the lists, so that nothing is served from it. */
void cushim_mem_free_lists_remove(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment);

/* Put a wholly free segment into the lists: it is the last that goes back to the driver. */
void cushim_mem_free_lists_put_back(struct cushim_mem_heap *heap,
                                    struct cushim_mem_segment *segment);
