/* A latch between its owner and others, by both of its ways. */
#include "memory/heap/cache_lock.h"

#include <pthread.h>
#include <sched.h>

#include "tests/unit/suite.h"

enum { OTHERS = 3, ROUNDS = 2000, TURNS = 200000, REST = 256 };

static struct cushim_mem_cache_lock latch;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long n_entries; /* by whoever has the latch, neither atomic nor locked otherwise */
static atomic_uint n_at_work;

static void *enter_often(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&lock);
        cushim_mem_cache_lock_want(&latch);
        cushim_mem_cache_lock_pass_barrier();
        cushim_mem_cache_lock_enter(&latch);
        n_entries++;
        cushim_mem_cache_lock_let_go(&latch);
        pthread_mutex_unlock(&lock);
    }
    atomic_fetch_sub(&n_at_work, 1);
    return NULL;
}

static void contend(void) {
    pthread_t others[OTHERS];
    unsigned long n_own = 0;
    atomic_store(&n_at_work, OTHERS);
    n_entries = 0;
    for (unsigned i = 0; i < OTHERS; i++)
        pthread_create(&others[i], NULL, enter_often, NULL);
    for (unsigned i = 0; i < TURNS || atomic_load(&n_at_work); i++) {
        if (i % REST == 0)
            sched_yield(); /* outside: memcheck may put this thread aside inside each time */
        if (!cushim_mem_cache_lock_take(&latch))
            continue;
        n_entries++;
        n_own++;
        cushim_mem_cache_lock_leave(&latch);
    }
    for (unsigned i = 0; i < OTHERS; i++)
        pthread_join(others[i], NULL);
    ck_assert_uint_eq(n_entries, n_own + OTHERS * ROUNDS);
    ck_assert_uint_gt(n_own, 0);
}

START_TEST(no_two_threads_are_inside_at_once) {
    cushim_mem_cache_lock_init(&latch);
    contend();
}
END_TEST

START_TEST(nor_are_they_where_the_kernel_has_no_barrier) {
    latch.has_barrier = false;
    contend();
}
END_TEST

START_TEST(the_owner_stays_out_of_what_another_wants_or_it_has_itself) {
    cushim_mem_cache_lock_init(&latch);
    ck_assert(cushim_mem_cache_lock_take(&latch));
    ck_assert(!cushim_mem_cache_lock_take(&latch)); /* below a signal */
    cushim_mem_cache_lock_leave(&latch);
    cushim_mem_cache_lock_want(&latch);
    cushim_mem_cache_lock_pass_barrier();
    cushim_mem_cache_lock_enter(&latch);
    ck_assert(!cushim_mem_cache_lock_take(&latch));
    cushim_mem_cache_lock_let_go(&latch);
    ck_assert(cushim_mem_cache_lock_take(&latch));
}
END_TEST

int main(void) {
    return suite_run("latch",
                     (const TTest *[]){no_two_threads_are_inside_at_once,
                                       nor_are_they_where_the_kernel_has_no_barrier,
                                       the_owner_stays_out_of_what_another_wants_or_it_has_itself,
                                       NULL});
}
