#include "memory/fence/fence.h"

#include <string.h>

#include "cuda/table.h"
#include "tests/unit/fake/fake_cuda.h"
#include "tests/unit/memory/idle_events.h"
#include "tests/unit/suite.h"

enum { N_FENCES = 3 };

static struct cushim_cuda cuda;
static struct cushim_mem_fence fences[N_FENCES];
static struct cushim_mem_stats stats;
static enum cushim_mem_pass pass;
static int n_inside, n_records_outside, n_waits_inside;
static CUresult answer;
static bool is_capturing;
static bool is_over; /* completes all work, so that no synchronise blocks */

static bool is_open(void) {
    return pass != CUSHIM_MEM_PASS_RECORD;
}

static enum cushim_mem_pass enter(void) {
    n_inside += pass == CUSHIM_MEM_PASS_RECORD;
    return pass;
}

static void leave(void) {
    n_inside--;
}

static const struct cushim_mem_capture_guard guard = {is_open, enter, leave};

/* Notes which calls happen between enter and leave. */
static void watch(const char *name) {
    if (strcmp(name, "cuCtxRecordEvent") == 0)
        n_records_outside += n_inside != 1;
    if (strcmp(name, "cuEventSynchronize") == 0 || strcmp(name, "cuMemFree_v2") == 0)
        n_waits_inside += is_over ? 0 : n_inside;
}

static void setup(const char *without) {
    memset(fences, 0, sizeof fences);
    atomic_store(&cushim_mem_launches.latest, 0);
    is_over = false;
    fake_reset();
    fake_load(&cuda, without);
    fake_set_current(fake_context(0));
    for (unsigned i = 0; i < N_FENCES; i++)
        cushim_mem_fence_init(&fences[i], &cuda, fake_context(i), &guard);
    ck_assert_str_eq(fake_order(), "");
    pass = CUSHIM_MEM_PASS_RECORD;
    fake_on_call(watch);
}

static enum cushim_status wait_for(unsigned k) {
    fake_forget_order();
    enum cushim_status status = cushim_mem_fence_wait(&fences[k], &stats, &answer);
    ck_assert_int_eq(n_inside, 0);
    ck_assert_int_eq(n_records_outside, 0);
    ck_assert_int_eq(n_waits_inside, 0);
    ck_assert_uint_eq(fake_n_faults(), 0);
    ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    return status;
}

TEST(an_idle_context_costs_a_record_and_a_query) {
    setup(NULL);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_int_eq(answer, CUDA_SUCCESS);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK); /* the event is a spare now */
    ck_assert_str_eq(fake_order(), "cuCtxRecordEvent(0) cuEventQuery(0)");
    ck_assert_uint_eq(cushim_mem_stats_read(&stats.n_waits), 0);
}

TEST(a_busy_context_is_polled_then_slept_on_until_it_is_done) {
    setup(NULL);
    fake_submit(0);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuEventQuery(0) cuEventSynchronize(0)"));
    ck_assert_uint_eq(cushim_mem_stats_read(&stats.n_waits), 1);
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), 1);
}

static void finish_while_polled(const char *name) {
    watch(name);
    if (strcmp(name, "cuEventQuery") == 0 && fake_n_calls("cuEventQuery") == 3)
        fake_finish(0);
}

/* A query does not flush what kernels printed; a synchronise does, and so does the driver's
 * free. */
TEST(a_wait_that_polling_ends_synchronises_too) {
    setup(NULL);
    fake_submit(0);
    fake_on_call(finish_while_polled);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_uint_lt(fake_n_calls("cuEventQuery"), 6);
    ck_assert_uint_eq(fake_n_calls("cuEventSynchronize"), 1);
}

/* One synchronise is enough, for completed work too; launches in any context count. */
TEST(after_a_launch_the_next_wait_of_each_context_flushes_printf) {
    setup(NULL);
    wait_for(0);
    wait_for(1); /* both contexts have a spare event now */
    is_over = true;
    cushim_mem_launches_note();
    cushim_mem_launches_note();
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_str_eq(fake_order(), "cuCtxRecordEvent(0) cuEventQuery(0) cuEventSynchronize(0)");
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_str_eq(fake_order(), "cuCtxRecordEvent(0) cuEventQuery(0)");
    ck_assert_int_eq(wait_for(1), CUSHIM_OK);
    ck_assert_str_eq(fake_order(), "cuCtxRecordEvent(1) cuEventQuery(1) cuEventSynchronize(1)");
    cushim_mem_launches_note();
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_str_eq(fake_order(), "cuCtxRecordEvent(0) cuEventQuery(0) cuEventSynchronize(0)");
    ck_assert_uint_eq(cushim_mem_stats_read(&stats.n_waits), 0);
    ck_assert_int_eq(wait_for(1), CUSHIM_OK);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuEventSynchronize(1)"));
}

TEST(a_wait_that_blocks_has_flushed_printf) {
    setup(NULL);
    cushim_mem_launches_note();
    fake_submit(0);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuEventQuery(0) cuEventSynchronize(0)"));
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_str_eq(fake_order(), "cuCtxRecordEvent(0) cuEventQuery(0)");
}

