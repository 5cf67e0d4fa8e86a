#include "tests/unit/fake/fake_cuda.h"
#include "tests/unit/memory/fence/fence_fixture.h"
#include "tests/unit/memory/idle_events.h"
#include "tests/unit/suite.h"

TEST(an_epoch_is_done_once_the_work_before_its_frees_is) {
    fence_fixture_setup(NULL);
    uint64_t tag = fence_fixture_free(0);
    ck_assert_uint_gt(tag, 0);
    ck_assert(!fence_fixture_is_done(tag)); /* nothing was recorded */
    ck_assert_uint_eq(fake_n_calls("cuEventQuery"), 0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    ck_assert(!fence_fixture_is_done(tag));
    uint64_t later = fence_fixture_free(0);
    fake_step(0);
    ck_assert(fence_fixture_is_done(tag));
    ck_assert(!fence_fixture_is_done(later));
    fence_fixture_finish();
}

static uint64_t tag_inside;

static void free_inside(void) {
    tag_inside = cushim_mem_fence_tag(fixture.fence);
}

TEST(a_free_during_a_record_belongs_to_the_next_epoch) {
    fence_fixture_setup(NULL);
    uint64_t tag = fence_fixture_free(0);
    /* its work is submitted after the record */
    fence_fixture_when("cuCtxRecordEvent", free_inside);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    fake_finish(0);
    ck_assert(fence_fixture_is_done(tag));
    ck_assert(!fence_fixture_is_done(tag_inside));
    fence_fixture_finish();
}

static void poll_inside(void) {
    ck_assert(!fence_fixture_is_done(1));
    ck_assert(!cushim_mem_fence_is_in_flight(fixture.fence));
}

TEST(a_poll_does_not_see_a_row_before_its_record) {
    fence_fixture_setup(NULL);
    ck_assert_uint_eq(fence_fixture_free(0), 1);
    fence_fixture_when("cuCtxRecordEvent",
                       poll_inside); /* a query of an event that was never recorded says complete */
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    ck_assert_ptr_null(fixture.moment);
    ck_assert(!fence_fixture_is_done(1));
    fence_fixture_finish();
}

static void start_inside(void) {
    /* as another thread would: the record under way does not cover what it freed meanwhile */
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_NOTREADY);
    ck_assert_int_eq(fixture.answer, CUDA_SUCCESS);
}

TEST(one_thread_records_and_the_others_go_on) {
    fence_fixture_setup(NULL);
    fence_fixture_when("cuCtxRecordEvent", start_inside);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), 1);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK); /* the next record works */
    fence_fixture_finish();
}

TEST(a_failed_record_leaves_its_epoch_to_a_later_one) {
    fence_fixture_setup(NULL);
    uint64_t tag = fence_fixture_free(0);
    fake_fail_always("cuCtxRecordEvent", CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_FAULT);
    ck_assert_int_eq(fixture.answer, CUDA_ERROR_ILLEGAL_ADDRESS);
    fake_fail_always(NULL, CUDA_SUCCESS);
    fake_finish(0);
    ck_assert(!fence_fixture_is_done(tag)); /* no record was asked for */
    ck_assert_uint_gt(cushim_mem_fence_tag(fixture.fence), tag);
    fake_submit(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    ck_assert(!fence_fixture_is_done(tag));
    fake_finish(0);
    ck_assert(fence_fixture_is_done(tag));
    ck_assert_uint_eq(fake_n_events(), n_idle_events(fixture.fence));
    fence_fixture_finish();
}

TEST(the_longest_finished_prefix_of_the_epochs_in_flight_is_done) {
    uint64_t tags[4];
    fence_fixture_setup(NULL);
    for (unsigned i = 0; i < 4; i++) {
        tags[i] = fence_fixture_free(0);
        ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    }
    fake_step(0);
    fake_step(0);
    fake_step(0);
    ck_assert(fence_fixture_is_done(tags[2]));
    ck_assert(!fence_fixture_is_done(tags[3]));
    fake_finish(0);
    ck_assert(fence_fixture_is_done(tags[3]));
    ck_assert_uint_eq(n_idle_events(fixture.fence), 4);
    fence_fixture_finish();
}

TEST(a_full_ring_polls_and_then_makes_no_record) {
    fence_fixture_setup(NULL);
    for (unsigned i = 0; i < CUSHIM_MEM_EPOCH_ROWS; i++) {
        fence_fixture_free(0);
        ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    }
    uint64_t tag = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_NOTREADY);
    ck_assert_int_eq(fixture.answer, CUDA_SUCCESS);
    ck_assert_uint_eq(cushim_mem_fence_tag(fixture.fence), tag); /* the epoch stays open */
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), CUSHIM_MEM_EPOCH_ROWS);
    fake_step(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    ck_assert_uint_eq(fake_n_events(), CUSHIM_MEM_EPOCH_ROWS);
    fence_fixture_finish();
}

