/*
 * How a heap with stream caches serves a request: by the stream's own idle block, by another's that
 * is over, or from the free lists.
 */
#ifndef CUSHIM_MEMORY_STREAM_ALLOC_H
#define CUSHIM_MEMORY_STREAM_ALLOC_H

#include "memory/cache/stream.h"

/**
 * Serve without a driver call for memory.
 * @param cache  of the stream, which had it at `life`; 0: no block serves in the order of a stream
 * @param block  LIVE or DEFERRED, and on no cache
 * @return CUSHIM_OK | CUSHIM_NOTFOUND (nothing serves) | as cushim_mem_stream_block_obtain
 */
enum cushim_status cushim_mem_stream_cache_serve(struct cushim_mem_stream_cache *cache,
                                                 uint32_t life, size_t bucket_bytes,
                                                 struct cushim_mem_stream_block **block);

/*
 * Let the stream of `after` wait, in the device, for the stream that freed a block which is not
 * over: for use when memory is out.  NULL: there is none that fits without much waste.
 */
struct cushim_mem_stream_block *
cushim_mem_stream_cache_serve_behind(struct cushim_mem_stream_cache *after, size_t bucket_bytes);

#endif
