/*
 * The watermark of a heap: how much it may hold (docs/internals/memory-engine.md, "How much a heap
 * keeps").
 *
 * Natively, memory that a program freed is available to other allocators of the process and to
 * other processes.  So what a heap holds free stays below half of what the driver has free, and
 * below an eighth of the device where next to nothing is live.  Blocks that are deferred or in
 * caches count as held, not as live.
 *
 * Lock: the heap's, for `oldest_free` and for all writes but of tried_bytes;
 * atomic fields are read without it.
 */
#ifndef CUSHIM_MEMORY_WATERMARK_H
#define CUSHIM_MEMORY_WATERMARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_mem_heap;
struct cushim_mem_segment;

enum {
    CUSHIM_MEM_SPARING_SLACK_BYTES = 4 << 20, /* may be held free of the host's memory */
    /* four a doubling of the sizes of blocks that are segments of their own, up to 1 GiB */
    CUSHIM_MEM_WATERMARK_BANDS = 4 * 9
};

/* What is live of one band of sizes, and its highest in the running second and the one before. */
struct cushim_mem_band {
    size_t live_bytes, peak_bytes[2];
};

struct cushim_mem_watermark {
    struct cushim_mem_segment *oldest_free; /* of the segments that are wholly free */
    /* Under the lock: the last is of all that shares segments. */
    struct cushim_mem_band bands[CUSHIM_MEM_WATERMARK_BANDS + 1];
    size_t working_set_bytes; /* the sum of the bands' peaks */
    /* as the driver said last, less what a limit keeps from us; 0: it was not asked */
    atomic_size_t device_bytes, device_free_bytes;
    atomic_size_t step_bytes;  /* that much over the bound is worth a wait; 0: it was not asked */
    atomic_size_t tried_bytes; /* over the bound, and a free that waited could not give it */
    uint64_t asked_ns;         /* when the driver was asked */
    uint64_t gave_up_ns;       /* when reclaim last waited for the device in vain; 0: never */
};

/* Without the lock: ask the driver how much of the device is free, unless it was a moment ago. */
void cushim_mem_watermark_ask(struct cushim_mem_heap *pool);

/* Under the lock: a block is taken, or no more, wherever it goes. */
void cushim_mem_watermark_count_taken(struct cushim_mem_heap *pool, size_t block_bytes);
void cushim_mem_watermark_count_given(struct cushim_mem_heap *pool, size_t block_bytes);

/*
 * Under the lock: how much may be held when live_bytes are live.  For the pool's own sake that is a
 * little more than is live, or was a moment ago; where the device has room, what each size had live
 * a moment ago, up to 5/16 more: sizes that take turns are reused then.  Who says how much
 * is kept (CUSHIM_KEEP) has said it: neither margin nor neighbours count then.
 */
size_t cushim_mem_watermark_at(struct cushim_mem_heap *pool, size_t live_bytes);

/* Under the lock: the bytes that may be held now.  While a capture is open that is by what is live
 * alone, whatever was a moment ago. */
size_t cushim_mem_watermark_now(struct cushim_mem_heap *pool);

/* Under the lock: the share of what is live, or was a moment ago, that may be held beside it. */
size_t cushim_mem_watermark_margin_bytes(struct cushim_mem_heap *pool);

/*
 * Is so much more held than the neighbours leave us that it has to go back now, even behind a wait?
 * What a free could not give back because live blocks pin it is not tried again before it has
 * grown. Without the lock.
 */
bool cushim_mem_watermark_is_far_over(struct cushim_mem_heap *pool);

/* Remember what is over the bound after all was given back that could be. */
void cushim_mem_watermark_note_tried(struct cushim_mem_heap *pool);

#endif
