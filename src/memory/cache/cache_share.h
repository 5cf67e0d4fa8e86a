/*
 * The share of a thread cache: how many bytes it may hold.
 *
 * The caches of a heap have a common number of bytes.  Those that are busy share it evenly, and
 * each has at least a refill of every small class, however many they are.  A cache is busy from its
 * first request until it had no use for a while; it is emptied then, and has no share until its
 * next use.
 *
 * Lock: the heap's, for the shares, with the cache's own taken.
 */
#ifndef CUSHIM_MEMORY_CACHE_SHARE_H
#define CUSHIM_MEMORY_CACHE_SHARE_H

#include "memory/cache/cache.h"

/* The largest share that there may be now. */
size_t cushim_mem_cache_share_most_bytes(const struct cushim_mem_heap *heap);

/* The cache is busy, and gets the limit that it may have now. */
void cushim_mem_cache_share_take(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap);

/* The cache is not busy any more. */
void cushim_mem_cache_share_leave(struct cushim_mem_cache *cache, struct cushim_mem_heap *heap);

/* Under the registry's lock, the cache not being taken: has it a share, and stood still since
 * somebody asked a while ago? */
bool cushim_mem_cache_share_is_idle(struct cushim_mem_cache *cache);

#endif
