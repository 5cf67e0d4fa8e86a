#include <string.h>

#include "base/clock.h"
#include "tests/unit/fake/fake_cuda.h"
#include "tests/unit/memory/fence/fence_fixture.h"
#include "tests/unit/memory/idle_events.h"
#include "tests/unit/suite.h"

TEST(a_wait_for_an_epoch_that_is_done_or_idle_is_cheap) {
    fence_fixture_setup(NULL);
    ck_assert_int_eq(fence_fixture_await(1, 0), CUSHIM_OK); /* creates the event */
    fake_forget_order();
    ck_assert_int_eq(fence_fixture_await(1, 0), CUSHIM_OK);
    ck_assert_str_eq(fake_order(), "");
    ck_assert_int_eq(fence_fixture_await(2, 0), CUSHIM_OK);
    ck_assert_str_eq(fake_order(), "cuCtxRecordEvent(0) cuEventQuery(0)");
    ck_assert_uint_eq(cushim_mem_stats_read(&fixture.stats.n_waits), 0);
    fence_fixture_finish();
}

TEST(with_a_record_a_wait_does_not_cover_later_work) {
    fence_fixture_setup(NULL);
    uint64_t tag = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    fake_submit(0);
    ck_assert_int_eq(fence_fixture_await(tag, 0), CUSHIM_OK);
    ck_assert_uint_eq(fake_n_done(0), 1);
    ck_assert_uint_eq(fake_n_calls("cuEventSynchronize"), 1);
    ck_assert_uint_eq(cushim_mem_stats_read(&fixture.stats.n_waits), 1);
    fence_fixture_finish();
}

TEST(a_deadline_is_kept_and_nothing_sleeps_on_the_device) {
    fence_fixture_setup(NULL);
    uint64_t tag = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_await(tag, 1), CUSHIM_TIMEOUT); /* long past */
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    ck_assert_int_eq(fence_fixture_await(tag, cushim_clock_ns() + 1000000), CUSHIM_TIMEOUT);
    ck_assert_int_eq(fixture.answer, CUDA_SUCCESS);
    ck_assert_uint_eq(fake_n_calls("cuEventSynchronize"), 0);
    ck_assert_uint_eq(fake_n_done(0), 0);
    fence_fixture_finish();
}

static unsigned n_queries;

static void finish_at_the_300th_query(const char *name) {
    if (strcmp(name, "cuEventQuery") == 0 && ++n_queries == 300)
        fake_finish(0);
}

TEST(work_that_ends_before_the_deadline_is_noticed) {
    fence_fixture_setup(NULL);
    uint64_t tag = fence_fixture_free(0);
    fake_on_call(finish_at_the_300th_query);
    ck_assert_int_eq(fence_fixture_await(tag, cushim_clock_ns() + (uint64_t)60000000000),
                     CUSHIM_OK);
    ck_assert_uint_eq(fake_n_calls("cuEventSynchronize"), 0);
    fence_fixture_finish();
}

TEST(while_a_capture_is_open_a_wait_is_the_drivers_barrier) {
    fence_fixture_setup(NULL);
    fake_capture(0, true);
    fixture.pass = CUSHIM_MEM_PASS_RELAXED;
    uint64_t tag = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_await(tag, cushim_clock_ns() + 1000000), CUSHIM_TIMEOUT);
    ck_assert_uint_eq(fake_n_calls("cuMemFree_v2"), 0); /* the driver's barrier has no deadline */
    ck_assert_int_eq(fence_fixture_await(tag, 0), CUSHIM_OK);
    ck_assert_uint_eq(fake_n_calls("cuMemFree_v2"), 1);
    ck_assert_uint_eq(fake_n_done(0), 1);
    ck_assert(fence_fixture_is_done(tag));
    ck_assert(!fence_fixture_is_done(fence_fixture_free(0)));
    fake_limit(0);
    ck_assert_int_eq(fence_fixture_await(cushim_mem_fence_tag(fixture.fence), 0), CUSHIM_NOMEM);
    ck_assert(!fence_fixture_is_done(tag + 1));
    fence_fixture_finish();
}

TEST(a_record_made_before_a_capture_is_waited_for_during_it) {
    fence_fixture_setup(NULL);
    uint64_t tag = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    fake_capture(0, true);
    fixture.pass = CUSHIM_MEM_PASS_OWN;
    ck_assert_int_eq(fence_fixture_await(tag, 0), CUSHIM_OK);
    ck_assert_uint_eq(fake_n_calls("cuMemFree_v2"), 0);
    fence_fixture_finish();
}

