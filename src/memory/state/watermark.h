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
    /* four a doubling of the sizes of blocks above 1 MiB, up to more than a device has */
    CUSHIM_MEM_WATERMARK_BANDS = 4 * 22
};

/*
 * What is live of one band of sizes, and what it has earned: memory of the band may be idle when
 * requests came again, soon after a free, for as much as had been live before.
 */
struct cushim_mem_band {
    size_t live_bytes;
    size_t peak_bytes[2];     /* its highest in the running second and the one before */
    size_t low_bytes;         /* its lowest in the running second, since it was highest */
    size_t earned_bytes;      /* the longest rise that requests made again */
    size_t level_bytes;       /* the highest end of such a rise */
    size_t least_spare_bytes; /* the least that might have been idle in the running second */
    uint64_t moved_ns;        /* when a block of it was last taken or given */
};

struct cushim_mem_watermark {
    struct cushim_mem_segment *oldest_free; /* of the segments that are wholly free */
    /* Under the lock: the last is of all that shares segments. */
    struct cushim_mem_band bands[CUSHIM_MEM_WATERMARK_BANDS + 1];
    size_t spare_bytes; /* what all bands together may have idle */
    /* as the driver said last, less what a limit keeps from us; 0: it was not asked */
    atomic_size_t device_bytes, device_free_bytes;
    atomic_size_t step_bytes;  /* that much over the bound is worth a wait; 0: it was not asked */
    atomic_size_t tried_bytes; /* over the bound, and a free that waited could not give it */
    uint64_t asked_ns;         /* when the driver was asked */
    uint64_t gave_up_ns;       /* when reclaim last waited for the device in vain; 0: never */
};

/* Without the lock: ask the driver how much of the device is free, unless it was a moment ago. */
void cushim_mem_watermark_ask(struct cushim_mem_heap *pool);

/* Under the lock: a block is taken, or no more, wherever it goes.  Given: has its size earned that
 * the block stays? */
void cushim_mem_watermark_count_taken(struct cushim_mem_heap *pool, size_t block_bytes);
bool cushim_mem_watermark_count_given(struct cushim_mem_heap *pool, size_t block_bytes);

/*
 * Under the lock: how much may be held when live_bytes are live.  For the pool's own sake that is
 * what is live, what sizes have earned, and a little more; in all not more than was live a moment
 * ago, or 5/16 more when the device has room: sizes that take turns are reused then.  CUSHIM_KEEP
 * lowers what may be idle, CUSHIM_RESERVE is the least that may be held, and the neighbours' bound
 * is above both.
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
