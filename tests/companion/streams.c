/* Streams and events: order, time measurement, and the calls that captures forbid. */
#include "tests/companion/fixture.h"

#include <cuda.h>
#include <string.h>

#include "tests/companion/fixture_cuda.h"

static struct cushim_stream *new_stream(void) {
    struct cushim_stream *s;
    fixture_ok(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &s));
    return s;
}

static struct cushim_event *new_event(unsigned flags) {
    struct cushim_event *e;
    fixture_ok(cushim_event_create(NULL, flags, &e));
    return e;
}

TEST(case_T1_events_measure_the_work_of_a_stream_between_them) {
    struct cushim_stream *s = new_stream();
    struct cushim_event *start = new_event(0), *end = new_event(0), *unused = new_event(0);
    int before = -1, after = -1;
    float ms = -1;
    fixture_spin(s, 1); /* the first launch also loads the kernel */
    fixture_ok(cushim_stream_synchronize(s));
    fixture_ok(cushim_event_record(start, s));
    fixture_spin(s, 10);
    fixture_ok(cushim_event_record(end, s));
    fixture_ok(cushim_event_query(end, &before));
    fixture_is(cushim_event_elapsed(start, end, &ms), CUSHIM_NOTREADY);
    ck_assert(ms == 0);
    fixture_ok(cushim_event_synchronize(end));
    fixture_ok(cushim_event_query(end, &after));
    ck_assert_int_eq(before, 0);
    ck_assert_int_eq(after, 1);
    fixture_ok(cushim_event_elapsed(start, end, &ms));
    ck_assert_msg(ms >= 9 && ms < 60, "%f ms", (double)ms);
    fixture_is(cushim_event_elapsed(start, unused, &ms), CUSHIM_BADHANDLE);
    fixture_ok(cushim_event_destroy(start));
    fixture_ok(cushim_event_destroy(end));
    fixture_ok(cushim_event_destroy(unused));
    fixture_ok(cushim_stream_destroy(s));
}

TEST(case_T1_an_unrecorded_event_is_complete_and_one_without_timing_measures_nothing) {
    struct cushim_stream *s = new_stream();
    struct cushim_event *unused = new_event(0), *plain = new_event(CUSHIM_EVENT_FLAG_NO_TIMING);
    int done = 0;
    float ms;
    fixture_ok(cushim_event_query(unused, &done));
    ck_assert_int_eq(done, 1);
    fixture_ok(cushim_event_synchronize(unused));
    fixture_spin(s, 20);
    fixture_ok(cushim_stream_wait_event(s, unused));
    fixture_ok(cushim_event_record(plain, s));
    fixture_ok(cushim_event_synchronize(plain));
    fixture_is(cushim_event_elapsed(plain, plain, &ms), CUSHIM_BADHANDLE);
    fixture_is(cushim_event_create(NULL, CUSHIM_EVENT_FLAG_INTERPROCESS, &unused), CUSHIM_INVALID);
    ck_assert_ptr_null(unused);
}

TEST(case_S1_a_wrapper_does_not_touch_its_stream) {
    struct cushim_stream *s = new_stream(), *legacy, *wrapper;
    struct CUstream_st *cu = (struct CUstream_st *)1;
    cushim_devptr block;
    unsigned char bytes[64];
    int state = -1;
    fixture_ok(cushim_stream_wrap(NULL, NULL, &legacy));
    fixture_ok(cushim_stream_handle(legacy, &cu));
    ck_assert_ptr_null(cu);
    fixture_ok(cushim_stream_synchronize(legacy));
    fixture_ok(cushim_stream_destroy(legacy));
    fixture_ok(cushim_graph_status(NULL, &state));
    ck_assert_int_eq(state, 0);
    fixture_ok(cushim_stream_handle(s, &cu));
    fixture_ok(cushim_stream_wrap(NULL, cu, &wrapper));
    fixture_ok(cushim_stream_destroy(wrapper));
    fixture_is(cushim_stream_synchronize(wrapper), CUSHIM_BADHANDLE);
    fixture_ok(cushim_memory_alloc(NULL, sizeof bytes, &block));
    fixture_ok(cushim_memory_set8_async(block, 0x5a, sizeof bytes, s));
    fixture_ok(cushim_stream_synchronize(s));
    fixture_ok(cushim_memory_d2h(bytes, block, sizeof bytes));
    for (size_t i = 0; i < sizeof bytes; i++)
        ck_assert_uint_eq(bytes[i], 0x5a);
    fixture_ok(cushim_memory_free(block));
    fixture_ok(cushim_stream_destroy(s));
}

