/* Reductions: the references compared with sums by hand, and the errors of wrong calls. */
#include "tests/unit/suite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

/* ---- sums ---- */

TEST(a_middle_axis_is_summed) {
    float x[2 * 3 * 4], y[2 * 4];
    for (int k = 0; k < 24; k++)
        x[k] = (float)k;
    cushim_sum_axis_f32_ref(x, y, 2, 3, 4);
    for (int o = 0; o < 2; o++) {
        for (int i = 0; i < 4; i++)
            ck_assert_float_eq(y[o * 4 + i], (float)(3 * (12 * o + i) + 4 + 8));
    }
}

TEST(numbers_from_1_to_n_make_the_known_sum) {
    static float x[5000];
    for (int n = 1; n <= 5000; n += 499) {
        float sum = -1;
        for (int k = 0; k < n; k++)
            x[k] = (float)(k + 1);
        cushim_sum_axis_f32_ref(x, &sum, 1, n, 1);
        ck_assert_float_eq(sum, (float)n * (float)(n + 1) / 2);
    }
}

TEST(a_sum_is_rounded_once) {
    float sum;
    cushim_sum_axis_f32_ref((const float[]){0x1p24f, 1, 1, 1}, &sum, 1, 4, 1);
    ck_assert_float_eq(sum, 0x1p24f + 4); /* 2^24 + 3 is a tie, and goes to even */
}

TEST(nothing_sums_to_zero) {
    float y[] = {7, 7, 7};
    cushim_sum_axis_f32_ref(NULL, y, 3, 0, 1);
    ck_assert(y[0] == 0 && y[1] == 0 && y[2] == 0);
}

/* ---- the largest ---- */

static int64_t largest(const float *x, int64_t n) {
    int64_t index = -7;
    cushim_argmax_f32_ref(x, &index, n);
    return index;
}

TEST(the_largest_is_found) {
    ck_assert_int_eq(largest((const float[]){3}, 1), 0);
    ck_assert_int_eq(largest((const float[]){-3, -2, -4}, 3), 1);
    ck_assert_int_eq(largest((const float[]){1, INFINITY, 2, INFINITY}, 4), 1);
    ck_assert_int_eq(largest(NULL, 0), -7);
}

TEST(of_equals_the_first_is_the_largest) {
    ck_assert_int_eq(largest((const float[]){1, 5, 5, 5}, 4), 1);
    ck_assert_int_eq(largest((const float[]){-1, -0.0f, 0.0f}, 3), 1);
    ck_assert_int_eq(largest((const float[]){-INFINITY, -INFINITY}, 2), 0);
}

TEST(the_first_nan_is_the_largest) {
    ck_assert_int_eq(largest((const float[]){1, INFINITY, NAN, 2, -NAN}, 5), 2);
    ck_assert_int_eq(largest((const float[]){-NAN, NAN}, 2), 0);
}

/* ---- scratch ---- */

TEST(scratch_of_argmax_is_within_upstreams) {
    for (int64_t n = 1; n < INT32_MAX; n = n * 5 / 4 + 1)
        ck_assert_uint_le(cushim_argmax_f32_scratch(n), (size_t)((n + 255) / 256 * 8));
    ck_assert_uint_eq(cushim_argmax_f32_scratch(0), 0);
    ck_assert_uint_eq(cushim_argmax_f32_scratch(-1), 0);
    ck_assert_uint_gt(cushim_argmax_f32_scratch(1 << 24), 0);
}

TEST(scratch_of_sums_helps_if_they_are_few) {
    ck_assert_uint_gt(cushim_sum_axis_f32_scratch(1, 1 << 26, 1), 0);
    ck_assert_uint_gt(cushim_sum_axis_f32_scratch(2, 1 << 20, 8), 0);
    ck_assert_uint_eq(cushim_sum_axis_f32_scratch(65536, 4096, 1), 0);
    ck_assert_uint_eq(cushim_sum_axis_f32_scratch(1, 100, 1), 0);
    ck_assert_uint_eq(cushim_sum_axis_f32_scratch(1, 0, 1), 0);
    ck_assert_uint_eq(cushim_sum_axis_f32_scratch(-1, 1 << 26, 1), 0);
    ck_assert_uint_eq(cushim_sum_axis_f32_scratch(1, INT64_MAX, INT64_MAX), 0);
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *function, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), function) && strstr(cushim_last_error(), text),
                  "\"%s\" has no \"%s\" of %s", cushim_last_error(), text, function);
}

static float *const f = (float *)0x10000, *const odd_f = (float *)0x10002;

