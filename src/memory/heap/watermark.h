/*
 * The bound of a pool: how much it may hold, for its own sake and for its neighbours'
 * (docs/internals/memory-engine.md sections 5 and 10).
 *
 * What a program freed is anybody's natively: other allocators of the process take it, and other
 * processes.  So what is held free stays below half of what the driver has free, and below an
 * eighth of the device where next to nothing is live.  Blocks that are pending or in caches are
 * held, not live.
 *
 * `oldest_free` and `youngest_free` are under the pool's lock, and so are all writes but of
 * tried_bytes; what is atomic is read without it.
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
    /* smaller requests never get segments of their own, but for the policy's sake */
    CUSHIM_MEM_LEAST_OWN_BYTES = 8 << 20,
    CUSHIM_MEM_SPARING_SLACK_BYTES = 4 << 20 /* may be held free of the host's memory */
};

struct cushim_mem_watermark {
    struct cushim_mem_segment *oldest_free, *youngest_free; /* segments that are wholly free */
    atomic_size_t
        own_bytes; /* requests of this size and up get segments of their own; 0: the least */
    /* as the driver said last, less what a limit keeps from us; 0: it was not asked */
    atomic_size_t device_bytes, device_free_bytes;
    atomic_size_t step_bytes;  /* that much over the bound is worth a wait; 0: it was not asked */
    atomic_size_t tried_bytes; /* over the bound, and a free that waited could not give it */
    uint64_t asked_ns;         /* when the driver was asked */
    uint64_t gave_up_ns;       /* when the ladder last waited for the device in vain; 0: never */
};

/* Without the lock: ask the driver how much of the device is free, unless it was a moment ago. */
void cushim_mem_watermark_ask(struct cushim_mem_heap *pool);

/* Under the lock: n_bytes more, or less, are the driver's. */
void cushim_mem_watermark_note_given(struct cushim_mem_heap *pool, size_t n_bytes);
void cushim_mem_watermark_note_taken(struct cushim_mem_heap *pool, size_t n_bytes);

/*
 * Under the lock: how much may be held when live_bytes are live.  For the pool's own sake that is a
 * little more than is live, or was a moment ago.  Who says how much is kept (CUSHIM_KEEP) has said
 * it: neither margin nor neighbours count then.
 */
size_t cushim_mem_watermark_at(struct cushim_mem_heap *pool, size_t live_bytes);

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
