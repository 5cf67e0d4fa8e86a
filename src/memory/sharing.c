#include "memory/sharing.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/raise.h"

/* A record takes less than a microsecond: look this often before yielding, and before sleeping. */
enum { LOOKS_BEFORE_YIELD = 200, LOOKS_BEFORE_SLEEP = 2000 };

static void pause_a_moment(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_until_signal(struct cushim_mem_sharing *sharing, unsigned seen) {
    atomic_fetch_add(&sharing->n_sleepers, 1);
    syscall(SYS_futex, &sharing->signal, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&sharing->n_sleepers, 1);
}

/* Whoever sleeps looked at the counters before it read the old signal. */
static void wake(struct cushim_mem_sharing *sharing) {
    atomic_fetch_add(&sharing->signal, 1);
    if (atomic_load(&sharing->n_sleepers))
        syscall(SYS_futex, &sharing->signal, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

uint64_t cushim_mem_sharing_arrive(struct cushim_mem_sharing *sharing) {
    return atomic_fetch_add(&sharing->n_arrived, 1) + 1;
}

bool cushim_mem_sharing_lead(struct cushim_mem_sharing *sharing, uint64_t arrival, uint64_t *batch,
                             uint64_t *busy_since_ns) {
    *busy_since_ns = 0;
    for (unsigned n_looks = 0;; n_looks++) {
        unsigned seen = atomic_load(&sharing->signal);
        if (atomic_load(&sharing->n_done) >= arrival)
            return false;
        bool is_awaited = atomic_load(&sharing->n_awaited) >= arrival;
        if (is_awaited && !*busy_since_ns)
            *busy_since_ns = cushim_clock_ns();
        /* looked at first: an exchange takes the line from the leader, who is to write there */
        if (!is_awaited && !atomic_load(&sharing->is_recording) &&
            !atomic_exchange(&sharing->is_recording, true)) {
            *batch = atomic_load(&sharing->n_arrived);
            return true;
        }
        if (is_awaited && n_looks >= LOOKS_BEFORE_SLEEP)
            sleep_until_signal(sharing, seen);
        else if (n_looks >= LOOKS_BEFORE_YIELD)
            sched_yield();
        else
            pause_a_moment();
    }
}

void cushim_mem_sharing_waits(struct cushim_mem_sharing *sharing, uint64_t batch) {
    cushim_raise_to(&sharing->n_awaited, batch);
    atomic_store(&sharing->is_recording, false);
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
    if (has_waited)
        wake(sharing);
}
