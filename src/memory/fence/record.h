/*
 * A record: one event over all work that a context, or one stream of it, was given, and its result.
 *
 * The record of a context covers what the driver's free of the context's memory waits for: the work
 * of its streams and of those of its green contexts, and copies that others make from or to its
 * device memory (measured; docs/results/driver.md).  A record whose context is gone is over,
 * because the driver ends a context only with its work.  Such a record is not queried, because its
 * event is gone, too.
 *
 * The barrier replaces a record when none can be made: while a capture is open, and always before
 * driver 12.5.  It is the driver's own wait over a whole context, in the free of a small
 * allocation, which leaves captures valid (docs/internals/memory-engine.md, "Captures").  The
 * allocation is of device memory, or of pinned memory if the device is full.
 *
 * Lock: the spare events of a fence are under its lock; no driver call is made under it.  A record
 * that is over may be made again; then its event is reused, and no lock is taken.
 */
#pragma once

#include <stdbool.h>

#include "base/atomics.h"
#include "cuda/types.h"

/* All zero has no event. */
struct cushim_mem_record {
    struct cushim_mem_fence *fence; /* whose context, or a stream of it, was recorded */
    CUevent event;                  /* NULL: the context had gone, so it is over */
    unsigned life;                  /* of that fence, when the event was taken */
};

/* Record the context of `fence`, or *stream, a stream of this context, which is then current.  The
 * record's event is used, or a new one.  With an answer other than success there is nothing to
 * release.  For a context the capture guard must be held. */
CUresult cushim_mem_record_make(struct cushim_mem_record *record, struct cushim_mem_fence *fence,
                                const CUstream *stream);

/* The event becomes a spare again, and the record has none.  No thread queries it any more. */
void cushim_mem_record_release(struct cushim_mem_record *record);

/* Success (it is over), not-ready, or the driver's error. */
CUresult cushim_mem_record_query(const struct cushim_mem_record *record);

/* Wait for it by a synchronise, which brings out what its kernels printed, even if it was over. */
CUresult cushim_mem_record_synchronise(const struct cushim_mem_record *record);

/* Wait for it: poll for about as long as a short kernel takes, then sleep as the context's flags
 * say.  The last call is a synchronise in either case. */
CUresult cushim_mem_record_wait(const struct cushim_mem_record *record);

/*
 * The barrier: the driver waits for the context of `fence`.  If not `is_relaxed`, the calling
 * thread captures, and gets the driver's refusal.
 */
CUresult cushim_mem_barrier_pass(struct cushim_mem_fence *fence, bool is_relaxed);

/*
 * ---- launches, and what their kernels printed ----
 *
 * Device printf stays in a buffer of the context until the host synchronises; a query does not
 * flush it (docs/results/driver.md).  The driver's free does, so an exact free has to if a kernel
 * was launched since the last flush.
 *
 * Launches are noted in rounds, for all contexts together: a launch is a load and, once a round, a
 * store.  A flush opens the next round first, then records: a launch that was noted in an earlier
 * round was submitted before that record.  A fence has the number of the last round it has flushed.
 * tests/model/launches.pml has the protocol.
 */
struct cushim_mem_launches {
    _Alignas(64) atomic_uint_fast64_t round; /* from 1 on */
    atomic_uint_fast64_t latest;             /* round with a launch; 0: there was none */
};
extern struct cushim_mem_launches cushim_mem_launches __attribute__((visibility("hidden")));

/* The driver has taken a launch.  Any thread.  A round that ends after the load below ends before a
 * record that covers this launch. */
static inline void cushim_mem_launches_note(void) {
    cushim_raise_to(&cushim_mem_launches.latest, atomic_load(&cushim_mem_launches.round));
}
