/*
 * The growth of a pool: how much memory it asks the driver for, how much of it it may keep, and
 * what it does before it says that memory is out (docs/design.md sections 5 and 10).
 */
#ifndef CUSHIM_MEMORY_GROWTH_H
#define CUSHIM_MEMORY_GROWTH_H

#include "memory/pool.h"

/**
 * Memory for a segment that serves a request of n_bytes, without the lock.
 * @param is_dedicated   the segment is the block
 * @param segment_bytes  what was got
 * @return CUSHIM_OK | CUSHIM_NOMEM (after the ladder) | another status of the driver
 */
enum cushim_status cushim_mem_growth_fetch(struct cushim_mem_pool *pool, size_t n_bytes,
                                           bool is_dedicated, size_t *segment_bytes,
                                           uint64_t *base);

/* Under the lock: the bytes that the pool may hold now. */
size_t cushim_mem_growth_target(struct cushim_mem_pool *pool);

/**
 * Give wholly free segments back to the driver until no more than keep_bytes of them are held.
 * @return the bytes given back
 * Stream   may wait for the device, as cudaFree
 */
size_t cushim_mem_growth_trim(struct cushim_mem_pool *pool, size_t keep_bytes);

/* What trim(0) would give back. */
size_t cushim_mem_growth_reusable_bytes(struct cushim_mem_pool *pool);

#endif
