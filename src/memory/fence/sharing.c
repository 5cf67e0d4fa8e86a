#include "memory/fence/sharing.h"

#include "base/clock.h"
#include "base/futex.h"

/* A record takes less than a microsecond, what is awaited as long as the device. */
static void sleep_until_signal(struct cushim_mem_sharing *sharing, unsigned seen, bool is_awaited) {
    atomic_store(&sharing->has_sleepers, true);
    cushim_futex_wait(&sharing->signal, seen,
                      is_awaited ? CUSHIM_FUTEX_LONG_NS : CUSHIM_FUTEX_SHORT_NS);
}

/* Nobody is woken twice: whoever has no core yet costs later leaders nothing. */
void cushim_mem_sharing_wake(struct cushim_mem_sharing *sharing) {
    atomic_store(&sharing->has_sleepers, false);
    atomic_fetch_add(&sharing->signal, 1);
    cushim_futex_wake(&sharing->signal);
}

bool cushim_mem_sharing_wait_to_lead(struct cushim_mem_sharing *sharing, uint64_t arrival,
                                     uint64_t *batch, uint64_t *busy_since_ns) {
    for (unsigned n_looks = 0;; n_looks++) {
        unsigned seen = atomic_load(&sharing->signal);
        if (atomic_load(&sharing->n_done) >= arrival)
            return false;
        bool is_awaited = atomic_load(&sharing->n_awaited) >= arrival;
        if (is_awaited && !*busy_since_ns)
            *busy_since_ns = cushim_clock_ns();
        if (!is_awaited && cushim_mem_sharing_take_lead(sharing, batch))
            return true;
        if (n_looks >= CUSHIM_FUTEX_LOOKS)
            sleep_until_signal(sharing, seen, is_awaited);
        else
            cushim_futex_pause();
    }
}

void cushim_mem_sharing_waits(struct cushim_mem_sharing *sharing, uint64_t batch) {
    cushim_raise_to(&sharing->n_awaited, batch);
    atomic_store(&sharing->is_recording, false);
    cushim_mem_sharing_signal(sharing);
}
