/*
 * Heaps: what a pool has in one context, of one kind (parts: pool_internal.h).
 *
 * Blocks come out of the free lists of the heap's allocator into the table, and go back when they
 * are idle and over.  One page map serves all heaps of the process.  A heap whose pool is gone
 * stays until its last live or held block is freed; then, and at once where its context died, it
 * may be another pool's.
 */
#ifndef CUSHIM_COMPANION_POOL_HEAP_H
#define CUSHIM_COMPANION_POOL_HEAP_H

#include "companion/pool/pool_cache.h"

extern struct cushim_mem_blocks cushim_pool_ledger;

/**
 * The heap of a device and kind, made at need.
 * @param dev  ordinal or -1
 * @return CUSHIM_OK | BADDEVICE | DEADCONTEXT | NOMEM | the driver's; the text is set
 */
enum cushim_status cushim_pool_heap_find(struct cushim_pool_object *pool, const char *what, int dev,
                                         enum cushim_memory_kind kind,
                                         struct cushim_pool_heap **out);

/* The heap that has a segment. */
static inline struct cushim_pool_heap *
cushim_pool_heap_of(const struct cushim_mem_segment *segment) {
    return (struct cushim_pool_heap *)(void *)segment->pool - 1; /* cushim_pool_heap_core */
}

/* The next heap of all that are in use, `heap` NULL: the first; no lock. */
struct cushim_pool_heap *cushim_pool_heap_next(struct cushim_pool_heap *heap);

/**
 * Enter a block that the allocator handed out.
 * @return the block, LIVE and on no cache; NULL: no host memory, and it went back to the free lists
 */
struct cushim_pool_block *cushim_pool_heap_enter(struct cushim_pool_heap *heap,
                                                 const struct cushim_mem_lookup *found,
                                                 size_t bucket_bytes);

/* The block that a pool holds and that covers an address, in whatever heap and state; NULL: none.
 * No lock: it may go back meanwhile, unless it is the caller's own. */
struct cushim_pool_block *cushim_pool_heap_block(uint64_t address);

/* The block with an index below table.n_blocks, in use or not. */
struct cushim_pool_block *cushim_pool_heap_at(struct cushim_pool_heap *heap, uint32_t index);

/* A block that is being freed is held: true, and it comes back when its last holder is gone, behind
 * the work of `cache`, which had that life. */
bool cushim_pool_block_defer(struct cushim_pool_block *block, struct cushim_pool_cache *cache,
                             uint32_t life);

/* A block that is idle, over, and on no cache goes back to the free lists; the last of a heap
 * without a pool closes it. */
void cushim_pool_heap_give(struct cushim_pool_heap *heap, struct cushim_pool_block *block);

/* Its context died: forget all, without a driver call. */
void cushim_pool_heap_lose(struct cushim_pool_heap *heap);

/* Lose all whose context died: their addresses may be handed out again from now on. */
void cushim_pool_heap_lose_dead(void);

/* The pool is being finished. */
void cushim_pool_heap_close(struct cushim_pool_heap *heap, const char *what);

/* Where the segments of each kind come from. */
extern const struct cushim_mem_provider *const cushim_pool_providers[CUSHIM_POOL_N_KINDS];

#endif
