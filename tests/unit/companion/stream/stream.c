/* Streams: handles and special values, refusals, and calls that need no driver call. */
#include "cushim/stream.h"

#include <pthread.h>

#include "cushim/event.h"
#include "tests/unit/companion/core/call_fixture.h"
#include "tests/unit/suite.h"

static struct cushim_stream *create(struct cushim_context *ctx) {
    struct cushim_stream *s;
    ck_ok(cushim_stream_create(ctx, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &s));
    return s;
}

TEST(destroy_accepts_null_and_refuses_other_objects) {
    struct cushim_stream *s = create(NULL);
    struct cushim_event *e;
    ck_ok(cushim_event_create(NULL, 0, &e));
    ck_ok(cushim_stream_destroy(NULL));
    ck_ok(cushim_stream_destroy(s));
    ck_is(cushim_stream_destroy(s), CUSHIM_BADHANDLE);
    ck_is(cushim_stream_destroy((struct cushim_stream *)0x1234), CUSHIM_BADHANDLE);
    ck_is(cushim_stream_destroy((struct cushim_stream *)e), CUSHIM_BADHANDLE);
    ck_is(cushim_stream_destroy(CUSHIM_STREAM_PER_THREAD), CUSHIM_BADHANDLE);
    ck_is(cushim_stream_synchronize(s), CUSHIM_BADHANDLE);
    ck_ok(cushim_event_destroy(e));
}

TEST(required_pointers_may_not_be_null) {
    struct cushim_stream *s = create(NULL);
    int n;
    ck_is(cushim_stream_create(NULL, 0, 0, NULL), CUSHIM_INVALID);
    ck_is(cushim_stream_wrap(NULL, NULL, NULL), CUSHIM_INVALID);
    ck_is(cushim_stream_query(s, NULL), CUSHIM_INVALID);
    ck_is(cushim_stream_handle(s, NULL), CUSHIM_INVALID);
    ck_is(cushim_stream_priority(s, NULL), CUSHIM_INVALID);
    ck_is(cushim_stream_flags(s, NULL), CUSHIM_INVALID);
    ck_is(cushim_stream_priority_range(NULL, &n, NULL), CUSHIM_INVALID);
    ck_is(cushim_stream_wait_event(s, NULL), CUSHIM_INVALID);
}

TEST(a_refused_creation_leaves_no_stream_behind) {
    struct cushim_stream *s = NULL;
    primary(0);
    for (unsigned n = 1;; n++) {
        SIM(sim_calls_reset)();
        fail_at(n);
        enum cushim_status status = cushim_stream_create(NULL, 0, -3, &s);
        bool is_over = fail_is_over(status);
        ck_assert_ptr_null(sim_current());
        if (status == CUSHIM_OK) {
            ck_ok(cushim_stream_destroy(s));
            ck_assert_uint_eq(n_calls("cuStreamDestroy_v2"), 1);
        } else {
            ck_assert_ptr_null(s);
            ck_is(status, CUSHIM_NOMEM);
        }
        if (is_over)
            break;
    }
}

TEST(a_wrapper_is_never_destroyed_in_the_driver) {
    struct cushim_stream *s;
    struct CUstream_st *cu, *found;
    struct cushim_context *zero = primary(0), *one = primary(1);
    ck_ok(cushim_context_push(one));
    ck_assert_int_eq(SIM(cuStreamCreate)(&cu, 0), CUDA_SUCCESS);
    ck_ok(cushim_context_pop(NULL));
    ck_is(cushim_stream_wrap(zero, cu, &s), CUSHIM_BADDEVICE);
    ck_assert_ptr_null(s);
    ck_ok(cushim_stream_wrap(NULL, cu, &s)); /* the driver knows its context */
    ck_ok(cushim_stream_handle(s, &found));
    ck_assert_ptr_eq(found, cu);
    ck_ok(cushim_stream_synchronize(s));
    ck_ok(cushim_stream_destroy(s));
    ck_ok(cushim_stream_wrap(one, cu, &s));
    ck_ok(cushim_stream_destroy(s));
    ck_assert_uint_eq(n_calls("cuStreamDestroy_v2"), 0);
    ck_assert_ptr_null(sim_current());
}

