/* Events: what the library knows of a record without asking the driver. */
#include "cushim/event.h"

#include "cushim/stream.h"
#include "tests/unit/companion/core/call_fixture.h"
#include "tests/unit/suite.h"

static struct cushim_event *create(unsigned flags) {
    struct cushim_event *e;
    ck_ok(cushim_event_create(NULL, flags, &e));
    return e;
}

static struct cushim_stream *stream(struct cushim_context *ctx, struct CUstream_st **cu) {
    struct cushim_stream *s;
    ck_ok(cushim_stream_create(ctx, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &s));
    ck_ok(cushim_stream_handle(s, cu));
    return s;
}

TEST(destroy_accepts_null_and_refuses_other_objects) {
    struct cushim_event *e = create(0);
    ck_ok(cushim_event_destroy(NULL));
    ck_ok(cushim_event_destroy(e));
    ck_is(cushim_event_destroy(e), CUSHIM_BADHANDLE);
    ck_is(cushim_event_destroy((struct cushim_event *)0x1234), CUSHIM_BADHANDLE);
    ck_is(cushim_event_destroy((struct cushim_event *)primary(0)), CUSHIM_BADHANDLE);
    ck_assert_uint_eq(n_calls("cuEventDestroy_v2"), 1);
}

TEST(arguments_are_checked_without_a_driver_call) {
    struct cushim_event *e = create(0), *made = e;
    float ms = 5;
    char handle[64];
    ck_is(cushim_event_create(NULL, 4, &made), CUSHIM_INVALID);
    ck_assert_ptr_null(made);
    ck_is(cushim_event_create(NULL, 8, &made), CUSHIM_INVALID);
    ck_assert_uint_eq(n_calls("cuEventCreate"), 1);
    ck_is(cushim_event_create(NULL, 0, NULL), CUSHIM_INVALID);
    ck_is(cushim_event_wrap(NULL, NULL, &made), CUSHIM_INVALID);
    ck_is(cushim_event_query(e, NULL), CUSHIM_INVALID);
    ck_is(cushim_event_handle(e, NULL), CUSHIM_INVALID);
    ck_is(cushim_event_elapsed(e, NULL, &ms), CUSHIM_INVALID);
    ck_assert(ms == 0);
    ck_is(cushim_event_elapsed(e, (struct cushim_event *)0x1234, &ms), CUSHIM_BADHANDLE);
    ck_is(cushim_event_elapsed(e, e, NULL), CUSHIM_INVALID);
    ck_is(cushim_event_record(e, (struct cushim_stream *)0x1234), CUSHIM_BADHANDLE);
    ck_is(cushim_event_record(NULL, NULL), CUSHIM_INVALID);
    ck_is(cushim_event_ipc_get(e, NULL), CUSHIM_INVALID);
    ck_is(cushim_event_ipc_open(NULL, NULL, &made), CUSHIM_INVALID);
    memset(handle, 7, sizeof handle);
    ck_is(cushim_event_ipc_get(e, handle), CUSHIM_BADHANDLE); /* not created for other processes */
    ck_assert_int_eq(handle[63], 0);
}

TEST(a_refused_creation_leaves_no_event_behind) {
    struct cushim_event *e = NULL;
    primary(0);
    for (unsigned n = 1;; n++) {
        fail_at(n);
        enum cushim_status status = cushim_event_create(NULL, 0, &e);
        bool is_over = fail_is_over(status);
        if (status == CUSHIM_OK)
            ck_ok(cushim_event_destroy(e));
        else
            ck_assert_ptr_null(e);
        if (is_over)
            break;
    }
}

TEST(a_stream_does_not_wait_for_an_event_that_was_never_recorded) {
    struct CUstream_st *cu;
    struct cushim_event *e = create(0);
    struct cushim_stream *s = stream(NULL, &cu);
    ck_ok(cushim_stream_wait_event(s, e));
    ck_assert_uint_eq(n_calls("cuStreamWaitEvent"), 0);
    ck_ok(cushim_event_record(e, s));
    ck_ok(cushim_stream_wait_event(s, e));
    ck_assert_uint_eq(n_calls("cuStreamWaitEvent"), 1);
}

TEST(a_failed_record_changes_nothing) {
    struct CUstream_st *cu;
    struct cushim_stream *s = stream(NULL, &cu);
    for (unsigned n = 1;; n++) {
        struct cushim_event *e = create(0);
        fail_at(n);
        enum cushim_status status = cushim_event_record(e, s);
        if (fail_is_over(status))
            break;
        SIM(sim_calls_reset)();
        if (status != CUSHIM_OK) {
            ck_ok(cushim_stream_wait_event(s, e));
            ck_assert_uint_eq(n_calls("cuStreamWaitEvent"), 0);
        }
    }
}

