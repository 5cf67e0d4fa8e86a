#include "memory/fence/sharing.h"

#include <pthread.h>
#include <sched.h>

#include "tests/unit/suite.h"

enum { N_THREADS = 4, N_ROUNDS = 4000 };

static struct cushim_mem_sharing sharing;
static uint64_t batch, busy_since_ns;

START_TEST(who_comes_alone_leads) {
    uint64_t arrival = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_lead(&sharing, arrival, &batch, &busy_since_ns));
    ck_assert_uint_eq(batch, arrival);
    cushim_mem_sharing_ends(&sharing, batch, false, true);
    ck_assert(!cushim_mem_sharing_lead(&sharing, arrival, &batch, &busy_since_ns));
    ck_assert_uint_eq(busy_since_ns, 0);
}
END_TEST

START_TEST(a_record_covers_who_came_before_it_and_nobody_else) {
    uint64_t first = cushim_mem_sharing_arrive(&sharing);
    uint64_t second = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_lead(&sharing, first, &batch, &busy_since_ns));
    uint64_t late = cushim_mem_sharing_arrive(&sharing); /* the record may have begun already */
    cushim_mem_sharing_ends(&sharing, batch, false, true);
    ck_assert(!cushim_mem_sharing_lead(&sharing, second, &batch, &busy_since_ns));
    ck_assert(cushim_mem_sharing_lead(&sharing, late, &batch, &busy_since_ns));
    cushim_mem_sharing_ends(&sharing, batch, false, true);
}
END_TEST

START_TEST(while_a_leader_waits_who_comes_later_records_at_once) {
    uint64_t first = cushim_mem_sharing_arrive(&sharing);
    uint64_t waited_batch;
    ck_assert(cushim_mem_sharing_lead(&sharing, first, &waited_batch, &busy_since_ns));
    cushim_mem_sharing_waits(&sharing, waited_batch);
    uint64_t late = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_lead(&sharing, late, &batch, &busy_since_ns));
    cushim_mem_sharing_ends(&sharing, batch, false, true); /* the later one is over first */
    ck_assert(!cushim_mem_sharing_lead(&sharing, first, &batch, &busy_since_ns));
    cushim_mem_sharing_ends(&sharing, waited_batch, true, true);
    ck_assert_uint_eq(atomic_load(&sharing.n_done), late); /* and it does not fall back */
}
END_TEST

START_TEST(when_the_driver_refuses_everybody_asks_for_himself) {
    uint64_t first = cushim_mem_sharing_arrive(&sharing);
    uint64_t second = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_lead(&sharing, first, &batch, &busy_since_ns));
    cushim_mem_sharing_waits(&sharing, batch);
    cushim_mem_sharing_ends(&sharing, batch, true, false);
    ck_assert(cushim_mem_sharing_lead(&sharing, second, &batch, &busy_since_ns));
    cushim_mem_sharing_ends(&sharing, batch, false, true);
}
END_TEST

START_TEST(a_leader_goes_on_for_who_came_meanwhile) {
    uint64_t first = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_lead(&sharing, first, &batch, &busy_since_ns));
    uint64_t late = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_next(&sharing, &batch));
    ck_assert_uint_eq(batch, late);
    ck_assert_uint_eq(atomic_load(&sharing.n_done), first); /* the record for it is to come */
    ck_assert(!cushim_mem_sharing_next(&sharing, &batch));
    ck_assert_uint_eq(atomic_load(&sharing.n_done), late);
    ck_assert(atomic_load(&sharing.is_recording));
    cushim_mem_sharing_ends(&sharing, batch, false, true);
    ck_assert(!atomic_load(&sharing.is_recording));
}
END_TEST

static void *wait_for_the_leader(void *arrival) {
    uint64_t own_batch, since_ns;
    ck_assert(!cushim_mem_sharing_lead(&sharing, *(uint64_t *)arrival, &own_batch, &since_ns));
    ck_assert_uint_ne(since_ns, 0);
    return NULL;
}

START_TEST(who_sleeps_through_a_long_wait_is_woken) {
    pthread_t thread;
    uint64_t first = cushim_mem_sharing_arrive(&sharing);
    uint64_t second = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_lead(&sharing, first, &batch, &busy_since_ns));
    cushim_mem_sharing_waits(&sharing, batch);
    pthread_create(&thread, NULL, wait_for_the_leader, &second);
    while (!atomic_load(&sharing.has_sleepers))
        sched_yield();
    cushim_mem_sharing_ends(&sharing, batch, true, true);
    pthread_join(thread, NULL);
}
END_TEST

/* Threads that write, arrive, and expect a record that began afterwards to have seen the write. */
static atomic_uint_fast64_t written[N_THREADS], recorded[N_THREADS];

static void record_all(void) {
    for (size_t k = 0; k < N_THREADS; k++)
        atomic_store_explicit(&recorded[k], atomic_load_explicit(&written[k], memory_order_relaxed),
                              memory_order_relaxed);
}

static void *write_and_wait(void *index) {
    size_t i = (size_t)(uintptr_t)index;
    for (uint64_t round = 1; round <= suite_turns(N_ROUNDS); round++) {
        uint64_t own_batch, since_ns;
        atomic_store_explicit(&written[i], round, memory_order_relaxed);
        uint64_t arrival = cushim_mem_sharing_arrive(&sharing);
        if (cushim_mem_sharing_lead(&sharing, arrival, &own_batch, &since_ns)) {
            record_all();
            if (round % 3 == 0 && cushim_mem_sharing_next(&sharing, &own_batch))
                record_all();
            bool is_busy = round % 7 == 0;
            if (is_busy)
                cushim_mem_sharing_waits(&sharing, own_batch);
            bool is_good = round % 11 != 0;
            cushim_mem_sharing_ends(&sharing, own_batch, is_busy, is_good);
            if (!is_good)
                continue; /* refused: this thread would give the driver's answer */
        }
        if (atomic_load_explicit(&recorded[i], memory_order_relaxed) < round)
            return index; /* the wait ended before a record that covers it */
    }
    return NULL;
}

START_TEST(nobody_goes_on_before_a_record_that_began_after_his_arrival) {
    pthread_t threads[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, write_and_wait, (void *)(uintptr_t)i);
    for (size_t i = 0; i < N_THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
}
END_TEST

SUITE() {
    return suite_run(
        "sharing",
        (const TTest *[]){who_comes_alone_leads, a_record_covers_who_came_before_it_and_nobody_else,
                          while_a_leader_waits_who_comes_later_records_at_once,
                          when_the_driver_refuses_everybody_asks_for_himself,
                          a_leader_goes_on_for_who_came_meanwhile,
                          who_sleeps_through_a_long_wait_is_woken,
                          nobody_goes_on_before_a_record_that_began_after_his_arrival, NULL});
}