static void *use(void *s) {
    int done = 0;
    ck_ok(cushim_stream_synchronize(s));
    ck_ok(cushim_stream_query(s, &done));
    ck_assert_int_eq(done, 1);
    ck_assert_ptr_null(sim_current());
    return NULL;
}

TEST(any_thread_may_call_with_any_current_context) {
    struct cushim_stream *s = create(primary(1));
    CUcontext before;
    pthread_t thread;
    ck_ok(cushim_context_push(primary(0)));
    before = sim_current();
    int done;
    ck_ok(cushim_stream_query(s, &done));
    ck_assert_ptr_eq(sim_current(), before);
    ck_assert_int_eq(pthread_create(&thread, NULL, use, s), 0);
    pthread_join(thread, NULL);
    ck_ok(cushim_stream_destroy(s));
    ck_assert_ptr_eq(sim_current(), before);
}

TEST(a_dead_context_refuses_use_but_not_destruction) {
    struct cushim_context *ctx;
    struct CUstream_st *cu;
    ck_ok(cushim_context_create(0, 0, &ctx));
    struct cushim_stream *s = create(ctx), *wrapper;
    ck_ok(cushim_stream_handle(s, &cu));
    ck_ok(cushim_stream_wrap(ctx, cu, &wrapper));
    ck_ok(cushim_context_destroy(ctx));
    ck_is(cushim_stream_synchronize(s), CUSHIM_DEADCONTEXT);
    ck_is(cushim_stream_handle(wrapper, &cu), CUSHIM_DEADCONTEXT);
    ck_ok(cushim_stream_destroy(s));
    ck_ok(cushim_stream_destroy(wrapper));
    ck_is(cushim_stream_destroy(s), CUSHIM_BADHANDLE);
    ck_assert_uint_eq(n_calls("cuStreamDestroy_v2"), 0);
}

TEST(a_capture_is_refused_without_a_driver_call_that_would_end_it) {
    struct cushim_stream *s = create(NULL);
    struct CUstream_st *cu;
    CUstreamCaptureStatus state;
    CUgraph graph;
    int done = 7;
    ck_ok(cushim_stream_handle(s, &cu));
    ck_ok(cushim_context_push(primary(0)));
    ck_assert_int_eq(SIM(cuStreamBeginCapture_v2)(cu, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    SIM(sim_calls_reset)();
    ck_is(cushim_stream_synchronize(s), CUSHIM_CAPTURE);
    ck_is(cushim_stream_query(s, &done), CUSHIM_CAPTURE);
    ck_assert_int_eq(done, 0);
    ck_is(cushim_stream_destroy(s), CUSHIM_CAPTURE);
    ck_assert_uint_eq(n_calls("cuStreamSynchronize"), 0);
    ck_assert_uint_eq(n_calls("cuStreamQuery"), 0);
    ck_assert_uint_eq(n_calls("cuStreamDestroy_v2"), 0);
    ck_assert_int_eq(SIM(cuStreamIsCapturing)(cu, &state), CUDA_SUCCESS);
    ck_assert_int_eq(state, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ck_assert_int_eq(SIM(cuStreamEndCapture)(cu, &graph), CUDA_SUCCESS);
    ck_ok(cushim_stream_destroy(s));
}

TEST(a_missing_entry_point_is_named) {
    struct cushim_stream *s = create(NULL);
    int done;
    driver_loses(cuStreamQuery);
    driver_loses(cuCtxGetStreamPriorityRange);
    ck_is(cushim_stream_query(s, &done), CUSHIM_NOSYM);
    ck_said("cuStreamQuery");
    ck_is(cushim_stream_priority_range(NULL, &done, &done), CUSHIM_NOSYM);
    ck_said("cuCtxGetStreamPriorityRange");
}

TEST(without_a_driver_there_is_no_stream) {
    struct cushim_stream *s = (struct cushim_stream *)1;
    setenv("CUSHIM_LIBCUDA", "/nowhere/libcuda.so.1", 1);
    ck_is(cushim_stream_create(NULL, 0, 0, &s), CUSHIM_NOCUDA);
    ck_assert_ptr_null(s);
    ck_is(cushim_stream_synchronize(NULL), CUSHIM_NOCUDA);
    ck_said("/nowhere/libcuda.so.1");
}

SUITE() {
    return tests_run("stream");
}