TEST(the_wait_after_a_failed_one_flushes_printf) {
    setup(NULL);
    wait_for(0);
    is_over = true;
    cushim_mem_launches_note();
    fake_fail_at(3, CUDA_ERROR_UNKNOWN);
    ck_assert_int_ne(wait_for(0), CUSHIM_OK);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuEventSynchronize(0)"));
}

TEST(the_event_blocks_the_way_the_context_does) {
    setup(NULL);
    wait_for(0);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuEventCreate(2)")); /* no timing */
    fake_set_flags(0, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST);
    cushim_mem_fence_abandon(&fences[0]);
    cushim_mem_fence_init(&fences[0], &cuda, fake_context(0), &guard);
    wait_for(0);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuEventCreate(3)")); /* blocking too */
}

TEST(the_event_is_created_and_recorded_in_its_own_context) {
    setup(NULL);
    fake_set_current(fake_context(1));
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_ptr_eq(fake_current(), fake_context(1));
    fake_set_current(NULL);
    ck_assert_int_eq(wait_for(2), CUSHIM_OK);
    ck_assert_uint_eq(fake_depth(), 0);
}

TEST(an_open_capture_gets_the_barrier_and_no_record) {
    setup(NULL);
    for (unsigned i = 0; i < 2; i++) {
        pass = i ? CUSHIM_MEM_PASS_OWN : CUSHIM_MEM_PASS_RELAXED;
        fake_submit(0);
        ck_assert_int_eq(wait_for(0), CUSHIM_OK);
        ck_assert_str_eq(fake_order(), "cuMemAlloc_v2(1) cuMemFree_v2(1)");
    }
    ck_assert_uint_eq(fake_n_allocations(), 0);
}

TEST(the_barrier_leaves_the_capture_of_another_thread_valid) {
    setup(NULL);
    pass = CUSHIM_MEM_PASS_RELAXED;
    fake_capture(0, true);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_uint_eq(fake_n_invalidated(), 0);
}

TEST(the_callers_own_capture_fails_as_it_does_under_the_driver) {
    setup(NULL);
    pass = CUSHIM_MEM_PASS_OWN;
    fake_capture(0, true);
    ck_assert_int_eq(wait_for(0), CUSHIM_CAPTURE);
    ck_assert_int_eq(answer, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ck_assert_uint_eq(fake_n_invalidated(), 1);
    ck_assert_uint_eq(fake_n_allocations(), 0);
}

TEST(a_barrier_without_memory_waits_for_nothing_and_says_so) {
    setup(NULL);
    pass = CUSHIM_MEM_PASS_RELAXED;
    fake_limit(0);
    ck_assert_int_eq(wait_for(0), CUSHIM_NOMEM);
    ck_assert_int_eq(answer, CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_ptr_null(strstr(fake_order(), "cuMemFree_v2"));
}

TEST(a_capture_that_was_not_announced_gets_the_barrier) {
    setup(NULL);
    fake_fail_always("cuCtxRecordEvent", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuMemAlloc_v2(1) cuMemFree_v2(1)"));
}

/* A capture of another context begins as soon as the capture guard allows it. */
static void begin_capture(const char *name) {
    watch(name);
    if (!n_inside && !is_capturing && strcmp(name, "cuEventQuery") == 0) {
        is_capturing = true;
        fake_capture(1, true);
    }
}

TEST(a_capture_that_begins_after_the_record_stays_valid) {
    setup(NULL);
    fake_submit(0);
    fake_on_call(begin_capture);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert(is_capturing);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuEventSynchronize(0)"));
    ck_assert_uint_eq(fake_n_invalidated(), 0);
}

/* Another thread asks during each of the first n_to_come records, and what happens then. */
static unsigned n_come, n_to_come;
static enum { NOTHING, BECOMES_BUSY, CAPTURE_OPENS } then;

static void come_during_records(const char *name) {
    watch(name);
    if (strcmp(name, "cuCtxRecordEvent") != 0)
        return;
    if (n_come == n_to_come && then == BECOMES_BUSY)
        fake_submit(0);
    if (n_come == n_to_come)
        return;
    n_come++;
    atomic_store(&fences[0].wanted, cushim_mem_fence_tag(&fences[0]));
    if (then == CAPTURE_OPENS)
        pass = CUSHIM_MEM_PASS_RELAXED;
}

static void wait_while_others_come(unsigned n) {
    setup(NULL);
    n_come = 0;
    n_to_come = n;
    fake_on_call(come_during_records);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert(!atomic_load(&fences[0].is_recording)); /* the next thread may record */
    ck_assert_uint_eq(cushim_mem_stats_read(&stats.n_waits), 0);
}

TEST(a_thread_that_asks_during_a_record_gets_one_from_the_same_recorder) {
    then = NOTHING;
    wait_while_others_come(3);
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), 4);
    ck_assert_uint_eq(cushim_mem_fence_done(&fences[0]), 4);
}

TEST(a_recorder_does_not_record_for_others_for_ever) {
    then = NOTHING;
    wait_while_others_come(1000);
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), 16);
    /* the next thread records for itself */
    ck_assert_uint_eq(cushim_mem_fence_done(&fences[0]), 16);
}

