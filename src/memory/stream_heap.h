/*
 * All heaps with stream caches, from one use to the next.
 *
 * They are type-stable: a heap that is out of use serves another context and owner later.  A heap
 * whose owner is gone is an orphan, and stays until its last live or held block is freed.  Then, or
 * when its context is gone, it is lost, and one thread forgets its blocks and caches.  When that is
 * done and the owner is gone, the heap is out of use.
 *
 * The blocks of such a heap go from its free lists into a table, and back once they are idle and
 * over.  While a block is out, the word `user` of its metadata is its index in the table.
 */
#pragma once

#include "memory/cache/stream.h"

struct cushim_mem_heap_setup;

/* Get a heap that is out of use, or a new one of zeros.  n_bytes is the size of the owner's struct,
 * in which the streams come first, and the same in each call.  The heap is lost until it is opened.
 * NULL: no host memory. */
struct cushim_mem_streams *cushim_mem_streams_obtain(size_t n_bytes);

/* Open it for a context, whose fence has a host.  The owner has written the fields that are
 * constant while in use.  False: no host memory, and the heap is out of use. */
bool cushim_mem_streams_open(struct cushim_mem_streams *streams,
                             const struct cushim_mem_heap_setup *setup);

/* End the owner's use: idle blocks and free segments go back to the driver. */
void cushim_mem_streams_close(struct cushim_mem_streams *streams);

/* The next heap in use; NULL: the first.  Takes no lock. */
struct cushim_mem_streams *cushim_mem_streams_next_used(struct cushim_mem_streams *streams);

/* Forget all heaps whose context is gone, because the driver may hand out their addresses again.
 * Makes no driver call. */
void cushim_mem_streams_lose_gone(void);

/* A stream is about to be destroyed (`begun` is 0): its blocks get a stream fence, and its caches
 * belong to no stream.  Otherwise a wait for it is over, which closed the epoch `begun` first. */
void cushim_mem_streams_note(struct cushim_mem_fence *fence, CUstream handle, uint64_t begun);

/* The calling thread ends: the caches of its own default streams belong to no stream.  Makes no
 * driver call. */
void cushim_mem_streams_end_thread(void);

/* ---- blocks ---- */

enum cushim_mem_stream_from {
    CUSHIM_MEM_STREAM_CUT,  /* the free lists, but only blocks that are cut already, up to 1 MiB */
    CUSHIM_MEM_STREAM_FREE, /* the free lists */
    CUSHIM_MEM_STREAM_NEW   /* a new segment */
};

/* The life of the heap.  Each context that a heap serves begins another one. */
uint64_t cushim_mem_streams_life(const struct cushim_mem_streams *streams);

/**
 * Take a block.
 * @param block  LIVE, and in no cache
 * @return CUSHIM_OK | CUSHIM_NOTFOUND (none is free) | CUSHIM_NOMEM (host or driver memory is out)
 *         | CUSHIM_STATE (the heap is closed) | another status of the driver
 * Threads  any; NEW: the heap's context is current
 * Stream   no driver call; NEW: valid while any thread captures
 */
enum cushim_status cushim_mem_stream_block_obtain(struct cushim_mem_streams *streams,
                                                  size_t bucket_bytes,
                                                  enum cushim_mem_stream_from from,
                                                  struct cushim_mem_stream_block **block);

/* The block that covers an address, in any heap of `blocks` and in any state; NULL: none.  Takes no
 * lock, so the block may go back meanwhile unless it is the caller's own. */
struct cushim_mem_stream_block *cushim_mem_stream_block_find(struct cushim_mem_blocks *blocks,
                                                             uint64_t address);

/* The block of an index below table.n_blocks, in use or not. */
struct cushim_mem_stream_block *cushim_mem_streams_at(struct cushim_mem_streams *streams,
                                                      uint32_t index);

/* ---- blocks that captures and graphs keep ---- */

/* Add a holder. */
void cushim_mem_stream_block_hold(struct cushim_mem_stream_block *block);

/* Defer the free of a block that is held.  It comes back when its last holder is gone, behind the
 * work of `cache` in that life.  False: no holder, and nothing was done. */
bool cushim_mem_stream_block_defer(struct cushim_mem_stream_block *block,
                                   struct cushim_mem_stream_cache *cache, uint32_t life);

/* Undo the free of a block that serves again in the capture in which it was freed. */
void cushim_mem_stream_block_use_again(struct cushim_mem_stream_block *block);

/*
 * Remove a holder.
 * @param life          of the heap when the block was held; nothing happens in another life
 * @param takes_live    the last holder takes the block even if it is live
 * @param life_of_cache of the cache that the block was freed into; 0: the block was live
 * @return true: it was the last holder, and the caller puts the block into a cache
 */
bool cushim_mem_stream_block_let_go(struct cushim_mem_stream_block *block, uint64_t life,
                                    bool takes_live, uint32_t *life_of_cache);

/* Free a live block of an orphan that starts at an address.  It goes to the free lists, at once or
 * when the last graph releases it.  False: there is no such block. */
bool cushim_mem_stream_block_free_orphan(struct cushim_mem_stream_block *block, uint64_t address);

/* ---- back ---- */

/*
 * Give a block that is idle, over and in no cache back to the free lists.  The last block of an
 * orphan ends the orphan.  Nothing happens if `life` is over, because the block was forgotten then.
 * The caller read that life before it took the block and has kept the owner since, or it took the
 * block under the streams' lock.
 */
void cushim_mem_stream_block_give(struct cushim_mem_stream_block *block, uint64_t life);

/*
 * How a heap with stream caches serves a request: by the stream's own idle block, by another
 * stream's if that is over, or from the free lists.  And how idle blocks go back to the free lists,
 * and from there to the driver.
 *
 * Only blocks that are over leave a cache for the free lists, and only segments without a block go
 * to the driver.  The driver's free of device memory may wait for the device, so a caller that may
 * not wait calls it only if no capture is known.
 */
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

/* Tell the heap how much its caches keep, and how much live memory fell meanwhile
 * (cushim_mem_stream_cache_fallen). */
void cushim_mem_streams_look(struct cushim_mem_streams *streams, size_t fallen_bytes);
