/*
 * The heap of a context: blocks of device memory, served from segments and taken back.
 *
 * Requests up to 1 MiB come from the thread's cache, then the bucket of their class; larger ones
 * are segments of their own, reused when freed (cushim_mem_heap_packs).  A free waits for the
 * device (`exact`), or the block waits for its epoch (`relaxed`; docs/internals/memory-engine.md,
 * "Exact frees").
 *
 * A heap is type-stable: when its context goes it is abandoned and may be opened for another one;
 * nobody frees the struct.  `generation` tells the lives apart.  Its fields are in
 * memory/state/heap_state.h.
 */
#ifndef CUSHIM_MEMORY_HEAP_H
#define CUSHIM_MEMORY_HEAP_H

#include "memory/layout/block.h"
#include "memory/policy.h"
#include "memory/provider/provider.h"

struct cushim_mem_capture_guard;
struct cushim_mem_fence;
struct cushim_mem_stats;

struct cushim_mem_block {
    uint64_t address;
    size_t block_bytes;
    bool is_hit; /* no driver call for memory was made; events may have been asked */
};

struct cushim_mem_heap_setup {
    struct cushim_cuda *cuda;
    CUcontext context; /* must be current */
    int device;
    struct cushim_mem_blocks *blocks;
    const struct cushim_mem_policy *policy;
    struct cushim_mem_stats *stats; /* of the device and kind; shared by its contexts */
    enum cushim_mem_kind kind;
    unsigned flags; /* 0 for device memory */
    const struct cushim_mem_provider *provider;
    struct cushim_mem_fence *fence;               /* NULL: the heap's own, of its context alone */
    const struct cushim_mem_capture_guard *guard; /* of that */
};

/* Open a heap that is all zero, or was abandoned. */
void cushim_mem_heap_open(struct cushim_mem_heap *heap, const struct cushim_mem_heap_setup *setup);

/*
 * The context is gone, and its memory with it: forget all blocks and segments, without a driver
 * call. Addresses of this heap are foreign afterwards.
 */
void cushim_mem_heap_abandon(struct cushim_mem_heap *heap);

/* Answers that mean the context is broken for good: from now on everything goes to the driver.
 * Those about captures and rights are the call's own. */
void cushim_mem_heap_note_damage(struct cushim_mem_heap *heap, CUresult answer);

/* Under the lock: deferred blocks that are over become free. */
void cushim_mem_heap_give_deferred(struct cushim_mem_heap *heap);

/**
 * Serve a request.
 * @param n_bytes  > 0
 * @param block  filled on success; the block is LIVE
 * @return CUSHIM_OK | CUSHIM_NOMEM (the driver, or host memory, is out; what could be given back
 * was) | CUSHIM_STATE (the heap is not open, or its context is damaged) | another status of the
 * driver: in all these cases nothing has changed and the caller may ask the driver itself Threads
 * any      Stream   none; waits for the device only before it says that memory is out, and in
 * `relaxed` where much is deferred, both with a deadline
 */
enum cushim_status cushim_mem_heap_obtain(struct cushim_mem_heap *heap, size_t n_bytes,
                                          struct cushim_mem_block *block);

/* As obtain, but only where that takes no memory from the driver and no wait: CUSHIM_NOTFOUND
 * otherwise. */
enum cushim_status cushim_mem_heap_obtain_hit(struct cushim_mem_heap *heap, size_t n_bytes,
                                              struct cushim_mem_block *block);

/**
 * A segment for a request of n_bytes, and no more of it, without the lock.
 * @param life          of the heap
 * @param is_dedicated  the segment is the block
 * @param extent        its one extent: free and listed, or a BLOCK of the caller's
 * @return CUSHIM_OK (the lock is held, and the caller's to give up) | CUSHIM_NOMEM (see reclaim.h)
 * | CUSHIM_STATE (the memory went with the context) | another status of the driver; then the lock
 * is not held
 * Stream   gives free segments back first where the heap would pass its watermark, but only where
 * that waits for nothing
 */
enum cushim_status cushim_mem_heap_grow(struct cushim_mem_heap *heap, uint64_t life, size_t n_bytes,
                                        bool is_dedicated, struct cushim_mem_extent **extent);

/* The same, and the block that it is for, off the lists. */
enum cushim_status cushim_mem_heap_take(struct cushim_mem_heap *heap, uint64_t life, size_t n_bytes,
                                        struct cushim_mem_blockref *ref);

/**
 * Take a LIVE block back, once all work of the context is over.
 * @param lookup  from the table of blocks
 * @param answer  what the driver said where the wait failed, else CUDA_SUCCESS
 * @return CUSHIM_OK | CUSHIM_DOUBLEFREE (another thread freed it first) | the status of `answer`
 * (the block is LIVE as before) Threads  any      Stream   host wait, as cudaFree
 */
enum cushim_status cushim_mem_heap_release(struct cushim_mem_heap *heap,
                                           const struct cushim_mem_lookup *lookup,
                                           CUresult *answer);

/*
 * The last part of an exact release: the block is DEFERRED, of a heap of that life, and the wait
 * ended with `answer`.  Its cell may be another's by now: asked_bytes are what it had before.
 * Returns the answer of the release.
 */
CUresult cushim_mem_heap_end_waited(struct cushim_mem_heap *heap,
                                    const struct cushim_mem_lookup *lookup, uint64_t life,
                                    size_t asked_bytes, CUresult answer);

/* The first half of a release: LIVE -> DEFERRED, no more.  CUSHIM_OK | CUSHIM_DOUBLEFREE |
 * CUSHIM_STATE (the heap is not open, or its context is damaged).  See graph_resources.h. */
enum cushim_status cushim_mem_heap_claim(struct cushim_mem_heap *heap,
                                         const struct cushim_mem_lookup *lookup);

/*
 * A LIVE block that nobody has seen goes back, and is not used again before what the filler began
 * with it is over.  It counts as no request and no free; is_hit as it was obtained.
 */
void cushim_mem_heap_set_aside(struct cushim_mem_heap *heap, const struct cushim_mem_lookup *lookup,
                               bool is_hit);

/*
 * The driver was told of a LIVE block's segment: none of its memory is handed out again, and it
 * goes back to the driver.
 */
void cushim_mem_heap_retire_segment(struct cushim_mem_heap *heap,
                                    struct cushim_mem_segment *segment);

/*
 * Another process was told of the LIVE block at an address: its memory is never handed out again.
 * It goes back to the driver, which keeps it as long as somebody has it open, with its segment.
 */
void cushim_mem_heap_show(struct cushim_mem_heap *heap, uint64_t address);

/* Does a block's segment go back to the driver with it? */
bool cushim_mem_heap_is_uncached(const struct cushim_mem_heap *heap,
                                 const struct cushim_mem_segment *segment);

/* As release, in the order of `stream`: returns at once, the block is reused after the work before
 * it. */
enum cushim_status cushim_mem_heap_release_on(struct cushim_mem_heap *heap,
                                              const struct cushim_mem_lookup *lookup,
                                              CUstream stream, CUresult *answer);

#endif
