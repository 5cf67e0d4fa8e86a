/* A cache's lock, which its owner and other threads take. */
#include "base/futex.h"

#include <pthread.h>
#include <sched.h>

#include "base/futex.h"
#include "tests/unit/suite.h"

enum { OTHERS = 3, ROUNDS = 2000, TURNS = 200000, REST = 256 };

static struct cushim_futex_lock lock;
static unsigned long n_entries; /* changed under the lock alone, so not atomic */
static atomic_uint n_at_work;

static void *enter_often(void *unused) {
    (void)unused;
    for (unsigned i = suite_turns(ROUNDS); i > 0; i--) {
        cushim_futex_lock_enter(&lock);
        n_entries++;
        cushim_futex_lock_leave(&lock);
    }
    atomic_fetch_sub(&n_at_work, 1);
    return NULL;
}

TEST(no_two_threads_are_inside_at_once) {
    pthread_t others[OTHERS];
    unsigned long n_own = 0;
    atomic_store(&n_at_work, OTHERS);
    for (unsigned i = 0; i < OTHERS; i++)
        pthread_create(&others[i], NULL, enter_often, NULL);
    for (unsigned i = 0; i < suite_turns(TURNS) || atomic_load(&n_at_work); i++) {
        if (i % REST == 0)
            sched_yield(); /* outside the lock, because memcheck may always switch threads inside it
                            */
        if (!cushim_futex_lock_take(&lock))
            continue;
        n_entries++;
        n_own++;
        cushim_futex_lock_leave(&lock);
    }
    for (unsigned i = 0; i < OTHERS; i++)
        pthread_join(others[i], NULL);
    ck_assert_uint_eq(n_entries, n_own + OTHERS * suite_turns(ROUNDS));
    ck_assert_uint_gt(n_own, 0);
    ck_assert_uint_eq(lock.n_wanted, 0);
}

static void *enter_once(void *has_entered) {
    cushim_futex_lock_enter(&lock);
    atomic_store((atomic_bool *)has_entered, true);
    cushim_futex_lock_leave(&lock);
    return NULL;
}

TEST(the_owner_cannot_enter_twice_or_while_another_thread_waits) {
    pthread_t other;
    atomic_bool has_entered = false;
    ck_assert(cushim_futex_lock_take(&lock));
    ck_assert(!cushim_futex_lock_take(&lock)); /* as in a signal handler */
    pthread_create(&other, NULL, enter_once, &has_entered);
    while (!atomic_load(&lock.n_wanted))
        cushim_futex_nap(100000);
    ck_assert(!atomic_load(&has_entered));
    atomic_store(&lock.word, 0); /* as a leave that saw no sleeper: the wake is missed */
    pthread_join(other, NULL);
    ck_assert(atomic_load(&has_entered));
    atomic_store(&lock.n_wanted, 1);
    ck_assert(!cushim_futex_lock_take(&lock));
    atomic_store(&lock.n_wanted, 0);
    ck_assert(cushim_futex_lock_take(&lock));
}

SUITE() {
    return tests_run("futex_lock");
}
