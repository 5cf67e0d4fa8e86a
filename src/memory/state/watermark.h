/*
 * The watermark of a heap: how much it may hold (docs/internals/memory-engine.md, "How much a heap
 * keeps").
 *
 * Without cushim, memory that a program freed is available to other allocators of the process and
 * to other processes.  So idle memory has to earn its keep.  If memory goes back to the driver and
 * is requested again within a second, that much may stay idle, until no free looks for a second.
 * Idle memory also stays below half of what the driver has free, and below an eighth of the device
 * while next to nothing is used.  Deferred blocks count as held, not as used.
 *
 * The heap's lock guards all fields; atomic fields are also read without it.  The caller holds it
 * in all calls but cushim_mem_watermark_ask and cushim_mem_watermark_seems_far.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_mem_heap;

struct cushim_mem_watermark {
    struct cushim_mem_segment *oldest_free; /* of the wholly free segments */
    size_t earned_bytes;                    /* may be idle */
    size_t returned_bytes;                  /* to the driver, less than a second apart */
    uint64_t returned_ns;                   /* when the last of them went */
    uint64_t looked_ns;                     /* when a free or a growing heap last looked */
    /* by the driver's last answer, within a limit if one is set; 0: it was not asked yet */
    atomic_size_t device_bytes, device_free_bytes;
    size_t tried_bytes;        /* beyond the watermark after a free gave back what it could */
    atomic_size_t far_bytes;   /* more than that beyond what is used is far over the watermark */
    uint64_t asked_ns;         /* when the driver was asked */
    uint64_t gave_up_ns;       /* when reclaim last waited for the device in vain; 0: never */
    size_t cached_waste_bytes; /* by which blocks out of stream caches are larger than requests */
};

/* Ask the driver how much of the device is free, unless it was asked a moment ago. */
void cushim_mem_watermark_ask(struct cushim_mem_heap *heap);

/* Count a block that is taken for any use. */
void cushim_mem_watermark_count_taken(struct cushim_mem_heap *heap, size_t block_bytes);

/* Note how many bytes lie in stream caches, and by how much the used bytes fell meanwhile. */
void cushim_mem_watermark_see_cached(struct cushim_mem_heap *heap, size_t cached_bytes,
                                     size_t fallen_bytes);

/* Note that a segment went back to the driver, or came from it. */
void cushim_mem_watermark_note_returned(struct cushim_mem_heap *heap, size_t n_bytes);
void cushim_mem_watermark_note_fetched(struct cushim_mem_heap *heap, size_t n_bytes);

/*
 * The bytes that may be held now.  The heap's own watermark is what is used, what idle memory has
 * earned, and a little more.  It stays below what was used a moment ago and a little more, or 5/16
 * more if the device has room.  CUSHIM_KEEP limits what may be idle, and CUSHIM_RESERVE is the
 * least that may be held, but the neighbours' watermark limits both.  While a capture is open, only
 * what is used and a little more may be held.
 */
size_t cushim_mem_watermark_now(struct cushim_mem_heap *heap);

/* The same for a request that will use more_bytes. */
size_t cushim_mem_watermark_with(struct cushim_mem_heap *heap, size_t more_bytes);

/* Does the heap hold 3/16 more than the recent peak?  Then sizes that repeat have segments of their
 * own, and others may be served by larger ones. */
bool cushim_mem_watermark_is_ample(const struct cushim_mem_heap *heap, size_t n_bytes);

/*
 * How much larger an idle segment or block may be than the n_bytes that it serves.  A live block
 * pins the bytes that it does not need.  So the device must have room, and all blocks of its heaps
 * together waste at most a 64th of it.
 */
size_t cushim_mem_watermark_waste_bytes(const struct cushim_mem_heap *heap, size_t n_bytes);

/* Note the size of the block of a segment, if that is dedicated.  A free block has the size of the
 * segment. */
void cushim_mem_watermark_count_wasted(struct cushim_mem_heap *heap,
                                       struct cushim_mem_segment *segment, size_t block_bytes);

/* The bytes that may be held beside what is used, as a share of the recent peak. */
size_t cushim_mem_watermark_margin_bytes(struct cushim_mem_heap *heap);

/* How many bytes are worth a wait for the device. */
size_t cushim_mem_watermark_step_bytes(const struct cushim_mem_heap *heap);

/*
 * Whether the heap is so far over the watermark that memory has to go back now, even behind a wait.
 * Bytes that a free could not give back, because live blocks pin them (tried_bytes), are not tried
 * again before they have grown.
 */
bool cushim_mem_watermark_is_far(struct cushim_mem_heap *heap, size_t over_bytes);

/* Note what is beyond the watermark after the heap gave back all that it could. */
void cushim_mem_watermark_note_tried(struct cushim_mem_heap *heap);

/* Whether it was far by the watermark that the last free found.  Needs no lock. */
bool cushim_mem_watermark_seems_far(const struct cushim_mem_heap *heap);
