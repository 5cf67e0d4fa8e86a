/*
 * The heap of a context: blocks of device memory, served from segments and taken back.
 *
 * Requests up to 1 MiB come from the thread's cache, then the bucket of their class; larger ones
 * are segments of their own, reused when freed (cushim_mem_heap_packs).  A free waits for the
 * device (`exact`), or the block waits for its epoch (`relaxed`; docs/internals/memory-engine.md,
 * "Exact frees").
 *
 * A heap is type-stable: when its context goes, it is abandoned and may be opened for another one.
 * The struct is never freed.  `generation` tells the lives apart.  Its fields are in
 * memory/state/heap_state.h.
 */
#pragma once

#include "memory/layout/block.h"
#include "memory/policy.h"
#include "memory/provider/provider.h"

struct cushim_mem_heap_setup {
    struct cushim_cuda *cuda;
    CUcontext context; /* must be current */
    int device;
    struct cushim_mem_blocks *blocks;
    const struct cushim_mem_policy *policy;
    struct cushim_mem_stats *stats;           /* of the device and kind; shared by its contexts */
    const struct cushim_mem_stats *neighbour; /* of another kind, whose idle memory is in the same
                                               * sum; NULL: none */
    enum cushim_mem_kind kind;
    unsigned flags; /* 0 for device memory */
    const struct cushim_mem_provider *provider;
    struct cushim_mem_fence *fence;               /* NULL: the heap uses its own, for its context
                                                   * only */
    const struct cushim_mem_capture_guard *guard; /* of that */
};

/* Open a heap that is all zero, or was abandoned. */
void cushim_mem_heap_open(struct cushim_mem_heap *heap, const struct cushim_mem_heap_setup *setup);

/*
 * The context is gone, and its memory with it.  Forget all blocks and segments, also those in
 * caches of threads or streams, without a driver call.  Addresses of this heap are foreign
 * afterwards.
 */
void cushim_mem_heap_abandon(struct cushim_mem_heap *heap);

/* Note an answer of the driver.  If it means that the context is broken for good, everything goes
 * to the driver from now on.  Answers about captures and rights concern only their call. */
void cushim_mem_heap_note_damage(struct cushim_mem_heap *heap, CUresult answer);

/* A block becomes free.  The caller holds the lock. */
void cushim_mem_heap_give(struct cushim_mem_heap *heap, const struct cushim_mem_blockref *ref);

/* Blocks whose epoch is done become free, without a driver call.  The caller holds the lock. */
void cushim_mem_heap_give_done(struct cushim_mem_heap *heap);

/* The same, and those whose event is over. */
void cushim_mem_heap_give_deferred(struct cushim_mem_heap *heap);

/*
 * The driver was told about the segment of a LIVE block.  None of its memory is handed out again,
 * and it goes back to the driver.
 */
void cushim_mem_heap_retire_segment(struct cushim_mem_heap *heap,
                                    struct cushim_mem_segment *segment);

/*
 * Another process was told about the LIVE block at an address, so its memory is never handed out
 * again.  It goes back to the driver with its segment.  The driver keeps it as long as a process
 * has it open.
 */
void cushim_mem_heap_show(struct cushim_mem_heap *heap, uint64_t address);

/* Does a block's segment go back to the driver with it? */
bool cushim_mem_heap_is_uncached(const struct cushim_mem_heap *heap,
                                 const struct cushim_mem_segment *segment);