TEST(a_recorder_does_not_wait_for_the_work_of_others) {
    then = BECOMES_BUSY; /* before the second record */
    wait_while_others_come(1);
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), 2);
    ck_assert_uint_eq(fake_n_calls("cuEventSynchronize"), 0);
    ck_assert_uint_eq(cushim_mem_fence_done(&fences[0]), 1);
}

TEST(a_recorder_stops_recording_for_others_when_a_capture_opens) {
    then = CAPTURE_OPENS;
    wait_while_others_come(1);
    ck_assert_str_eq(fake_order(), "cuEventCreate(2) cuCtxRecordEvent(0) cuEventQuery(0)");
    ck_assert_uint_eq(cushim_mem_fence_done(&fences[0]), 1);
}

TEST(other_contexts_are_neither_recorded_nor_waited_for) {
    setup(NULL);
    fake_submit(1);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_ptr_null(strstr(fake_order(), "(1)"));
    ck_assert_uint_eq(fake_n_done(1), 0);
}

TEST(without_context_events_each_wait_is_the_drivers_barrier) {
    setup("cuCtxRecordEvent");
    for (unsigned i = 0; i < 2; i++) {
        fake_submit(0);
        fake_capture(1, i == 1); /* the other thread's capture stays valid */
        pass = i ? CUSHIM_MEM_PASS_RELAXED : CUSHIM_MEM_PASS_RECORD;
        ck_assert_int_eq(wait_for(0), CUSHIM_OK);
        ck_assert_str_eq(fake_order(), "cuMemAlloc_v2(1) cuMemFree_v2(1)");
        ck_assert_uint_eq(fake_n_invalidated(), 0);
        ck_assert_ptr_eq(fake_current(), fake_context(0));
    }
    pass = CUSHIM_MEM_PASS_OWN;
    fake_capture(0, true);
    ck_assert_int_eq(wait_for(0), CUSHIM_CAPTURE);
    fake_capture(0, false);
    pass = CUSHIM_MEM_PASS_RECORD;
    fake_limit(0);
    ck_assert_int_eq(wait_for(0), CUSHIM_NOMEM);
}

TEST(each_failed_call_returns_its_own_code_and_loses_no_event) {
    for (unsigned n = 1;; n++) {
        setup(NULL);
        fake_set_current(fake_context(1));
        fake_submit(0);
        fake_fail_at(n, CUDA_ERROR_ILLEGAL_ADDRESS);
        enum cushim_status status = wait_for(0);
        ck_assert_uint_eq(fake_n_events(),
                          n_idle_events(&fences[0]) + cushim_mem_fence_is_in_flight(&fences[0]));
        if (!fake_has_failed()) {
            ck_assert_int_eq(status, CUSHIM_OK);
            break;
        }
        ck_assert_int_eq(status, CUSHIM_FAULT);
        ck_assert_int_eq(answer, CUDA_ERROR_ILLEGAL_ADDRESS);
        ck_assert_ptr_eq(fake_current(), fake_context(1));
        ck_assert_uint_eq(fake_depth(), 1);
    }
}

TEST(an_abandoned_fence_forgets_its_events_and_waits_for_nothing) {
    setup(NULL);
    wait_for(0);
    fake_lose_all();
    cushim_mem_fence_abandon(&fences[0]);
    ck_assert_uint_eq(n_idle_events(&fences[0]), 0);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_str_eq(fake_order(), "");
    cushim_mem_fence_init(&fences[0], &cuda, fake_context(0), &guard);
    ck_assert_int_eq(wait_for(0), CUSHIM_OK);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuCtxRecordEvent(0)"));
}

TEST(an_event_that_returns_after_its_context_is_gone_is_not_reused) {
    struct cushim_mem_record record = {0};
    setup(NULL);
    ck_assert_int_eq(cushim_mem_record_make(&record, &fences[0], NULL), CUDA_SUCCESS);
    fake_lose_all();
    cushim_mem_fence_abandon(&fences[0]);
    cushim_mem_record_release(&record);
    ck_assert_uint_eq(n_idle_events(&fences[0]), 0);
}

/* With 16 threads a pair took 1.4 times as long when they shared a line. */
TEST(fields_that_different_threads_write_are_in_different_cache_lines) {
    const size_t places[] = {
        offsetof(struct cushim_mem_fence, open),         offsetof(struct cushim_mem_fence, done),
        offsetof(struct cushim_mem_fence, effect),       offsetof(struct cushim_mem_fence, wanted),
        offsetof(struct cushim_mem_fence, is_recording), offsetof(struct cushim_mem_fence, idle)};
    for (size_t i = 1; i < sizeof places / sizeof *places; i++)
        ck_assert_uint_ge(places[i] - places[i - 1], CUSHIM_MEM_LINE_BYTES);
}

SUITE() {
    return tests_run("fence");
}
