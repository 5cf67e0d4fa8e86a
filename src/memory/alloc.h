/*
 * Allocation: a block for a request, from the first place that has one
 * (docs/internals/memory-engine.md, "A malloc and a free").
 *
 * The fast path asks the cache of the calling thread.  It takes no lock and makes no driver call.
 * It does the whole operation or nothing; then the slow path does it, which covers all cases.
 */
#pragma once

#include "memory/layout/segment.h"

struct cushim_mem_lookup;

struct cushim_mem_block {
    uint64_t address;
    size_t block_bytes;
    bool is_hit; /* no driver call for memory was made; events may have been asked */
};

/**
 * Serve a request from the thread's cache.
 * @param n_bytes  at most the heap's quick_bytes, or CUSHIM_MEM_SLAB_LIMIT_BYTES if the heap has
 *                 neither guards nor an arena
 * @return the address of a LIVE block; 0: the request needs the slow path, and nothing was done
 */
uint64_t cushim_mem_alloc_fast(struct cushim_mem_heap *heap, size_t n_bytes);

/* The same for any heap and size, and it fills `block`.  It is for callers whose hook has not tried
 * the fast path.  False: nothing was done. */
bool cushim_mem_alloc_at_once(struct cushim_mem_heap *heap, size_t n_bytes,
                              struct cushim_mem_block *block);

/**
 * Serve a request.
 * @param n_bytes  > 0
 * @param block    filled on success; the block is LIVE
 * @return CUSHIM_OK | CUSHIM_NOMEM (the driver, or host memory, is out; what could be given back
 *         was) | CUSHIM_STATE (the heap is not open, or its context is damaged) | another status of
 *         the driver: in all these cases nothing has changed and the caller may ask the driver
 *         itself
 * Threads  any
 * Stream   none; waits for the device only before it says that memory is out, and in `relaxed` if
 *          much is deferred, both with a deadline
 */
enum cushim_status cushim_mem_alloc(struct cushim_mem_heap *heap, size_t n_bytes,
                                    struct cushim_mem_block *block);

/* A request on its way through the stages of alloc.c. */
struct cushim_mem_request {
    struct cushim_mem_heap *heap;
    uint64_t life;  /* of the heap; 0: not all of its lists were asked */
    size_t n_bytes; /* with guards */
    bool is_small, is_relaxed;
    bool should_grow; /* rather than make one more fence for a few blocks */
    bool has_others;  /* there are enough deferred blocks of other sizes for a fence */
    bool has_lines;   /* blocks that were freed in stream order may be over */
    bool is_over;     /* all deferred blocks are over; if none serves, their limit begins anew */
    bool has_rotated; /* enough of the class is deferred, so make a fence before taking more */
    uint64_t deferred_tag; /* of the deferred block that is over first; 0: there is none */
    struct cushim_mem_block *block;
};

/* As cushim_mem_alloc, but only if that takes no memory from the driver and no wait:
 * CUSHIM_NOTFOUND otherwise, and `request` is for cushim_mem_alloc_after. */
enum cushim_status cushim_mem_alloc_hit(struct cushim_mem_heap *heap, size_t n_bytes,
                                        struct cushim_mem_request *request,
                                        struct cushim_mem_block *block);

/* As cushim_mem_alloc, but it goes on where a request of this size missed a moment ago.  `missed`
 * is what cushim_mem_alloc_hit left, of whatever heap and size; NULL: there was none. */
enum cushim_status cushim_mem_alloc_after(struct cushim_mem_heap *heap, size_t n_bytes,
                                          const struct cushim_mem_request *missed,
                                          struct cushim_mem_block *block);

/*
 * Give a LIVE block back that nobody has seen.  It is not reused before the work that the filler
 * began with it is over.  It counts as no request and no free; is_hit is that of the request.
 */
void cushim_mem_alloc_undo(struct cushim_mem_heap *heap, const struct cushim_mem_lookup *lookup,
                           bool is_hit);

/**
 * Fetch a segment for a request of n_bytes, and nothing else of it.  The lock is not held.
 * @param life          of the heap
 * @param is_dedicated  the segment is the block
 * @param extent        its one extent: free and listed, or a BLOCK that belongs to the caller
 * @return CUSHIM_OK (the lock is held, and the caller must release it) | CUSHIM_NOMEM (see
 *         reclaim.h) | CUSHIM_STATE (the memory went with the context) | another status of the
 *         driver; then the lock is not held
 * Stream   gives free segments back first if the heap would pass its watermark, but only if that
 *          waits for nothing
 */
enum cushim_status cushim_mem_heap_grow(struct cushim_mem_heap *heap, uint64_t life, size_t n_bytes,
                                        bool is_dedicated, struct cushim_mem_extent **extent);

/* The same, and takes the block that it is for off the lists. */
enum cushim_status cushim_mem_heap_take(struct cushim_mem_heap *heap, uint64_t life, size_t n_bytes,
                                        struct cushim_mem_blockref *ref);
