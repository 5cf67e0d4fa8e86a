/*
 * Giving back what lies idle in stream caches: to the free lists of the heap, and from there to the
 * driver.
 *
 * Only blocks that are over leave a cache for the free lists; only segments without a block go to
 * the driver.  Its own free of device memory may wait for the device, so a caller that may not wait
 * makes none while a capture is known.
 */
#ifndef CUSHIM_MEMORY_STREAM_RECLAIM_H
#define CUSHIM_MEMORY_STREAM_RECLAIM_H

#include "memory/cache/stream.h"

/* Is a capture known in the heap's context? */
bool cushim_mem_streams_has_capture(const struct cushim_mem_streams *streams);

/* See what is over in all caches with idle blocks.  The first failure. */
enum cushim_status cushim_mem_streams_prove(struct cushim_mem_streams *streams,
                                            enum cushim_mem_effort effort);

/* Idle blocks that are over go to the free lists, by age, until `bytes` did.  `effort` says how
 * hard to look.  Returns their bytes, counted as evicted. */
size_t cushim_mem_streams_reclaim(struct cushim_mem_streams *streams, size_t bytes,
                                  enum cushim_mem_effort effort);

/* Those of one bucket that are over, until so many bytes did.  Returns their bytes. */
size_t cushim_mem_streams_reclaim_bucket(struct cushim_mem_streams *streams, size_t bucket_bytes,
                                         size_t bytes);

/* All idle blocks go to the free lists, and the caches are no stream's any more.  They are waited
 * for unless a capture is known; then the release of their segments waits. */
void cushim_mem_streams_empty(struct cushim_mem_streams *streams);

/* Bytes of idle blocks of all caches just now; no lock. */
size_t cushim_mem_streams_idle_bytes(const struct cushim_mem_streams *streams);

/* By how much a block may be larger than a request of so many bytes; 0 unless the driver would be
 * asked for more than the watermark allows. */
size_t cushim_mem_streams_waste_bytes(struct cushim_mem_streams *streams, size_t bucket_bytes);

/* How many of a bucket there are, over or not. */
size_t cushim_mem_streams_count_idle(const struct cushim_mem_streams *streams, size_t bucket_bytes);

/**
 * Give back what the heap holds beyond its watermark: idle blocks that are over, those that were
 * freed first, and the segments that become free by that.
 * @param more_bytes  that the driver is about to be asked for
 * @return the bytes of blocks that went to the free lists
 * Stream   waits as cuMemFree does if far too much is held; in a known capture nothing goes
 */
size_t cushim_mem_streams_settle(struct cushim_mem_streams *streams, size_t more_bytes);

/* Before pages are cut for a small block: idle ones leave theirs if they are many. */
void cushim_mem_streams_unpin(struct cushim_mem_streams *streams);

/* What is live in a heap is of its recent peak, and so is what was live before it fell by so many
 * bytes (cushim_mem_stream_cache_fallen).  The highest of the last second or two. */
size_t cushim_mem_streams_see_live(struct cushim_mem_streams *streams, size_t fallen_bytes);

#endif
