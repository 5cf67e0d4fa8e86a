/*
 * The growth of a heap: how much memory it asks the driver for, how much of it it may keep, and
 * when it gives the rest back (docs/internals/memory-engine.md, "How much a heap keeps").
 */
#ifndef CUSHIM_MEMORY_GROWTH_H
#define CUSHIM_MEMORY_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"

struct cushim_mem_blockref;
struct cushim_mem_heap;

/**
 * Memory for a segment that serves a request of n_bytes, and no more of it, without the lock.
 * @param is_dedicated   the segment is the block
 * @param segment_bytes  what was got
 * @return CUSHIM_OK | CUSHIM_NOMEM (see reclaim.h) | another status of the driver
 * Stream   gives free segments back first where the pool would pass its bound, but only where that
 * waits for nothing
 */
enum cushim_status cushim_mem_growth_fetch(struct cushim_mem_heap *pool, size_t n_bytes,
                                           bool is_dedicated, size_t *segment_bytes,
                                           uint64_t *base);

/**
 * The same, and the block that it is for.
 * @param life   of the pool
 * @param place  the block, off the lists
 * @return CUSHIM_OK (the lock is held, and the caller's to give up) | CUSHIM_STATE (the memory went
 * with the context) | as above; then the lock is not held
 */
enum cushim_status cushim_mem_growth_take(struct cushim_mem_heap *pool, uint64_t life,
                                          size_t n_bytes, struct cushim_mem_blockref *place);

/* Under the lock: the bytes that the pool may hold now. */
size_t cushim_mem_growth_target(struct cushim_mem_heap *pool);

/**
 * In a free, without the lock: give back what the pool may not hold any more.
 * @param life        of the pool; nothing happens in another
 * @param has_waited  this free has waited for the device; else one that is to wait for nothing asks
 * whether the device is quiet
 * Stream   may wait for the device, as cudaFree
 */
void cushim_mem_growth_shrink(struct cushim_mem_heap *pool, uint64_t life, bool has_waited);

/**
 * In a free, without the lock, where cushim_mem_watermark_is_far_over: wait until `tag` is done,
 * which native's free would do too, and give back what the pool may not hold.  What the driver says
 * to the wait is damage, or nothing.
 * @param tag  of the block just freed; 0 where all work on it is over
 * Stream   host wait, as cudaFree
 */
void cushim_mem_growth_settle(struct cushim_mem_heap *pool, uint64_t life, uint64_t tag);

/**
 * Give wholly free segments back to the driver until no more than keep_bytes of them are held.
 * @return the bytes given back
 * Stream   may wait for the device, as cudaFree
 */
size_t cushim_mem_growth_trim(struct cushim_mem_heap *pool, size_t keep_bytes);

/* The same in a request: all of them, but only while that waits for nothing. */
size_t cushim_mem_growth_trim_quietly(struct cushim_mem_heap *pool);

#endif