TEST(the_callers_own_capture_refuses_a_wait_as_the_driver_does) {
    fence_fixture_setup(NULL);
    uint64_t tag = fence_fixture_free(0);
    fake_capture(0, true);
    fixture.pass = CUSHIM_MEM_PASS_OWN;
    ck_assert_int_eq(fence_fixture_await(tag, 0), CUSHIM_CAPTURE);
    ck_assert_int_eq(fixture.answer, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ck_assert(!fence_fixture_is_done(tag));
    ck_assert_uint_eq(fake_n_invalidated(), 1);
}

TEST(without_context_events_a_wait_is_the_drivers_barrier) {
    fence_fixture_setup("cuCtxRecordEvent");
    uint64_t tag = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_NOTREADY);
    ck_assert(!fence_fixture_is_done(tag));
    ck_assert_str_eq(fake_order(), "");
    ck_assert_int_eq(fence_fixture_await(tag, cushim_clock_ns() + 1000000000), CUSHIM_TIMEOUT);
    ck_assert_str_eq(fake_order(), ""); /* the barrier has no deadline */
    ck_assert_int_eq(fence_fixture_await(tag, 0), CUSHIM_OK);
    ck_assert_str_eq(fake_order(), "cuMemAlloc_v2(1) cuMemFree_v2(1)");
    ck_assert(fence_fixture_is_done(tag));
    ck_assert(!fence_fixture_is_done(fence_fixture_free(0)));
    fixture.pass = CUSHIM_MEM_PASS_RELAXED;
    ck_assert_int_eq(fence_fixture_await(cushim_mem_fence_tag(fixture.fence), 0), CUSHIM_OK);
    ck_assert_uint_eq(fake_n_calls("cuMemFree_v2"), 2);
    fixture.pass = CUSHIM_MEM_PASS_OWN;
    fake_capture(0, true);
    ck_assert_int_eq(fence_fixture_await(cushim_mem_fence_tag(fixture.fence), 0), CUSHIM_CAPTURE);
    ck_assert_uint_eq(fake_n_invalidated(), 1);
}

TEST(with_all_records_in_flight_a_wait_is_the_drivers_barrier) {
    fence_fixture_setup(NULL);
    for (unsigned i = 0; i < CUSHIM_MEM_EPOCH_ROWS; i++) {
        fence_fixture_free(0);
        ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    }
    uint64_t tag = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_await(tag, cushim_clock_ns() + 1000000), CUSHIM_TIMEOUT);
    ck_assert_uint_eq(fake_n_calls("cuMemFree_v2"), 0);
    ck_assert_int_eq(fence_fixture_await(tag, 0), CUSHIM_OK);
    ck_assert_uint_eq(fake_n_calls("cuMemFree_v2"), 1);
    ck_assert(fence_fixture_is_done(tag));
    fence_fixture_finish();
}

TEST(the_first_free_waits_and_later_ones_only_for_effects_since) {
    fence_fixture_setup(NULL);
    uint64_t effect = cushim_mem_fence_effect(fixture.fence);
    ck_assert_uint_ne(effect, 0); /* submitted before the fence existed */
    ck_assert_int_eq(fence_fixture_await(effect, 0), CUSHIM_OK);
    ck_assert_uint_eq(cushim_mem_fence_effect(fixture.fence), 0);
    fake_submit(0);
    cushim_mem_fence_note_effect(fixture.fence);
    effect = cushim_mem_fence_effect(fixture.fence);
    ck_assert_uint_eq(effect, cushim_mem_fence_tag(fixture.fence));
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    ck_assert_uint_eq(cushim_mem_fence_effect(fixture.fence), effect);
    fake_finish(0);
    ck_assert(fence_fixture_is_done(effect));
    ck_assert_uint_eq(cushim_mem_fence_effect(fixture.fence), 0);
    fence_fixture_finish();
}

TEST(each_failed_call_returns_its_own_code_and_loses_no_event) {
    for (unsigned n = 1;; n++) {
        fence_fixture_setup(NULL);
        uint64_t tag = fence_fixture_free(0);
        fake_fail_at(n, CUDA_ERROR_ILLEGAL_ADDRESS);
        enum cushim_status status = fence_fixture_start();
        if (status == CUSHIM_OK)
            status = fence_fixture_await(tag, 0);
        if (fake_has_failed()) {
            ck_assert_int_eq(status, CUSHIM_FAULT);
            ck_assert_int_eq(fixture.answer, CUDA_ERROR_ILLEGAL_ADDRESS);
            ck_assert_uint_lt(cushim_mem_fence_done(fixture.fence), tag);
            ck_assert_int_eq(fence_fixture_await(tag, 0), CUSHIM_OK); /* the next wait works */
        }
        ck_assert_int_eq(fixture.answer, CUDA_SUCCESS);
        ck_assert_uint_ge(cushim_mem_fence_done(fixture.fence), tag);
        ck_assert_uint_eq(fake_n_events(), n_idle_events(fixture.fence));
        fence_fixture_finish();
        if (!fake_has_failed())
            break;
    }
}

SUITE() {
    return tests_run("fence_await");
}
