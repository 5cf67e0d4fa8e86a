/*
 * Reclaim: what a heap does before it answers that memory is out (docs/internals/memory-engine.md,
 * "When memory is out").
 *
 * Each step makes some memory free, or is the last; the caller tries its request again after each.
 * A kernel that never ends does not block it: the wait has a deadline, and memory that only a
 * longer wait could free is kept.
 */
#ifndef CUSHIM_MEMORY_RECLAIM_H
#define CUSHIM_MEMORY_RECLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_mem_heap;

enum cushim_mem_reclaim_step {
    CUSHIM_MEM_RECLAIM_WAIT,      /* for deferred blocks, up to a deadline */
    CUSHIM_MEM_RECLAIM_DRAIN,     /* every thread's cache */
    CUSHIM_MEM_RECLAIM_GIVE_BACK, /* free segments of this pool */
    CUSHIM_MEM_RECLAIM_OTHERS,    /* those of the other pools of the device */
    CUSHIM_MEM_RECLAIM_END
};

/* All zero is the start. */
struct cushim_mem_reclaim {
    unsigned next_step;
    bool is_busy;      /* the device did not become quiet in time */
    uint64_t until_ns; /* of cushim_clock_ns: the end of all its waits; 0 at the start */
    size_t drained_bytes, returned_bytes, others_bytes;
};

/*
 * Take steps until one made something free: true, try again.  False at the end: memory is out,
 * which is counted, and said where the log is at `warn`.
 */
bool cushim_mem_reclaim_run(struct cushim_mem_reclaim *reclaim, struct cushim_mem_heap *pool,
                            size_t n_bytes);

/* The end of the waits of a request that begins to wait now. */
uint64_t cushim_mem_reclaim_until(void);

/**
 * For allocations that the pool does not serve: all that the pool can free goes to the driver, but
 * nothing while the device is busy.
 * @param until_ns  when its wait ends; of cushim_mem_reclaim_until, one for all pools that are
 * asked
 * @return the bytes given back
 * Stream   may wait for the device, up to the deadline
 */
size_t cushim_mem_reclaim_empty(struct cushim_mem_heap *pool, uint64_t until_ns);

#endif
