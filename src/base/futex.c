#include "base/futex.h"

void cushim_futex_lock_wake(struct cushim_futex_lock *lock) {
    cushim_futex_wake(&lock->word);
}

static bool take(struct cushim_futex_lock *lock) {
    unsigned none = 0;
    return atomic_compare_exchange_strong_explicit(&lock->word, &none, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* The thread inside is there for tens of nanoseconds, unless it was preempted there. */
void cushim_futex_lock_enter(struct cushim_futex_lock *lock) {
    unsigned n_looks = 0;
    if (take(lock))
        return;
    atomic_fetch_add_explicit(&lock->n_wanted, 1, memory_order_relaxed);
    while (!take(lock)) {
        if (n_looks++ < CUSHIM_FUTEX_LOOKS)
            cushim_futex_pause();
        else
            cushim_futex_wait(&lock->word, 1, CUSHIM_FUTEX_LONG_NS);
    }
    atomic_fetch_sub_explicit(&lock->n_wanted, 1, memory_order_relaxed);
}
