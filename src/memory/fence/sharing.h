/*
 * Wait sharing: many threads need the same fence, and one of them gets it from the driver.
 *
 * A thread arrives, and any record that *begins* after that covers it.  One thread at a time leads:
 * it takes all arrivals so far as its batch and records for them.  On an idle device the batch is
 * done at once.  On a busy one the leader hands the role on and waits for its own batch, so that a
 * record never begins later than it must, and never covers work submitted long after an arrival.
 *
 * Without it threads contend in the driver: 13 us a record and query with 16 of them (measured).  A
 * leader whose batch was done at once may lead again for those that arrived meanwhile: what the
 * driver touches for a record is in its core's caches.
 *
 * A thread that neither leads nor is covered polls two hundred times and then sleeps, at most 100
 * us while the role is taken and 1 ms while a wait goes on; whoever gives up the role or ends a
 * wait wakes it.  So a leader that a real-time thread keeps off its core runs again.
 *
 * No lock: a role that one thread holds for the time of a record, and counters that only rise.
 */
#ifndef CUSHIM_MEMORY_SHARING_H
#define CUSHIM_MEMORY_SHARING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

enum { CUSHIM_MEM_LINE_BYTES = 64 };

/* All zero is nobody there.  Arrivals have a line of cache of their own: they are what threads
 * fight for. */
struct cushim_mem_sharing {
    char before[CUSHIM_MEM_LINE_BYTES];
    atomic_uint_fast64_t n_arrived;
    char behind[CUSHIM_MEM_LINE_BYTES - sizeof(atomic_uint_fast64_t)];
    atomic_uint_fast64_t n_done;    /* arrivals up to this one are covered, and over */
    atomic_uint_fast64_t n_awaited; /* ... are covered by a record that a leader waits for */
    atomic_bool is_recording;       /* somebody leads */
    atomic_uint signal;             /* changes with what sleepers wait for */
    atomic_bool has_sleepers;       /* since the last wake */
};

/* All that the calling thread did before is before any record that covers the number returned. */
static inline uint64_t cushim_mem_sharing_arrive(struct cushim_mem_sharing *sharing) {
    return atomic_fetch_add(&sharing->n_arrived, 1) + 1;
}

/* Wake who sleeps. */
void cushim_mem_sharing_wake(struct cushim_mem_sharing *sharing);

/* Behind each change that sleepers wait for.  They read the signal before they looked for that; who
 * is about to sleep and has not said so yet is left to its time-out. */
static inline void cushim_mem_sharing_signal(struct cushim_mem_sharing *sharing) {
    if (__builtin_expect(atomic_load(&sharing->has_sleepers), 0))
        cushim_mem_sharing_wake(sharing);
}

/* Looked at first: an exchange takes the line from the leader, who is to write there. */
static inline bool cushim_mem_sharing_take_lead(struct cushim_mem_sharing *sharing,
                                                uint64_t *batch) {
    if (atomic_load(&sharing->is_recording) || atomic_exchange(&sharing->is_recording, true))
        return false;
    *batch = atomic_load(&sharing->n_arrived);
    return true;
}

/* As cushim_mem_sharing_lead, where others are there. */
bool cushim_mem_sharing_wait_to_lead(struct cushim_mem_sharing *sharing, uint64_t arrival,
                                     uint64_t *batch, uint64_t *busy_since_ns);

/**
 * Wait until an arrival is covered, or it is this thread's turn to lead.
 * @param batch     where true: the arrivals that the leader's record will cover
 * @param busy_since_ns  since when this thread waits for a busy device; 0 where it was not busy
 * @return true: lead, then record, and call waits or ends | false: covered, nothing to do
 */
static inline bool cushim_mem_sharing_lead(struct cushim_mem_sharing *sharing, uint64_t arrival,
                                           uint64_t *batch, uint64_t *busy_since_ns) {
    *busy_since_ns = 0;
    bool is_covered =
        atomic_load(&sharing->n_done) >= arrival || atomic_load(&sharing->n_awaited) >= arrival;
    if (!is_covered && cushim_mem_sharing_take_lead(sharing, batch)) /* alone */
        return true;
    return cushim_mem_sharing_wait_to_lead(sharing, arrival, batch, busy_since_ns);
}

/* The leader has recorded and will wait: others may record meanwhile. */
void cushim_mem_sharing_waits(struct cushim_mem_sharing *sharing, uint64_t batch);

/*
 * The batch is over, and the leader could go on.
 * @return true: `batch` has more arrivals now, and the lead is kept | false: nobody waits
 */
static inline bool cushim_mem_sharing_next(struct cushim_mem_sharing *sharing, uint64_t *batch) {
    uint64_t done = *batch;
    cushim_raise_to(&sharing->n_done, done);
    *batch = atomic_load(&sharing->n_arrived);
    return *batch > done;
}

/* The batch is over, or (not is_good) the driver refused: then each of it asks for itself. */
static inline void cushim_mem_sharing_ends(struct cushim_mem_sharing *sharing, uint64_t batch,
                                           bool has_waited, bool is_good) {
    if (is_good)
        cushim_raise_to(&sharing->n_done, batch);
    else
        atomic_store(&sharing->n_awaited, 0); /* at worst somebody records once more than needed */
    if (!has_waited)
        atomic_store(&sharing->is_recording, false);
    cushim_mem_sharing_signal(sharing);
}

#endif