TEST(case_S1_special_streams_can_be_queried_and_waited_for) {
    struct CUstream_st *cu = NULL;
    struct cushim_event *e = new_event(0);
    int done, priority = 1;
    fixture_ok(cushim_stream_synchronize(NULL));
    fixture_ok(cushim_stream_synchronize(CUSHIM_STREAM_PER_THREAD));
    fixture_ok(cushim_stream_handle(CUSHIM_STREAM_PER_THREAD, &cu));
    ck_assert_ptr_eq(cu, CU_STREAM_PER_THREAD);
    fixture_ok(cushim_stream_priority(NULL, &priority));
    ck_assert_int_eq(priority, 0);
    fixture_spin(CUSHIM_STREAM_PER_THREAD, 30);
    fixture_ok(cushim_event_record(e, CUSHIM_STREAM_PER_THREAD));
    fixture_ok(cushim_stream_query(CUSHIM_STREAM_PER_THREAD, &done));
    ck_assert_int_eq(done, 0);
    fixture_ok(cushim_stream_wait_event(NULL, e));
    fixture_ok(cushim_stream_synchronize(NULL));
    fixture_ok(cushim_event_query(e, &done));
    ck_assert_int_eq(done, 1);
    fixture_is(cushim_stream_synchronize(CUSHIM_STREAM_ALL), CUSHIM_BADHANDLE);
}

TEST(case_S1_priorities_are_clamped_to_the_range) {
    int least = 1, greatest = 1, priority;
    unsigned flags = 7;
    struct cushim_stream *s;
    fixture_ok(cushim_stream_priority_range(NULL, &least, &greatest));
    ck_assert_int_le(greatest, least);
    fixture_ok(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, -1000, &s));
    fixture_ok(cushim_stream_priority(s, &priority));
    ck_assert_int_eq(priority, greatest);
    fixture_ok(cushim_stream_flags(s, &flags));
    ck_assert_uint_eq(flags, CUSHIM_STREAM_FLAG_NON_BLOCKING);
    fixture_ok(cushim_stream_destroy(s));
    fixture_ok(cushim_stream_create(NULL, 0, 0, &s));
    fixture_ok(cushim_stream_flags(s, &flags));
    ck_assert_uint_eq(flags, 0);
    fixture_ok(cushim_stream_destroy(s));
    fixture_is(cushim_stream_create(NULL, 2, 0, &s), CUSHIM_INVALID);
}

TEST(case_S1_a_wait_for_an_event_orders_two_streams) {
    struct cushim_stream *s = new_stream(), *t = new_stream();
    struct cushim_event *e = new_event(CUSHIM_EVENT_FLAG_NO_TIMING);
    uint32_t word = 0;
    cushim_devptr block;
    fixture_ok(cushim_memory_alloc(NULL, sizeof word, &block));
    fixture_spin_fill(s, block, 1, 1, 30);
    fixture_ok(cushim_event_record(e, s));
    fixture_ok(cushim_stream_wait_event(t, e));
    fixture_ok(cushim_memory_set32_async(block, 2, 1, t));
    fixture_ok(cushim_stream_destroy(s)); /* its work continues */
    fixture_ok(cushim_stream_synchronize(t));
    fixture_ok(cushim_memory_d2h(&word, block, sizeof word));
    ck_assert_uint_eq(word, 2);
    fixture_ok(cushim_memory_free(block));
}