TEST(while_a_capture_is_open_epochs_are_polled_but_not_recorded) {
    fence_fixture_setup(NULL);
    uint64_t tag = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    fake_capture(0, true);
    fixture.pass = CUSHIM_MEM_PASS_RELAXED;
    fake_finish(0);
    ck_assert(fence_fixture_is_done(tag));
    uint64_t later = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_NOTREADY);
    ck_assert_int_eq(fixture.answer, CUDA_SUCCESS);
    fake_finish(0);
    ck_assert(!fence_fixture_is_done(later));
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), 1);
    fence_fixture_finish();
}

TEST(a_capture_that_was_not_announced_is_no_damage) {
    fence_fixture_setup(NULL);
    fake_fail_always("cuCtxRecordEvent", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_NOTREADY);
    ck_assert_int_eq(fixture.answer, CUDA_SUCCESS);
    fence_fixture_finish();
}

TEST(a_synchronise_completes_frees_from_before_it_began) {
    fence_fixture_setup(NULL);
    uint64_t before = fence_fixture_free(0);
    uint64_t epoch = cushim_mem_fence_synchronise(fixture.fence);
    uint64_t during = fence_fixture_free(1);
    fake_finish(0);
    ck_assert_uint_lt(cushim_mem_fence_done(fixture.fence), before); /* it may fail */
    cushim_mem_fence_complete(fixture.fence, epoch);
    ck_assert_uint_ge(cushim_mem_fence_done(fixture.fence), before);
    ck_assert_uint_lt(cushim_mem_fence_done(fixture.fence), during);
    ck_assert_str_eq(fake_order(), "");
    fence_fixture_finish();
}

/* Otherwise it would stay in flight until the next record, and no thread records while one is in
 * flight. */
TEST(a_row_that_a_synchronise_covers_leaves_flight) {
    fence_fixture_setup(NULL);
    uint64_t before = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    uint64_t epoch = cushim_mem_fence_synchronise(fixture.fence);
    fake_finish(0);
    cushim_mem_fence_complete(fixture.fence, epoch);
    unsigned n_queries = fake_n_calls("cuEventQuery");
    ck_assert(fence_fixture_is_done(before));
    ck_assert_uint_eq(fake_n_calls("cuEventQuery"), n_queries);
    ck_assert(!cushim_mem_fence_is_in_flight(fixture.fence));
    ck_assert_uint_eq(n_idle_events(fixture.fence), 1);
    fence_fixture_finish();
}

TEST(without_context_events_a_synchronise_completes_nothing) {
    fence_fixture_setup("cuCtxRecordEvent");
    uint64_t tag = fence_fixture_free(0);
    cushim_mem_fence_complete(fixture.fence, cushim_mem_fence_synchronise(fixture.fence));
    ck_assert_uint_lt(cushim_mem_fence_done(fixture.fence), tag);
    ck_assert_str_eq(fake_order(), "");
    fence_fixture_finish();
}

