/*
 * The watermark of a heap: how much it may hold (docs/internals/memory-engine.md, "How much a heap
 * keeps").
 *
 * Without cushim, memory that a program freed is available to other allocators of the process and
 * to other processes.  So idle memory has to earn its keep: it stays when memory was given back to
 * the driver and asked for again within a second, for as much as that was, until no free looks for
 * a second.  And it stays below half of what the driver has free, and below an
 * eighth of the device when next to nothing is used.  Deferred blocks are held, not used.
 *
 * Lock: the heap's; atomic fields are read without it.
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
    CUSHIM_MEM_SPARING_SLACK_BYTES = 4 << 20 /* may be held free of the host's memory */
};

struct cushim_mem_watermark {
    struct cushim_mem_segment *oldest_free; /* of the segments that are wholly free */
    size_t earned_bytes;                    /* may be idle */
    size_t returned_bytes;                  /* to the driver, with less than a second in between */
    uint64_t returned_ns;                   /* when that was */
    uint64_t looked_ns;                     /* when a free or a growing heap last looked */
    /* as the driver said last, less what a limit keeps from us; 0: it was not asked */
    atomic_size_t device_bytes, device_free_bytes;
    size_t tried_bytes;      /* over the watermark, and a free that waited could not give it */
    atomic_size_t far_bytes; /* more than that beside what is used is far over the watermark */
    uint64_t asked_ns;       /* when the driver was asked */
    uint64_t gave_up_ns;     /* when reclaim last waited for the device in vain; 0: never */
};

/* Without the lock: ask the driver how much of the device is free, unless it was a moment ago. */
void cushim_mem_watermark_ask(struct cushim_mem_heap *heap);

/* Under the lock: a block is taken, wherever it goes. */
void cushim_mem_watermark_count_taken(struct cushim_mem_heap *heap, size_t block_bytes);

/* Under the lock: a segment went back to the driver, or came from it. */
void cushim_mem_watermark_note_returned(struct cushim_mem_heap *heap, size_t n_bytes);
void cushim_mem_watermark_note_fetched(struct cushim_mem_heap *heap, size_t n_bytes);

/*
 * Under the lock: the bytes that may be held now.  For the heap's own sake that is what is used,
 * what idle memory has earned, and a little more; in all not more than was used a moment ago, or
 * 5/16 more when the device has room.  CUSHIM_KEEP lowers what may be idle, CUSHIM_RESERVE is the
 * least that may be held, and the neighbours' watermark is above both.  While a capture is open it
 * is by what is used alone.
 */
size_t cushim_mem_watermark_now(struct cushim_mem_heap *heap);

/* Under the lock: the same in a request that is to use so many bytes more. */
size_t cushim_mem_watermark_with(struct cushim_mem_heap *heap, size_t more_bytes);

/*
 * Under the lock: how much larger an idle segment may be than the n_bytes that it serves.  Nothing
 * before the heap holds 3/16 more than the recent peak: sizes that repeat have segments of their
 * own by then.  A live block pins what it does not need, so the device has to have room, and all
 * blocks of its heaps together waste a 64th of it at most.
 */
size_t cushim_mem_watermark_waste_bytes(struct cushim_mem_heap *heap, size_t n_bytes);

/* Under the lock: the block of a segment, if that is dedicated, has this size now; it is all of the
 * segment when it is free. */
void cushim_mem_watermark_count_wasted(struct cushim_mem_heap *heap,
                                       struct cushim_mem_segment *segment, size_t block_bytes);

/* Under the lock: the share of what is used, or was a moment ago, that may be held beside it. */
size_t cushim_mem_watermark_margin_bytes(struct cushim_mem_heap *heap);

/* Under the lock: how many bytes are worth a wait for the device. */
size_t cushim_mem_watermark_step_bytes(const struct cushim_mem_heap *heap);

/*
 * Under the lock: is so much more held than may be that it has to go back now, even behind a wait?
 * What a free could not give back because live blocks pin it (tried_bytes) is not tried again
 * before it has grown.
 */
bool cushim_mem_watermark_is_far(struct cushim_mem_heap *heap, size_t over_bytes);

/* Under the lock: remember what is over the watermark after all was given back that could be. */
void cushim_mem_watermark_note_tried(struct cushim_mem_heap *heap);

/* Without the lock: was it so by the watermark as a free found it last? */
bool cushim_mem_watermark_seems_far(const struct cushim_mem_heap *heap);

#endif