TEST(case_S1_a_capture_survives_forbidden_calls) {
    struct cushim_stream *s = new_stream(), *t = new_stream();
    struct cushim_event *inside = new_event(0), *outside = new_event(0);
    CUgraph g;
    unsigned flags;
    int v;
    float ms;
    fixture_spin(t, 1);
    fixture_ok(cushim_event_record(outside, t));
    fixture_capture_begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
    fixture_is(cushim_stream_synchronize(s), CUSHIM_CAPTURE);
    fixture_is(cushim_stream_query(s, &v), CUSHIM_CAPTURE);
    fixture_is(cushim_stream_flags(s, &flags), CUSHIM_CAPTURE);
    fixture_ok(cushim_stream_priority(s, &v));
    fixture_is(cushim_stream_destroy(s), CUSHIM_CAPTURE);
    fixture_is(cushim_stream_wait_event(s, outside), CUSHIM_CAPTURE);
    fixture_is(cushim_stream_synchronize(NULL), CUSHIM_CAPTURE);
    fixture_is(cushim_event_record(outside, NULL), CUSHIM_CAPTURE);
    fixture_ok(cushim_event_record(inside, s));
    fixture_is(cushim_event_query(inside, &v), CUSHIM_CAPTURE);
    fixture_is(cushim_event_synchronize(inside), CUSHIM_CAPTURE);
    fixture_is(cushim_event_elapsed(outside, inside, &ms), CUSHIM_CAPTURE);
    fixture_is(cushim_stream_wait_event(NULL, inside), CUSHIM_CAPTURE);
    fixture_ok(cushim_stream_synchronize(t));
    fixture_ok(cushim_stream_query(t, &v));
    fixture_ok(cushim_event_synchronize(outside));
    fixture_spin(s, 1);
    g = fixture_capture_end(s);
    FIXTURE_CU(cuGraphDestroy, g);
    fixture_ok(cushim_event_record(inside, s)); /* outside of the capture again */
    fixture_ok(cushim_event_synchronize(inside));
    fixture_ok(cushim_stream_destroy(s));
    fixture_ok(cushim_stream_destroy(t));
}

TEST(case_S1_waits_leave_a_capture_of_global_mode_valid) {
    struct cushim_stream *s = new_stream(), *t = new_stream();
    struct cushim_event *e = new_event(0);
    CUgraph g;
    int v;
    float ms;
    fixture_spin(t, 1);
    fixture_ok(cushim_event_record(e, t));
    fixture_capture_begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
    fixture_ok(cushim_stream_query(t, &v));
    fixture_ok(cushim_stream_synchronize(t));
    fixture_ok(cushim_event_query(e, &v));
    fixture_ok(cushim_event_synchronize(e));
    fixture_ok(cushim_event_elapsed(e, e, &ms));
    fixture_spin(s, 1);
    g = fixture_capture_end(s);
    FIXTURE_CU(cuGraphDestroy, g);
}

TEST(case_S1_streams_and_events_of_two_devices_wait_but_do_not_mix, .needs = FIXTURE_TWO) {
    struct cushim_context *one;
    struct cushim_stream *s = new_stream(), *t;
    struct cushim_event *e;
    fixture_ok(cushim_context_primary(1, &one));
    fixture_ok(cushim_stream_create(one, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &t));
    fixture_ok(cushim_event_create(one, 0, &e));
    fixture_is(cushim_event_record(e, s), CUSHIM_BADDEVICE);
    fixture_ok(cushim_event_record(e, t));
    fixture_ok(cushim_stream_wait_event(s, e));
    fixture_ok(cushim_stream_synchronize(s));
}

int main(int argc, char **argv) {
    return fixture_main(argc, argv);
}
