/*
 * Launches, and what their kernels printed.  Device printf stays in a buffer of the context until
 * the host synchronises; a query does not flush it (docs/results/allocator.md).  A native free
 * does, so an exact free has to, where a kernel was launched since the last flush.
 *
 * Launches are noted in rounds, for all contexts together: a launch is a load and, once a round, a
 * store.  A flush opens the next round first, then records: a launch that was noted in an earlier
 * round was submitted before that record.  A fence has the number of the last round it has flushed.
 * tests/model/launches.pml has the protocol.
 */
#ifndef CUSHIM_MEMORY_LAUNCHES_H
#define CUSHIM_MEMORY_LAUNCHES_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/atomics.h"

struct cushim_mem_launches {
    _Alignas(64) atomic_uint_fast64_t round; /* from 1 on */
    atomic_uint_fast64_t latest;             /* round with a launch; 0: there was none */
};
extern struct cushim_mem_launches cushim_mem_launches __attribute__((visibility("hidden")));

/* The driver has taken a launch.  Any thread.  A round that ends after the load below ends ahead of
 * a record which has this launch. */
static inline void cushim_mem_launches_note(void) {
    cushim_raise_to(&cushim_mem_launches.latest, atomic_load(&cushim_mem_launches.round));
}

/* What a context has brought out: all of the rounds up to this one.  All zero at first. */
struct cushim_mem_printed {
    atomic_uint_fast64_t round;
};

/*
 * Ahead of a record: the round to be brought out behind it, 0 where there is none to bring out.
 * The caller's own launches, and those it knows of, were noted.
 */
static inline uint64_t cushim_mem_printed_is_due(const struct cushim_mem_printed *printed) {
    if (atomic_load(&cushim_mem_launches.latest) <= atomic_load(&printed->round))
        return 0;
    return atomic_fetch_add(&cushim_mem_launches.round, 1);
}

/* A synchronise behind that record brought it out. */
static inline void cushim_mem_printed_up_to(struct cushim_mem_printed *printed, uint64_t round) {
    cushim_raise_to(&printed->round, round);
}

#endif
