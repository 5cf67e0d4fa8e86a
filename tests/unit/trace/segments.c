/* Segments of a recorded process: each is there until it goes, by itself or with its pool. */
#include "trace/segments.h"

#include "tests/unit/suite.h"

static uint64_t sum_bytes;

static void add_up(const struct cushim_trace_segment *segment, void *context) {
    ck_assert_ptr_eq(context, &sum_bytes);
    sum_bytes += segment->n_bytes;
}

static uint64_t all(const struct cushim_trace_segments *segments) {
    sum_bytes = 0;
    cushim_trace_segments_each(segments, add_up, &sum_bytes);
    return sum_bytes;
}

TEST(what_came_is_there_until_it_goes) {
    struct cushim_trace_segments segments = {0};
    for (uint64_t i = 1; i <= 100; i++)
        ck_assert(cushim_trace_segments_add(
            &segments,
            &(struct cushim_trace_segment){.base = i << 21, .n_bytes = i, .pool = i % 2}));
    ck_assert_uint_eq(all(&segments), 5050);
    sum_bytes = 0;
    cushim_trace_segments_remove(&segments, 7 << 21, add_up, &sum_bytes);
    cushim_trace_segments_remove(&segments, 7 << 21, add_up, &sum_bytes); /* none is there now */
    ck_assert_uint_eq(sum_bytes, 7);
    ck_assert_uint_eq(all(&segments), 5043);
    sum_bytes = 0;
    cushim_trace_segments_remove_pool(&segments, 1, add_up, &sum_bytes);
    ck_assert_uint_eq(sum_bytes, 2500 - 7);
    ck_assert_uint_eq(all(&segments), 2550);
    cushim_trace_segments_free(&segments);
    ck_assert_uint_eq(all(&segments), 0);
}

/* A base that goes from one pool to another is the other one's. */
TEST(a_pool_takes_along_what_it_has_now) {
    struct cushim_trace_segments segments = {0};
    for (uint64_t pool = 1; pool <= 2; pool++) {
        sum_bytes = 0;
        cushim_trace_segments_remove(&segments, 1 << 21, add_up, &sum_bytes);
        ck_assert(cushim_trace_segments_add(
            &segments,
            &(struct cushim_trace_segment){.base = 1 << 21, .n_bytes = pool, .pool = pool}));
    }
    sum_bytes = 0;
    cushim_trace_segments_remove_pool(&segments, 1, add_up, &sum_bytes);
    ck_assert_uint_eq(sum_bytes, 0);
    cushim_trace_segments_remove_pool(&segments, 2, add_up, &sum_bytes);
    cushim_trace_segments_remove_pool(&segments, 2, add_up, &sum_bytes);
    ck_assert_uint_eq(sum_bytes, 2);
    cushim_trace_segments_free(&segments);
}

SUITE() {
    return tests_run("segments");
}
