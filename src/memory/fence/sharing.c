#include "memory/fence/sharing.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/atomics.h"

/* A record takes less than a microsecond, what is awaited as long as the device. */
static void sleep_until_signal(struct cushim_mem_sharing *sharing, unsigned seen, bool is_awaited) {
    atomic_store(&sharing->has_sleepers, true);
    cushim_futex_wait(&sharing->signal, seen,
                      is_awaited ? CUSHIM_FUTEX_LONG_NS : CUSHIM_FUTEX_SHORT_NS);
}

/* Behind each change that sleepers wait for.  They read the signal before they looked for that; who
 * is about to sleep and has not said so yet is left to its time-out.  Nobody is woken twice:
 * whoever has no core yet costs later leaders nothing. */
static inline void wake(struct cushim_mem_sharing *sharing) {
    if (__builtin_expect(!atomic_load(&sharing->has_sleepers), 1))
        return;
    atomic_store(&sharing->has_sleepers, false);
    atomic_fetch_add(&sharing->signal, 1);
    cushim_futex_wake(&sharing->signal);
}

uint64_t cushim_mem_sharing_arrive(struct cushim_mem_sharing *sharing) {
    return atomic_fetch_add(&sharing->n_arrived, 1) + 1;
}

/* Looked at first: an exchange takes the line from the leader, who is to write there. */
static inline bool take_lead(struct cushim_mem_sharing *sharing, uint64_t *batch) {
    if (atomic_load(&sharing->is_recording) || atomic_exchange(&sharing->is_recording, true))
        return false;
    *batch = atomic_load(&sharing->n_arrived);
    return true;
}

__attribute__((noinline)) static bool wait_to_lead(struct cushim_mem_sharing *sharing,
                                                   uint64_t arrival, uint64_t *batch,
                                                   uint64_t *busy_since_ns) {
    for (unsigned n_looks = 0;; n_looks++) {
        unsigned seen = atomic_load(&sharing->signal);
        if (atomic_load(&sharing->n_done) >= arrival)
            return false;
        bool is_awaited = atomic_load(&sharing->n_awaited) >= arrival;
        if (is_awaited && !*busy_since_ns)
            *busy_since_ns = cushim_clock_ns();
        if (!is_awaited && take_lead(sharing, batch))
            return true;
        if (n_looks >= CUSHIM_FUTEX_LOOKS)
            sleep_until_signal(sharing, seen, is_awaited);
        else
            cushim_futex_pause();
    }
}

bool cushim_mem_sharing_lead(struct cushim_mem_sharing *sharing, uint64_t arrival, uint64_t *batch,
                             uint64_t *busy_since_ns) {
    *busy_since_ns = 0;
    bool is_covered =
        atomic_load(&sharing->n_done) >= arrival || atomic_load(&sharing->n_awaited) >= arrival;
    if (!is_covered && take_lead(sharing, batch)) /* alone: nothing is to be remembered */
        return true;
    return wait_to_lead(sharing, arrival, batch, busy_since_ns);
}

void cushim_mem_sharing_waits(struct cushim_mem_sharing *sharing, uint64_t batch) {
    cushim_raise_to(&sharing->n_awaited, batch);
    atomic_store(&sharing->is_recording, false);
    wake(sharing);
}

bool cushim_mem_sharing_next(struct cushim_mem_sharing *sharing, uint64_t *batch) {
    uint64_t done = *batch;
    cushim_raise_to(&sharing->n_done, done);
    *batch = atomic_load(&sharing->n_arrived);
    return *batch > done;
}

void cushim_mem_sharing_ends(struct cushim_mem_sharing *sharing, uint64_t batch, bool has_waited,
                             bool is_good) {
    if (is_good)
        cushim_raise_to(&sharing->n_done, batch);
    else
        atomic_store(&sharing->n_awaited, 0); /* at worst somebody records once more than needed */
    if (!has_waited)
        atomic_store(&sharing->is_recording, false);
    wake(sharing);
}
