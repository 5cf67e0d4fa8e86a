/*
 * Direct use of a heap, by a host that caches blocks itself and itself knows when the work on a
 * block is over.
 *
 * Blocks go straight between the free lists and the host: no thread cache, no fence, no watermark;
 * a block that is given back is free at once.  The host opens such a heap with a policy whose
 * `keep` is unlimited, and gives segments back when it sees fit.  It moves a block's state LIVE ->
 * DEFERRED -> LIVE as it likes, and may use `next_free` in the metadata of a slab's block while it
 * has the block.
 *
 * Lock: the heap's, taken inside; no driver call is made under it.
 */
#ifndef CUSHIM_MEMORY_DIRECT_H
#define CUSHIM_MEMORY_DIRECT_H

#include "cushim/status.h"
#include "memory/layout/block.h"

struct cushim_mem_heap;

/**
 * Take a free block; it is LIVE.
 * @param n_bytes  > 0
 * @param is_cut   only one that is cut already, up to 1 MiB: no free page is
 * @param found    filled on success, as the ledger would; asked_bytes is n_bytes
 * @return CUSHIM_OK | CUSHIM_NOTFOUND (none is free) | CUSHIM_STATE (the pool is not open)
 * Threads  any      Stream   none; no driver call
 */
enum cushim_status cushim_mem_direct_take(struct cushim_mem_heap *pool, size_t n_bytes, bool is_cut,
                                          struct cushim_mem_lookup *found);

/**
 * The same from a new segment.
 * @return CUSHIM_OK | CUSHIM_NOMEM (the device, or host memory) | CUSHIM_STATE | another status of
 * the driver; nothing has changed then
 * Threads  any, the pool's context current      Stream   as the source's obtain; valid while any
 * thread captures
 */
enum cushim_status cushim_mem_direct_fetch(struct cushim_mem_heap *pool, size_t n_bytes,
                                           struct cushim_mem_lookup *found);

/* Give a block back: it is FREE, and may serve anybody at once. */
void cushim_mem_direct_give(struct cushim_mem_heap *pool, const struct cushim_mem_lookup *found);

#endif
