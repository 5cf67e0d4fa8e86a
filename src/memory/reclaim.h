/*
 * Reclaim: how a heap gives memory back to the driver.  In a free it gives what it may no longer
 * hold (docs/internals/memory-engine.md, "How much a heap keeps"), and before it answers that
 * memory is out, everything that it can ("When memory is out").
 *
 * The latter is done in steps.  Each makes some memory free, or is the last.  After each the caller
 * tries its request again.  A kernel that never ends does not block it: the wait has a deadline,
 * and memory that only a longer wait could free is kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_mem_block_meta;
struct cushim_mem_heap;
struct cushim_mem_segment;

/**
 * Call it in a free, without the lock: give back what the heap may no longer hold.  If that is
 * much, the free waits until `tag` is done, as the driver's free would.  An error of the wait is
 * noted as damage.
 * @param life        of the heap; nothing happens in another
 * @param tag         of the block just freed; 0 if all work on it is over
 * @param has_waited  this free has waited for the device; if not, a free that must not wait asks
 *                    whether the device is idle
 * Stream   may wait for the device, as cudaFree
 */
void cushim_mem_reclaim_shrink(struct cushim_mem_heap *heap, uint64_t life, uint64_t tag,
                               bool has_waited);

/**
 * Call it in a call that neither requests nor frees: give back what the heap may no longer hold,
 * but only while that waits for nothing.  A busy device is asked once in each tick of the coarse
 * clock.
 * @param life  of the heap; nothing happens in another
 */
void cushim_mem_reclaim_idle(struct cushim_mem_heap *heap, uint64_t life);

/**
 * Give wholly free segments back to the driver until no more than keep_bytes of them are held.
 * @return the bytes given back
 * Stream   may wait for the device, as cudaFree
 */
size_t cushim_mem_reclaim_trim(struct cushim_mem_heap *heap, size_t keep_bytes);

/* Call it in a request: give back until no more than target_bytes are held, but only while that
 * waits for nothing.  Returns the bytes given back. */
size_t cushim_mem_reclaim_quietly(struct cushim_mem_heap *heap, size_t target_bytes);

/* ---- when memory is out ---- */

enum cushim_mem_reclaim_step {
    CUSHIM_MEM_RECLAIM_WAIT,      /* for deferred blocks, up to a deadline */
    CUSHIM_MEM_RECLAIM_DRAIN,     /* every thread's cache */
    CUSHIM_MEM_RECLAIM_GIVE_BACK, /* free segments of this heap */
    CUSHIM_MEM_RECLAIM_OTHERS,    /* those of the other heaps of the device */
    CUSHIM_MEM_RECLAIM_END
};

/* All zero is the start. */
struct cushim_mem_reclaim {
    unsigned next_step;
    bool is_busy;      /* the device did not become idle in time */
    uint64_t until_ns; /* of cushim_clock_ns: the end of all its waits; 0 at the start */
    size_t drained_bytes, returned_bytes, others_bytes;
};

/*
 * Take steps until one made something free.  True: try again.  False: there is no further step, and
 * memory is out; that is counted, and logged at level `warn`.
 */
bool cushim_mem_reclaim_run(struct cushim_mem_reclaim *reclaim, struct cushim_mem_heap *heap,
                            size_t n_bytes);

/* The end of the waits of a request that begins to wait now. */
uint64_t cushim_mem_reclaim_until(void);

/**
 * For allocations that the heap does not serve: give everything that the heap can free to the
 * driver, but nothing while the device is busy.
 * @param until_ns  when its wait ends; of cushim_mem_reclaim_until, one for all heaps that are
 *                  asked
 * @return the bytes given back
 * Stream   may wait for the device, up to the deadline
 */
size_t cushim_mem_reclaim_empty(struct cushim_mem_heap *heap, uint64_t until_ns);

/* ---- what there is ---- */

/*
 * The bytes that a request could get in one piece, from the driver or from us: segments in which no
 * block is live.  Blocks in caches and deferred ones count as free, as they would be without
 * cushim.
 */
size_t cushim_mem_reclaim_reusable_bytes(struct cushim_mem_heap *heap);

enum { CUSHIM_MEM_CENSUS_SIZES = 64 };

/* What is in the segments of a heap, counted block by block.  Call it rarely, because it walks all
 * of them under the heap's lock. */
struct cushim_mem_census {
    size_t device_bytes, held_bytes;
    size_t live_bytes, pending_bytes; /* of blocks, as cut; pending: freed, the GPU may use them */
    size_t cached_bytes;              /* free, in caches of threads */
    size_t retired_bytes;             /* freed, but other processes may read them, so they are not
                                       * reused */
    size_t free_bytes, largest_free_bytes; /* wholly free: extents without a block */
    /* live blocks by size, in no order; further sizes are not counted separately */
    unsigned n_sizes;
    struct cushim_mem_census_size {
        size_t block_bytes, n;
    } sizes[CUSHIM_MEM_CENSUS_SIZES];
};

/* Visit each segment of a heap, with `meta` NULL, and then each of its LIVE blocks, whose program
 * knows it by `base`.  The heap's lock is held meanwhile. */
typedef void cushim_mem_see_fn(const struct cushim_mem_segment *segment,
                               struct cushim_mem_block_meta *meta, uint64_t base);
void cushim_mem_census_each(struct cushim_mem_heap *heap, cushim_mem_see_fn *see);

void cushim_mem_census_take(struct cushim_mem_heap *heap, struct cushim_mem_census *census);
