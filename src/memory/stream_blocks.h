/*
 * The blocks of a heap that has stream caches: out of its free lists into a table, and back once
 * they are idle and over.  While a block is out, the word `user` of its metadata is its index in
 * the table.
 */
#ifndef CUSHIM_MEMORY_STREAM_BLOCKS_H
#define CUSHIM_MEMORY_STREAM_BLOCKS_H

#include "memory/cache/stream.h"

enum cushim_mem_stream_from {
    CUSHIM_MEM_STREAM_CUT,  /* the free lists, and there what is cut already, up to 1 MiB */
    CUSHIM_MEM_STREAM_FREE, /* all of them */
    CUSHIM_MEM_STREAM_NEW   /* a new segment */
};

/* Which life of its heap the streams are in.  Each context that it serves is another one. */
uint64_t cushim_mem_streams_life(const struct cushim_mem_streams *streams);

/**
 * Take a block.
 * @param block  LIVE, and on no cache
 * @return CUSHIM_OK | CUSHIM_NOTFOUND (none is free) | CUSHIM_NOMEM (host memory is out, or that of
 *         the driver) | CUSHIM_STATE (the heap is closed) | another status of the driver
 * Threads  any; NEW: the heap's context is current
 * Stream   no driver call; NEW: valid while any thread captures
 */
enum cushim_status cushim_mem_stream_block_obtain(struct cushim_mem_streams *streams,
                                                  size_t bucket_bytes,
                                                  enum cushim_mem_stream_from from,
                                                  struct cushim_mem_stream_block **block);

/* The block that covers an address, in whatever heap of that table and state; NULL: none.  No lock:
 * it may go back meanwhile, unless it is the caller's own. */
struct cushim_mem_stream_block *cushim_mem_stream_block_find(struct cushim_mem_blocks *blocks,
                                                             uint64_t address);

/* The block with an index below table.n_blocks, in use or not. */
struct cushim_mem_stream_block *cushim_mem_streams_at(struct cushim_mem_streams *streams,
                                                      uint32_t index);

/* ---- blocks that captures and graphs keep ---- */

/* One more keeps it. */
void cushim_mem_stream_block_hold(struct cushim_mem_stream_block *block);

/* A block that is being freed is held: true, and it comes back when its last holder is gone, behind
 * the work of `cache`, which had that life. */
bool cushim_mem_stream_block_defer(struct cushim_mem_stream_block *block,
                                   struct cushim_mem_stream_cache *cache, uint32_t life);

/* It was freed in a capture and serves in the same one again: it does not come back for that. */
void cushim_mem_stream_block_use_again(struct cushim_mem_stream_block *block);

/*
 * One holder less.
 * @param life          of the heap when it was held; nothing happens in another
 * @param takes_live    the last holder takes a block that is live, too
 * @param life_of_cache that the block was freed into; 0: it was live
 * @return true: it was the last, and the block is the caller's to put into a cache
 */
bool cushim_mem_stream_block_let_go(struct cushim_mem_stream_block *block, uint64_t life,
                                    bool takes_live, uint32_t *life_of_cache);

/* Free a live block of an orphan, which starts at that address: to the free lists, or once no graph
 * keeps it any more.  False: it is none. */
bool cushim_mem_stream_block_free_orphan(struct cushim_mem_stream_block *block, uint64_t address);

/* ---- back ---- */

/*
 * A block that is idle, over, and on no cache goes back to the free lists; the last of an orphan
 * ends it.  Nothing happens if `life` is over, because the block was forgotten then.  The caller
 * read that life before it took the block, and has kept the owner since, or took the block under
 * the streams' lock.
 */
void cushim_mem_stream_block_give(struct cushim_mem_stream_block *block, uint64_t life);

/* All blocks and caches are forgotten: the heap is being abandoned, and its life has ended
 * (streams->forget). */
void cushim_mem_streams_forget(struct cushim_mem_streams *streams);

#endif