TEST(a_synchronise_keeps_what_a_record_proved_meanwhile) {
    fence_fixture_setup(NULL);
    fence_fixture_free(0);
    uint64_t epoch = cushim_mem_fence_synchronise(fixture.fence);
    uint64_t later = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    fake_finish(0);
    ck_assert(fence_fixture_is_done(later));
    cushim_mem_fence_complete(fixture.fence, epoch);
    ck_assert_uint_ge(cushim_mem_fence_done(fixture.fence), later);
    fence_fixture_finish();
}

TEST(rows_that_the_barrier_completed_need_no_query_and_their_events_are_reused) {
    fence_fixture_setup(NULL);
    for (unsigned i = 0; i < 3 * CUSHIM_MEM_EPOCH_ROWS; i++) {
        uint64_t tag = fence_fixture_free(0);
        ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
        fixture.pass = CUSHIM_MEM_PASS_RELAXED;
        ck_assert_int_eq(fence_fixture_await(cushim_mem_fence_tag(fixture.fence), 0), CUSHIM_OK);
        fixture.pass = CUSHIM_MEM_PASS_RECORD;
        ck_assert_uint_ge(cushim_mem_fence_done(fixture.fence), tag);
    }
    ck_assert_uint_le(fake_n_events(), 2);
    fence_fixture_finish();
}

static void lose_inside(void) {
    fake_lose_events(0);
    fake_fail_always("cuEventSynchronize", CUDA_ERROR_CONTEXT_IS_DESTROYED);
    cushim_mem_fence_abandon(fixture.fence);
}

TEST(the_end_of_the_context_ends_a_wait) {
    fence_fixture_setup(NULL);
    uint64_t tag = fence_fixture_free(0);
    fence_fixture_when("cuEventSynchronize", lose_inside);
    ck_assert_int_eq(fence_fixture_await(tag, 0), CUSHIM_OK);
    ck_assert(fence_fixture_is_done(tag));
    ck_assert_uint_eq(n_idle_events(fixture.fence), 0);
    fence_fixture_finish();
}

TEST(an_abandoned_fence_has_all_epochs_done_and_goes_on) {
    fence_fixture_setup(NULL);
    uint64_t tag = fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    fake_lose_events(0);
    cushim_mem_fence_abandon(fixture.fence);
    ck_assert(fence_fixture_is_done(tag));
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK); /* nothing is left to record */
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), 1);
    cushim_mem_fence_init(fixture.fence, fixture.cuda, fake_context(0), fixture.fence->guard);
    ck_assert_uint_ne(cushim_mem_fence_effect(fixture.fence), 0);
    uint64_t later = fence_fixture_free(0);
    ck_assert(!fence_fixture_is_done(later));
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    ck_assert(!fence_fixture_is_done(later));
    fake_finish(0);
    ck_assert(fence_fixture_is_done(later));
    ck_assert_uint_eq(fake_n_events(), n_idle_events(fixture.fence));
    fence_fixture_finish();
}

static void wait_inside(void) {
    ck_assert_int_eq(fence_fixture_await(1, 0),
                     CUSHIM_OK); /* as another thread would, after the poller */
    ck_assert_uint_ge(cushim_mem_fence_done(fixture.fence), 1);
    ck_assert_uint_eq(n_idle_events(fixture.fence), 0);
}

TEST(no_event_is_reused_while_a_thread_queries_it) {
    fence_fixture_setup(NULL);
    fence_fixture_free(0);
    ck_assert_int_eq(fence_fixture_start(), CUSHIM_OK);
    fence_fixture_when("cuEventQuery", wait_inside);
    ck_assert(fence_fixture_is_done(1));
    ck_assert_ptr_null(fixture.moment);
    ck_assert_uint_eq(n_idle_events(fixture.fence), 1);
    fence_fixture_finish();
}

SUITE() {
    return tests_run("fence_epochs");
}