TEST(a_captured_event_is_refused_without_the_driver_and_usable_after_the_next_record) {
    struct CUstream_st *cu, *other_cu;
    struct cushim_event *e = create(0), *outside = create(0);
    struct cushim_stream *s = stream(NULL, &cu), *other = stream(NULL, &other_cu);
    CUgraph graph;
    int done;
    float ms;
    ck_ok(cushim_context_push(primary(0)));
    ck_ok(cushim_event_record(outside, other));
    ck_ok(cushim_stream_synchronize(other));
    ck_assert_int_eq(SIM(cuStreamBeginCapture_v2)(cu, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                     CUDA_SUCCESS);
    ck_ok(cushim_event_record(e, s));
    SIM(sim_calls_reset)();
    ck_is(cushim_event_query(e, &done), CUSHIM_CAPTURE);
    ck_is(cushim_event_synchronize(e), CUSHIM_CAPTURE);
    ck_is(cushim_event_elapsed(outside, e, &ms), CUSHIM_CAPTURE);
    ck_is(cushim_stream_wait_event(s, outside), CUSHIM_CAPTURE);
    ck_is(cushim_stream_wait_event(NULL, e), CUSHIM_CAPTURE);
    ck_assert_uint_eq(n_calls("cuEventQuery") + n_calls("cuEventSynchronize") +
                          n_calls("cuEventElapsedTime") + n_calls("cuStreamWaitEvent"),
                      0);
    ck_ok(cushim_stream_wait_event(other, e)); /* joins */
    ck_ok(cushim_event_record(e, other));
    ck_ok(cushim_stream_wait_event(s, e)); /* and comes back */
    ck_assert_int_eq(SIM(cuStreamEndCapture)(cu, &graph), CUDA_SUCCESS);
    ck_ok(cushim_event_record(e, s));
    ck_ok(cushim_event_synchronize(e));
    ck_ok(cushim_event_elapsed(outside, e, &ms));
}

TEST(a_wrapped_event_belongs_to_its_creator_and_the_driver_is_asked) {
    struct CUstream_st *cu;
    struct cushim_event *e;
    struct cushim_stream *s = stream(NULL, &cu);
    CUevent raw, found;
    int done;
    ck_ok(cushim_context_push(primary(0)));
    ck_assert_int_eq(SIM(cuEventCreate)(&raw, 0), CUDA_SUCCESS);
    ck_ok(cushim_event_wrap(NULL, raw, &e));
    ck_ok(cushim_event_handle(e, &found));
    ck_assert_ptr_eq(found, raw);
    ck_assert_int_eq(SIM(cuEventRecord)(raw, cu), CUDA_SUCCESS);
    ck_ok(cushim_stream_wait_event(s, e));
    ck_assert_uint_eq(n_calls("cuStreamWaitEvent"), 1);
    ck_ok(cushim_event_query(e, &done));
    ck_ok(cushim_event_destroy(e));
    ck_assert_uint_eq(n_calls("cuEventDestroy_v2"), 0);
    ck_assert_int_eq(SIM(cuEventDestroy_v2)(raw), CUDA_SUCCESS);
}

TEST(events_of_another_context_are_refused) {
    struct CUstream_st *cu;
    struct cushim_context *other;
    struct cushim_event *e = create(0), *far;
    float ms;
    ck_ok(cushim_context_create(0, 0, &other));
    struct cushim_stream *s = stream(other, &cu);
    ck_ok(cushim_event_create(other, 0, &far));
    ck_is(cushim_event_record(e, s), CUSHIM_BADDEVICE);
    ck_ok(cushim_event_record(far, s));
    ck_is(cushim_event_elapsed(e, far, &ms), CUSHIM_BADDEVICE);
    ck_ok(cushim_stream_wait_event(CUSHIM_STREAM_PER_THREAD, far));
    ck_ok(cushim_context_destroy(other));
    ck_is(cushim_event_synchronize(far), CUSHIM_DEADCONTEXT);
    ck_is(cushim_event_record(e, s), CUSHIM_DEADCONTEXT);
    ck_ok(cushim_event_destroy(far));
    ck_ok(cushim_stream_destroy(s));
}

SUITE() {
    return tests_run("event");
}
