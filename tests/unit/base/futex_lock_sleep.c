/* A thread that finds the lock taken sleeps, and the thread that leaves wakes it. */
#include "base/futex.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>

#include "tests/unit/futex_calls.h"
#include "tests/unit/suite.h"

enum { OTHERS = 3 };

static struct cushim_futex_lock lock;

static void *enter_once(void *unused) {
    (void)unused;
    cushim_futex_lock_enter(&lock);
    cushim_futex_lock_leave(&lock);
    return NULL;
}

TEST(a_leave_wakes_the_sleepers) {
    pthread_t others[OTHERS];
    atomic_store(&futex_has_timeouts, false);
    ck_assert(cushim_futex_lock_take(&lock));
    for (unsigned i = 0; i < OTHERS; i++)
        pthread_create(&others[i], NULL, enter_once, NULL);
    while (atomic_load(&lock.n_wanted) != OTHERS || !atomic_load(&futex_n_waits))
        sched_yield();
    cushim_futex_lock_leave(&lock);
    for (unsigned i = 0; i < OTHERS; i++)
        pthread_join(others[i], NULL);
    ck_assert_uint_ge(atomic_load(&futex_n_wakes), 1);
    ck_assert_uint_eq(atomic_load(&lock.n_wanted), 0);
    ck_assert_uint_eq(atomic_load(&lock.word), 0);
}

TEST(a_leave_without_sleepers_makes_no_wake_call) {
    ck_assert(cushim_futex_lock_take(&lock));
    cushim_futex_lock_leave(&lock);
    cushim_futex_lock_enter(&lock);
    cushim_futex_lock_leave(&lock);
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 0);
}

int main(void) {
    return tests_run("futex_lock_sleep");
}
