/* Who wakes those that sleep for a leader: with time-outs off, so that nothing but a wake ends a
 * sleep, and without wakes. */
#include "memory/fence/sharing.h"

#include <pthread.h>
#include <sched.h>

#include "tests/unit/futex_calls.h"
#include "tests/unit/suite.h"

static struct cushim_mem_sharing sharing;
static uint64_t batch, busy_since_ns;
/* One that arrived comes in, finds no lead, and sleeps. */
static void sleep_one(pthread_t *thread, void *(*work)(void *), uint64_t *arrival) {
    pthread_create(thread, NULL, work, arrival);
    while (!atomic_load(&sharing.has_sleepers))
        sched_yield();
}

static void *lead_once(void *arrival) {
    uint64_t own_batch, since_ns;
    ck_assert(cushim_mem_sharing_lead(&sharing, *(uint64_t *)arrival, &own_batch, &since_ns));
    cushim_mem_sharing_ends(&sharing, own_batch, false, true);
    return NULL;
}

START_TEST(who_sleeps_is_woken_where_the_leaders_wait_fails) {
    pthread_t thread;
    atomic_store(&futex_has_timeouts, false);
    uint64_t first = cushim_mem_sharing_arrive(&sharing);
    uint64_t second = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_lead(&sharing, first, &batch, &busy_since_ns));
    cushim_mem_sharing_waits(&sharing, batch);
    sleep_one(&thread, lead_once, &second);
    cushim_mem_sharing_ends(&sharing, batch, true, false);
    pthread_join(thread, NULL); /* and asks for itself */
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 1);
    ck_assert_uint_eq(atomic_load(&sharing.n_done), second);
}
END_TEST

START_TEST(who_sleeps_while_another_records_is_woken_to_go_on) {
    pthread_t thread;
    atomic_store(&futex_has_timeouts, false);
    uint64_t first = cushim_mem_sharing_arrive(&sharing);
    uint64_t second = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_lead(&sharing, first, &batch, &busy_since_ns));
    sleep_one(&thread, lead_once, &second);
    cushim_mem_sharing_ends(&sharing, first, false, true); /* a record from before the second */
    pthread_join(thread, NULL);
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 1);
}
END_TEST

START_TEST(who_sleeps_while_another_records_leads_when_that_one_waits) {
    pthread_t thread;
    atomic_store(&futex_has_timeouts, false);
    uint64_t first = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_lead(&sharing, first, &batch, &busy_since_ns));
    uint64_t late = cushim_mem_sharing_arrive(&sharing);
    sleep_one(&thread, lead_once, &late);
    cushim_mem_sharing_waits(&sharing, first);
    pthread_join(thread, NULL); /* while the first still waits */
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 1);
    cushim_mem_sharing_ends(&sharing, first, true, true);
}
END_TEST

START_TEST(nobody_is_woken_where_nobody_sleeps) {
    uint64_t first = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_lead(&sharing, first, &batch, &busy_since_ns));
    cushim_mem_sharing_ends(&sharing, batch, false, true);
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 0);
}
END_TEST

static void *be_covered(void *arrival) {
    uint64_t own_batch, since_ns;
    ck_assert(!cushim_mem_sharing_lead(&sharing, *(uint64_t *)arrival, &own_batch, &since_ns));
    return NULL;
}

START_TEST(a_wake_that_is_missed_is_not_waited_for) {
    pthread_t thread;
    uint64_t first = cushim_mem_sharing_arrive(&sharing);
    uint64_t second = cushim_mem_sharing_arrive(&sharing);
    ck_assert(cushim_mem_sharing_lead(&sharing, first, &batch, &busy_since_ns));
    sleep_one(&thread, be_covered, &second);
    atomic_store(&sharing.n_done, second); /* and the leader does not get to its wake */
    pthread_join(thread, NULL);
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 0);
}
END_TEST

int main(void) {
    return suite_run("sharing_sleep",
                     (const TTest *[]){who_sleeps_is_woken_where_the_leaders_wait_fails,
                                       who_sleeps_while_another_records_is_woken_to_go_on,
                                       who_sleeps_while_another_records_leads_when_that_one_waits,
                                       nobody_is_woken_where_nobody_sleeps,
                                       a_wake_that_is_missed_is_not_waited_for, NULL});
}
