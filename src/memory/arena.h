/*
 * The arena of a heap: chunks that serve blocks which live for one pass
 * (docs/internals/memory-engine.md, "The arena").
 *
 * A block comes from the current chunk; if that is full, from another one that is rewound, then
 * from a new one while the arena may grow, and then from the ordinary heap.  A chunk rewinds when
 * its last block is freed.  A reset says that a pass is over: chunks with live blocks then serve
 * again, from above the highest such block.  Without a reset they wait until they are empty.  If
 * another process was told about a block of a chunk, the chunk does neither, and serves on to its
 * end.
 *
 * Take, give and reset take no lock; chunks are opened and closed under the heap's.
 */
#pragma once

#include "memory/layout/chunk.h"

/**
 * Take a block, its state still FREE, of a heap whose policy has an arena.
 * @param may_fetch  if it helps, ask the driver whether a chunk became usable, and then for memory
 *                   for one
 * @param is_hit     set to false if the driver gave memory
 * @return CUSHIM_OK | CUSHIM_NOTFOUND (a fetch might help) | CUSHIM_NOTSUPPORTED (not for this
 *         size, or no chunk can be had: the ordinary heap must serve) | CUSHIM_STATE (the life is
 *         over)
 * Threads  any; takes the heap's lock only to open a chunk
 */
enum cushim_status cushim_mem_arena_take(struct cushim_mem_heap *heap, uint64_t life,
                                         size_t n_bytes, bool may_fetch,
                                         struct cushim_mem_blockref *ref, bool *is_hit);

/*
 * A block is free; with a `tag` above 0 once that epoch is done.  With a tag it may record a fence.
 */
void cushim_mem_arena_give(struct cushim_mem_heap *heap, const struct cushim_mem_blockref *ref,
                           uint64_t tag);

/* The same under the lock, when all work on the block is over.  A chunk that was shown to another
 * process goes with its last block. */
void cushim_mem_arena_give_locked(struct cushim_mem_heap *heap,
                                  const struct cushim_mem_blockref *ref);

/**
 * A pass is over: serve from the start of each chunk, or from above its highest live block.
 * @return 0 | the number of chunks that are kept because a block in them is live
 * Threads  any, any number at once
 * Stream   none: never waits, may record a fence
 */
unsigned cushim_mem_arena_reset(struct cushim_mem_heap *heap);

/* Chunks without a block become free pages.  The caller holds the lock. */
void cushim_mem_arena_drain(struct cushim_mem_heap *heap);

/* The memory is gone.  Call it before the segments go, with the lock held. */
void cushim_mem_arena_abandon(struct cushim_mem_heap *heap);

/* Does this block belong to the arena, and may it be given without the lock, because its chunk was
 * not shown to another process? */
bool cushim_mem_arena_serves(const struct cushim_mem_blockref *ref);