TEST(a_wrong_sum_is_refused) {
    const char *what = "cushim_sum_axis_f32";
    assert_error(cushim_sum_axis_f32(f, f, -1, 1, 1, NULL, 0, NULL), what, "outer=-1 is negative");
    assert_error(cushim_sum_axis_f32(f, f, 1, -2, 1, NULL, 0, NULL), what, "axis=-2 is negative");
    assert_error(cushim_sum_axis_f32(f, f, 1, 1, -3, NULL, 0, NULL), what, "inner=-3 is negative");
    assert_error(cushim_sum_axis_f32(f, f, INT64_MAX, 2, 1, NULL, 0, NULL), what,
                 "x has more elements");
    assert_error(cushim_sum_axis_f32(f, f, INT64_MAX, 0, 2, NULL, 0, NULL), what,
                 "y has more elements");
    assert_error(cushim_sum_axis_f32(NULL, f, 1, 1, 1, NULL, 0, NULL), what, "x=NULL");
    assert_error(cushim_sum_axis_f32(odd_f, f, 1, 1, 1, NULL, 0, NULL), what,
                 "x=0x10002 is not a multiple of 4");
    assert_error(cushim_sum_axis_f32(f, NULL, 1, 0, 1, NULL, 0, NULL), what, "y=NULL");
    assert_error(cushim_sum_axis_f32(f, odd_f, 1, 1, 1, NULL, 0, NULL), what, "y=0x10002");
    assert_error(cushim_sum_axis_f32(f, f, 1, 1, 1, NULL, 4, NULL), what, "scratch=NULL");
    assert_error(cushim_sum_axis_f32(f, f, 1, 1, 1, odd_f, 4, NULL), what, "scratch=0x10002");
}

TEST(a_wrong_argmax_is_refused) {
    const char *what = "cushim_argmax_f32";
    int64_t *index = (int64_t *)0x20000, *odd_index = (int64_t *)0x20004;
    assert_error(cushim_argmax_f32(f, index, -1, NULL, 0, NULL), what, "n=-1 is negative");
    assert_error(cushim_argmax_f32(f, index, INT64_MAX, NULL, 0, NULL), what, "more bytes");
    assert_error(cushim_argmax_f32(NULL, index, 1, NULL, 0, NULL), what, "x=NULL");
    assert_error(cushim_argmax_f32(odd_f, index, 1, NULL, 0, NULL), what, "x=0x10002");
    assert_error(cushim_argmax_f32(f, NULL, 1, NULL, 0, NULL), what, "index=NULL");
    assert_error(cushim_argmax_f32(f, odd_index, 1, NULL, 0, NULL), what,
                 "index=0x20004 is not a multiple of 8");
    assert_error(cushim_argmax_f32(f, index, 1, NULL, 8, NULL), what, "scratch=NULL");
    assert_error(cushim_argmax_f32(f, index, 1, odd_f, 8, NULL), what, "scratch=0x10002");
}

TEST(nothing_to_do_is_right_without_pointers) {
    ck_assert_int_eq(cushim_sum_axis_f32(NULL, NULL, 0, 5, 5, NULL, 0, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_sum_axis_f32(NULL, NULL, 5, 5, 0, NULL, 0, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_argmax_f32(NULL, NULL, 0, NULL, 0, NULL), CUSHIM_OK);
}

/* Two states: one that adds up, one that forgets; y = both + 10 x. */
TEST(a_scan_goes_through_its_states) {
    const float x[] = {1, 2, 3}, a[] = {1, 0}, b[] = {1, 1, 1, 2, 2, 2}, c[] = {1, 1, 1, 0, 1, 0};
    const float d[] = {10};
    float y[3];
    cushim_selective_scan_f32_ref(x, a, b, c, d, y, 1, 1, 2, 3);
    ck_assert(y[0] == 11 && y[1] == 27 && y[2] == 36);
    cushim_selective_scan_f32_ref(x, a, b, c, NULL, y, 1, 1, 2, 3);
    ck_assert(y[0] == 1 && y[1] == 7 && y[2] == 6);
}

TEST(a_wrong_scan_is_refused) {
    const char *what = "cushim_selective_scan_f32";
#define SCAN(x, a, d, y, states) cushim_selective_scan_f32(x, a, f, f, d, y, 1, 2, states, 3, NULL)
    assert_error(SCAN(f, f, f, f, -1), what, "n_states=-1 is negative");
    assert_error(SCAN(f, f, f, f, INT64_MAX / 2), what, "a=");
    assert_error(SCAN(NULL, f, f, f, 1), what, "x=NULL");
    assert_error(SCAN(f, NULL, f, f, 1), what, "a=NULL");
    assert_error(SCAN(f, f, odd_f, f, 1), what, "d=0x10002");
    assert_error(SCAN(f, f, NULL, odd_f, 1), what, "y=0x10002");
    ck_assert_int_eq(
        cushim_selective_scan_f32(NULL, NULL, NULL, NULL, NULL, NULL, 1, 0, 4, 3, NULL), CUSHIM_OK);
}

SUITE() {
    return tests_run("reduce");
}
