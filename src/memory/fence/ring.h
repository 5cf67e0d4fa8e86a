/*
 * The ring of epochs in flight: what was recorded for each, oldest first.
 *
 * One thread at a time (the starter) records and publishes; nobody sees a row before.  A thread
 * that queries a row or waits for it pins it; a row that is done leaves when its last pin goes, and
 * its event becomes a spare.
 *
 * Lock: `lock` guards all but the hint `n_rows`; it is never held over a driver call.
 */
#ifndef CUSHIM_MEMORY_RING_H
#define CUSHIM_MEMORY_RING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/fence/record.h"

enum { CUSHIM_MEM_RING_ROWS = 16 };

struct cushim_mem_row {
    uint64_t epoch; /* constant while published */
    unsigned n_pins;
    bool is_leaving;
    struct cushim_mem_record record; /* constant while published */
};

struct cushim_mem_ring {
    pthread_mutex_t lock;
    atomic_uint n_rows; /* read without the lock too: is there any? */
    unsigned first;
    struct cushim_mem_row rows[CUSHIM_MEM_RING_ROWS];
};

/* All zero. */
void cushim_mem_ring_init(struct cushim_mem_ring *ring);

static inline bool cushim_mem_ring_is_empty(const struct cushim_mem_ring *ring) {
    return !atomic_load_explicit(&ring->n_rows, memory_order_relaxed);
}

/* Are all in flight?  For the starter: nobody else makes more of them. */
static inline bool cushim_mem_ring_is_full(const struct cushim_mem_ring *ring) {
    return atomic_load(&ring->n_rows) == CUSHIM_MEM_RING_ROWS;
}

/* Its record was made, and the ring is not full: others may see it. */
void cushim_mem_ring_publish(struct cushim_mem_ring *ring, const struct cushim_mem_record *record,
                             uint64_t epoch);

/* Is there a row that covers `epoch`? */
bool cushim_mem_ring_covers(struct cushim_mem_ring *ring, uint64_t epoch);

/*
 * The oldest row that is younger than `done` and covers `epoch`; NULL where there is none.  It
 * stays as it is until unpinned.
 */
struct cushim_mem_row *cushim_mem_ring_pin(struct cushim_mem_ring *ring, uint64_t done,
                                           uint64_t epoch);
void cushim_mem_ring_unpin(struct cushim_mem_ring *ring, struct cushim_mem_row *row);

/* Rows up to `done` leave, in order, unless one is pinned. */
void cushim_mem_ring_recycle(struct cushim_mem_ring *ring, uint64_t done);

#endif
