#include "memory/state/deferred.h"

#include "cuda/table.h"
#include "tests/unit/fake/fake_cuda.h"
#include "tests/unit/suite.h"

static struct cushim_cuda cuda;
static struct cushim_mem_meta meta;
static struct cushim_mem_deferred deferred;
static struct cushim_mem_extent extent = {.block_bytes = 1024};

static void setup(void) {
    fake_reset();
    fake_load(&cuda, NULL);
    fake_set_current(fake_context(0));
}

/* Append block k, whose address carries its number, as freed in an epoch. */
static void add_in(uint32_t k, uint64_t epoch) {
    ck_assert(cushim_mem_deferred_add(&deferred, &meta, &(struct cushim_mem_blockref){&extent, k},
                                      epoch));
}

/* The same, with an event on `stream`. */
static void add(uint32_t k, int stream) {
    struct cushim_mem_blockref ref = {&extent, k};
    CUevent event;
    CUstream on = fake_stream((unsigned)stream);
    fake_submit((unsigned)stream);
    ck_assert_int_eq(cuda.cuEventCreate(&event, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuda.cuEventRecord(event, on), CUDA_SUCCESS);
    ck_assert(cushim_mem_deferred_add_on(&deferred, &meta, &ref, on, event));
}

/* Take a block whose epoch is done; its number, or -1. */
static int take_done(uint64_t done) {
    struct cushim_mem_blockref ref;
    return cushim_mem_deferred_take(&deferred, &meta, done, &ref) ? (int)ref.index : -1;
}

/* Take a block whose event has passed. */
static int take(void) {
    struct cushim_mem_blockref ref;
    return cushim_mem_deferred_take_on(&deferred, &meta, &cuda, &ref) ? (int)ref.index : -1;
}

TEST(nothing_is_taken_from_an_empty_list) {
    setup();
    ck_assert_int_eq(take(), -1);
}

TEST(a_row_is_taken_once_its_event_has_passed_and_not_before) {
    setup();
    add(1, 0);
    ck_assert_int_eq(take(), -1);
    ck_assert_int_eq(take_done(UINT64_MAX), -1); /* no epoch completes a block of another stream */
    fake_finish(0);
    ck_assert_int_eq(take(), 1);
    ck_assert_int_eq(take(), -1);
    ck_assert_uint_eq(deferred.n_rows, 0);
    ck_assert_ptr_null(deferred.lines);
}

TEST(a_block_is_taken_once_its_epoch_is_done_and_not_before) {
    setup();
    add_in(1, 5);
    add_in(2, 6);
    add_in(3, 5); /* a cache has the block meanwhile */
    ck_assert_int_eq(take_done(4), -1);
    ck_assert_int_eq(take_done(5), 1);
    ck_assert_int_eq(take_done(5), 3);
    ck_assert_int_eq(take_done(5), -1);
    ck_assert_int_eq(take(), -1); /* no event of a stream completes it */
    add_in(4, 7);
    ck_assert_int_eq(take_done(7), 2);
    ck_assert_int_eq(take_done(7), 4);
    ck_assert_uint_eq(deferred.n_rows, 0);
    ck_assert_uint_eq(deferred.n_bytes, 0);
}

TEST(a_slow_stream_does_not_hold_up_later_rows) {
    setup();
    for (uint32_t k = 0; k < 6; k++)
        add(k, k == 0 ? 4 : 0); /* streams 0 and 4 both belong to context 0 */
    fake_finish(0);
    for (int k = 1; k < 6; k++)
        ck_assert_int_eq(take(), k);
    ck_assert_int_eq(take(), -1);
    fake_finish(4);
    ck_assert_int_eq(take(), 0);
}

TEST(rows_appended_after_the_last_was_taken_are_found) {
    setup();
    add(1, 0);
    add(2, 0);
    fake_finish(0);
    ck_assert_int_eq(take(), 1);
    ck_assert_int_eq(take(), 2);
    add(3, 4);
    add(4, 0);
    fake_finish(0);
    ck_assert_int_eq(take(), 4); /* the last row goes, and the one before becomes the last */
    add(5, 0);
    fake_finish(0);
    ck_assert_int_eq(take(), 5);
    fake_finish(4);
    ck_assert_int_eq(take(), 3);
}

TEST(one_look_queries_few_events_and_in_relaxed_mode) {
    setup();
    for (uint32_t k = 0; k < 100; k++)
        add(k, 0);
    fake_capture(1, true);
    unsigned n_before = fake_n_calls("cuEventQuery");
    ck_assert_int_eq(take(), -1);
    ck_assert_uint_eq(fake_n_calls("cuEventQuery") - n_before, 1);
    ck_assert_uint_eq(fake_n_invalidated(), 0);
    ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST(an_event_that_fails_never_counts_as_passed) {
    setup();
    add(1, 0);
    fake_finish(0);
    fake_fail_always("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(take(), -1);
    fake_fail_always(NULL, CUDA_SUCCESS);
    ck_assert_int_eq(take(), 1);
}

/* The driver does not know these handles; only the event counts. */
static CUstream other_stream(unsigned i) {
    return (CUstream)(uintptr_t)(0x1000 + i);
}

TEST(with_many_slow_streams_successive_looks_query_different_ones) {
    enum { STREAMS = 40 };
    CUevent slow;
    setup();
    fake_submit(0);
    ck_assert_int_eq(cuda.cuEventCreate(&slow, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuda.cuEventRecord(slow, fake_stream(0)), CUDA_SUCCESS);
    for (uint32_t k = 0; k < STREAMS; k++)
        ck_assert(cushim_mem_deferred_add_on(
            &deferred, &meta, &(struct cushim_mem_blockref){&extent, k}, other_stream(k), slow));
    add(STREAMS, 4);
    fake_finish(4);
    for (unsigned looks = 1; looks <= 2; looks++) {
        unsigned n_before = fake_n_calls("cuEventQuery");
        ck_assert_int_eq(take(), -1);
        ck_assert_uint_eq(fake_n_calls("cuEventQuery") - n_before, 16);
    }
    ck_assert_int_eq(take(), STREAMS);
    cushim_mem_deferred_forget(&deferred, &meta);
    ck_assert_uint_eq(deferred.n_rows, 0);
    ck_assert_ptr_null(deferred.lines);
}

TEST(a_slow_stream_does_not_hide_the_rows_of_others) {
    enum { SLOW = 30 };
    setup();
    for (uint32_t k = 0; k < SLOW; k++)
        add(k, 0);
    add(SLOW, 4);
    fake_finish(4);
    ck_assert_int_eq(take(), SLOW);
    fake_finish(0);
    for (int i = 0; i < SLOW; i++)
        ck_assert_int_ge(take(), 0);
    ck_assert_int_eq(take(), -1);
    ck_assert_uint_eq(deferred.n_rows, 0);
    ck_assert_ptr_null(deferred.lines);
}

SUITE() {
    return tests_run("deferred");
}
