/*
 * How a heap with stream caches serves a request: by the stream's own idle block, by another
 * stream's if that is over, or from the free lists.
 */
#ifndef CUSHIM_MEMORY_STREAM_ALLOC_H
#define CUSHIM_MEMORY_STREAM_ALLOC_H

#include "memory/cache/stream.h"

/**
 * Serve without a driver call for memory.
 * @param cache  of the stream, in that `life`; life 0: no block serves in stream order
 * @param block  LIVE or DEFERRED, and in no cache
 * @return CUSHIM_OK | CUSHIM_NOTFOUND (nothing serves) | as cushim_mem_stream_block_obtain
 */
enum cushim_status cushim_mem_stream_cache_serve(struct cushim_mem_stream_cache *cache,
                                                 uint32_t life, size_t bucket_bytes,
                                                 struct cushim_mem_stream_block **block);

/*
 * Serve, when memory is out, by a block that is not over: the stream of `after` waits in the device
 * for the stream that freed it.  NULL: no block fits without much waste.
 */
struct cushim_mem_stream_block *
cushim_mem_stream_cache_serve_behind(struct cushim_mem_stream_cache *after, size_t bucket_bytes);

#endif
