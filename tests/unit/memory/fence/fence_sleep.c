/* Threads that sleep while another thread records or waits. Time-outs are off, so that only a wake
 * ends a sleep, or wakes are off. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/unit/fake/fake_cuda.h"
#include "tests/unit/futex_calls.h"
#include "tests/unit/memory/fence/fence_fixture.h"
#include "tests/unit/suite.h"

static pthread_t other;
static enum cushim_status status_of_other;
static CUresult answer_of_other;

static bool is_open(void) {
    return false;
}

static enum cushim_mem_pass enter(void) {
    return CUSHIM_MEM_PASS_RECORD;
}

static void leave(void) {
}

static const struct cushim_mem_capture_guard guard = {is_open, enter, leave};

static enum cushim_status wait_for(CUresult *answer) {
    fake_set_current(fake_context(0));
    return cushim_mem_fence_wait(fixture.fence, &fixture.stats, answer);
}

static void *wait_as_other(void *unused) {
    status_of_other = wait_for(&answer_of_other);
    return unused;
}

static uint64_t epochs_before = 1;

/* Wait for the epoch that was open before. */
static void *await_as_other(void *unused) {
    status_of_other =
        cushim_mem_fence_await(fixture.fence, cushim_mem_fence_tag(fixture.fence) - epochs_before,
                               0, &fixture.stats, &answer_of_other);
    return unused;
}

/* Another thread comes, finds this one busy, and sleeps. */
static void sleep_one(void *(*work)(void *)) {
    pthread_create(&other, NULL, work, NULL);
    while (!atomic_load(&fixture.fence->has_sleepers))
        sched_yield();
}

static void sleep_for_an_epoch(void) {
    sleep_one(await_as_other);
}

static void sleep_for_a_record(void) {
    sleep_one(wait_as_other);
}

/* The first thread submits and waits; another joins it in its first call of `name`. */
static enum cushim_status wait_together(unsigned n_submitted, const char *name,
                                        void (*deed)(void)) {
    fence_fixture_setup(NULL);
    fixture.fence->guard = &guard;
    atomic_store(&futex_has_timeouts, false);
    for (unsigned i = 0; i < n_submitted; i++)
        fake_submit(0);
    fence_fixture_when(name, deed);
    enum cushim_status status = wait_for(&fixture.answer);
    pthread_join(other, NULL);
    return status;
}

TEST(a_thread_that_sleeps_through_a_wait_is_woken_at_its_end) {
    ck_assert_int_eq(wait_together(1, "cuEventSynchronize", sleep_for_an_epoch), CUSHIM_OK);
    ck_assert_int_eq(status_of_other, CUSHIM_OK);
    ck_assert_uint_eq(fake_n_calls("cuEventSynchronize"), 1); /* one for both */
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 1);
    ck_assert_uint_eq(cushim_mem_stats_read(&fixture.stats.n_waits), 2);
}

static void sleep_then_fail(void) {
    sleep_for_an_epoch();
    fake_fail_at(1, CUDA_ERROR_ILLEGAL_ADDRESS); /* this call fails */
}

TEST(a_sleeper_is_woken_if_the_wait_fails) {
    ck_assert_int_eq(wait_together(1, "cuEventSynchronize", sleep_then_fail), CUSHIM_FAULT);
    ck_assert_int_eq(status_of_other, CUSHIM_OK); /* and it waited for itself */
    ck_assert_uint_eq(fake_n_calls("cuEventSynchronize"), 2);
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 1);
}

TEST(a_thread_that_sleeps_during_a_record_gets_its_record_from_that_thread) {
    ck_assert_int_eq(wait_together(0, "cuCtxRecordEvent", sleep_for_a_record), CUSHIM_OK);
    ck_assert_int_eq(status_of_other, CUSHIM_OK);
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), 2);
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 1);
}

/* The first thread's wait ends once the other has recorded. */
static void wait_for_record(const char *name) {
    while (strcmp(name, "cuEventSynchronize") == 0 && fake_n_calls("cuCtxRecordEvent") < 2)
        sched_yield();
}

static void sleep_then_look(void) {
    sleep_for_a_record();
    fake_on_call(wait_for_record);
}

TEST(a_thread_that_sleeps_during_a_record_records_once_the_other_waits) {
    ck_assert_int_eq(wait_together(1, "cuCtxRecordEvent", sleep_then_look), CUSHIM_OK);
    ck_assert_int_eq(status_of_other, CUSHIM_OK);
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), 2);
    ck_assert_uint_ge(atomic_load(&futex_n_wakes), 1);
}

/* The first of two pieces of work is over, the second is not; a thread comes that needs the
 * first. */
static void await_the_first(void) {
    fake_step(0);
    pthread_create(&other, NULL, await_as_other, NULL);
    pthread_join(other, NULL);
    ck_assert_uint_eq(fake_n_done(0), 1);
    pthread_create(&other, NULL, wait_as_other, NULL); /* for the thread that joins it */
}

/* No thread waits for the earlier record yet; one waits for the later record. */
TEST(a_thread_covered_by_an_earlier_record_does_not_wait_for_a_later_one) {
    CUresult answer;
    fence_fixture_setup(NULL);
    fixture.fence->guard = &guard;
    fake_submit(0);
    ck_assert_int_eq(cushim_mem_fence_start(fixture.fence, &answer), CUSHIM_OK);
    fake_submit(0);
    epochs_before = 2;
    fence_fixture_when("cuEventSynchronize", await_the_first);
    ck_assert_int_eq(wait_for(&fixture.answer), CUSHIM_OK);
    pthread_join(other, NULL);
    ck_assert_int_eq(status_of_other, CUSHIM_OK);
}

TEST(without_sleepers_no_wake_call_is_made) {
    fence_fixture_setup(NULL);
    fixture.fence->guard = &guard;
    fake_submit(0);
    ck_assert_int_eq(wait_for(&fixture.answer), CUSHIM_OK);
    ck_assert_int_eq(wait_for(&fixture.answer), CUSHIM_OK);
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 0);
}

/* The waiter never makes its wake call. */
static void sleep_then_be_done(void) {
    atomic_store(&futex_has_timeouts, true);
    sleep_for_an_epoch();
    cushim_mem_fence_complete(fixture.fence, cushim_mem_fence_tag(fixture.fence) - 1);
    pthread_join(other, NULL);
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 0);
    pthread_create(&other, NULL, wait_as_other, NULL); /* for the thread that joins it */
}

TEST(a_missed_wake_does_not_hang_a_sleeper) {
    ck_assert_int_eq(wait_together(1, "cuEventSynchronize", sleep_then_be_done), CUSHIM_OK);
    ck_assert_int_eq(status_of_other, CUSHIM_OK);
}

int main(void) {
    return tests_run("fence_sleep");
}
