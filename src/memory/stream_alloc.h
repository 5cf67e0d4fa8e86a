/*
 * How a heap with stream caches serves a request: by the stream's own idle block, by another
 * stream's if that is over, or from the free lists.  And how idle blocks go back to the free lists,
 * and from there to the driver.
 *
 * Only blocks that are over leave a cache for the free lists, and only segments without a block go
 * to the driver.  The driver's free of device memory may wait for the device, so a caller that may
 * not wait calls it only if no capture is known.
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

/* ---- back to the free lists, and to the driver ---- */

/* Whether a capture is known in the heap's context. */
bool cushim_mem_streams_has_capture(const struct cushim_mem_streams *streams);

/* Find out what is over in all caches with idle blocks.  Returns the first failure. */
enum cushim_status cushim_mem_streams_prove(struct cushim_mem_streams *streams,
                                            enum cushim_mem_effort effort);

/* Move idle blocks that are over to the free lists, the oldest first, until `bytes` are moved.
 * `effort` says how hard to look.  Returns the bytes moved; the blocks count as evicted. */
size_t cushim_mem_streams_reclaim(struct cushim_mem_streams *streams, size_t bytes,
                                  enum cushim_mem_effort effort);

/* The same for the blocks of one bucket, without a query for what is over. */
size_t cushim_mem_streams_reclaim_bucket(struct cushim_mem_streams *streams, size_t bucket_bytes,
                                         size_t bytes);

/* Move all idle blocks to the free lists; the caches then belong to no stream.  Waits for the
 * blocks unless a capture is known; then the release of their segments waits. */
void cushim_mem_streams_empty(struct cushim_mem_streams *streams);

/* The bytes of idle blocks in all caches.  Takes no lock. */
size_t cushim_mem_streams_idle_bytes(const struct cushim_mem_streams *streams);

/* The number of idle blocks of a bucket, over or not. */
size_t cushim_mem_streams_count_idle(const struct cushim_mem_streams *streams, size_t bucket_bytes);

/* Give back what the heap holds beyond its watermark: idle blocks that are over, the oldest first,
 * and the segments that become free.  Waits as cuMemFree does if far too much is held, and does
 * nothing if a capture is known. */
void cushim_mem_streams_settle(struct cushim_mem_streams *streams);

/* Tell the heap how much its caches keep, and that live memory fell by so many bytes meanwhile
 * (cushim_mem_stream_cache_fallen). */
void cushim_mem_streams_look(struct cushim_mem_streams *streams, size_t fallen_bytes);

#endif
