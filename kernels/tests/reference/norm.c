/*
 * RMS norm: the references compared with values by hand and identities, and the errors of wrong
 * calls.
 */
#include "tests/unit/suite.h"

#include <math.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

enum { HALF_1 = 0x3C00, HALF_2 = 0x4000, HALF_INF = 0x7C00, CODE_1 = 0x38, CODE_NAN = 0x7F };

static void assert_values(const float *got, const double *expected, int n) {
    for (int i = 0; i < n; i++)
        ck_assert_double_eq_tol(got[i], expected[i], 1e-6 * fabs(expected[i]) + 1e-30);
}

TEST(three_and_four_have_a_mean_square_of_12_5) {
    static const float x[] = {3, 4, 0, 0}, w[] = {1, 2};
    float y[4], rstd[2];
    double r = 1 / sqrt(12.5 + 3.5);
    cushim_rms_norm_f32_ref(x, w, y, rstd, 3.5f, 2, 2);
    assert_values(y, (double[]){3 * r, 8 * r, 0, 0}, 4);
    assert_values(rstd, (double[]){0.25, 1 / sqrt(3.5)}, 2);
    y[0] = 0;
    cushim_rms_norm_f32_ref(x, w, y, NULL, 3.5f, 1, 2);
    assert_values(y, (double[]){3 * r, 8 * r}, 2);
}

TEST(a_sum_too_large_for_a_float_gives_zeros) {
    static const float x[] = {2e19f, -1}, w[] = {1, 1};
    float y[2], rstd;
    cushim_rms_norm_f32_ref(x, w, y, &rstd, 1, 1, 2);
    ck_assert(rstd == 0 && y[0] == 0 && y[1] == 0);
    cushim_rms_norm_f32_ref((float[]){INFINITY, 1}, w, y, &rstd, 1, 1, 2);
    ck_assert(rstd == 0 && isnan(y[0]) && y[1] == 0);
}

TEST(zeros_without_eps_are_nan) {
    static const float x[] = {0, -0.f}, w[] = {1, 1};
    float y[2], rstd;
    cushim_rms_norm_f32_ref(x, w, y, &rstd, 0, 1, 2);
    ck_assert(isinf(rstd) && isnan(y[0]) && isnan(y[1]));
}

TEST(the_sum_is_an_output_and_what_is_normed) {
    static const float x[] = {1, 3}, residual[] = {2, 1}, w[] = {1, 1};
    float y[2], sum[2], both[2] = {1, 3};
    cushim_add_rms_norm_f32_ref(x, residual, w, y, sum, 0, 1, 2);
    assert_values(sum, (double[]){3, 4}, 2);
    assert_values(y, (double[]){3 / sqrt(12.5), 4 / sqrt(12.5)}, 2);
    float other[] = {2, 1};
    cushim_add_rms_norm_f32_ref(both, other, w, other, both, 0, 1, 2);
    assert_values(both, (double[]){3, 4}, 2);
    assert_values(other, (double[]){3 / sqrt(12.5), 4 / sqrt(12.5)}, 2);
}

TEST(a_residual_comes_after_the_weights) {
    static const float x[] = {3, 4}, w[] = {2, 0}, residual[] = {10, 20};
    float y[2];
    cushim_rms_norm_add_f32_ref(x, w, residual, y, 0, 1, 2);
    assert_values(y, (double[]){6 / sqrt(12.5) + 10, 20}, 2);
}

TEST(halves_of_one_size_become_their_weights) {
    static const uint16_t x[] = {HALF_2, HALF_2 | 0x8000, HALF_2}, w[] = {HALF_1, HALF_2, 0x3555};
    uint16_t y[3];
    cushim_rms_norm_f16_ref(x, w, y, 0, 1, 3);
    ck_assert_uint_eq(y[0], HALF_1);
    ck_assert_uint_eq(y[1], HALF_2 | 0x8000);
    ck_assert_uint_eq(y[2], 0x3555);
}

TEST(codes_are_scaled_before_the_norm) {
    static const uint8_t x[] = {CODE_1, CODE_1 | 0x80};
    static const uint16_t w[] = {HALF_1, HALF_1};
    uint16_t y[2];
    /* 4 / sqrt(16 + 48) */
    cushim_rms_norm_e4m3_f16_ref(x, w, y, 4, 48, 1, 2);
    ck_assert_uint_eq(y[0], 0x3800);
    ck_assert_uint_eq(y[1], 0xB800);
}

TEST(a_code_that_is_no_number_makes_its_row_nan) {
    static const uint8_t x[] = {CODE_1, CODE_NAN, CODE_1, CODE_1};
    static const uint16_t w[] = {HALF_1, HALF_1};
    uint16_t y[4];
    cushim_rms_norm_e4m3_f16_ref(x, w, y, 1, 0, 2, 2);
    ck_assert_uint_gt(y[0] & 0x7FFF, HALF_INF);
    ck_assert_uint_gt(y[1] & 0x7FFF, HALF_INF);
    ck_assert_uint_eq(y[2], HALF_1);
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *function, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), function) && strstr(cushim_last_error(), text),
                  "\"%s\" has no \"%s\" of %s", cushim_last_error(), text, function);
}

static float *const f = (float *)0x10000, *const odd_f = (float *)0x10002;
static uint16_t *const h = (uint16_t *)0x10000, *const odd_h = (uint16_t *)0x10001;
static uint8_t *const b = (uint8_t *)0x10001;
static const char odd_4[] = "=0x10002 is not a multiple of 4";
static const char odd_2[] = "=0x10001 is not a multiple of 2";

/* call(rows, d) with good pointers, then with none. */
#define ASSERT_SIZE_ERRORS(name, call, none)                                                       \
    assert_error(call(-1, 1), name, "rows=-1 is negative");                                        \
    assert_error(call(0, -2), name, "d=-2 is negative");                                           \
    assert_error(call(INT64_MAX / 2, 4), name, "y has more elements than");                        \
    assert_error(call(INT64_MAX / 2, 2), name, "more bytes than");                                 \
    ck_assert_int_eq(none(0, 1), CUSHIM_OK);                                                       \
    ck_assert_int_eq(none(1, 0), CUSHIM_OK)

#define RMS(rows, d)          cushim_rms_norm_f32(f, f, f, f, 1, rows, d, NULL)
#define RMS_NONE(rows, d)     cushim_rms_norm_f32(NULL, NULL, NULL, NULL, 1, rows, d, NULL)
#define RMS_OF(x, w, y, rstd) cushim_rms_norm_f32(x, w, y, rstd, 1, 1, 1, NULL)
TEST(rms_norm_refuses_wrong_arguments) {
    const char *name = "cushim_rms_norm_f32";
    ASSERT_SIZE_ERRORS(name, RMS, RMS_NONE);
    assert_error(RMS_OF(NULL, f, f, f), name, "x=NULL");
    assert_error(RMS_OF(f, NULL, f, f), name, "w=NULL");
    assert_error(RMS_OF(f, f, NULL, f), name, "y=NULL");
    assert_error(RMS_OF(odd_f, f, f, f), name, odd_4);
    assert_error(RMS_OF(f, odd_f, f, f), name, odd_4);
    assert_error(RMS_OF(f, f, odd_f, f), name, odd_4);
    assert_error(RMS_OF(f, f, f, odd_f), name, "rstd=0x10002 is not a multiple of 4");
}

#define ADD(rows, d)            cushim_add_rms_norm_f32(f, f, f, f, f, 1, rows, d, NULL)
#define ADD_NONE(rows, d)       cushim_add_rms_norm_f32(NULL, NULL, NULL, NULL, NULL, 1, rows, d, NULL)
#define ADD_OF(x, r, w, y, sum) cushim_add_rms_norm_f32(x, r, w, y, sum, 1, 1, 1, NULL)
#define AFTER(rows, d)          cushim_rms_norm_add_f32(f, f, f, f, 1, rows, d, NULL)
#define AFTER_NONE(rows, d)     cushim_rms_norm_add_f32(NULL, NULL, NULL, NULL, 1, rows, d, NULL)
#define AFTER_OF(x, w, r, y)    cushim_rms_norm_add_f32(x, w, r, y, 1, 1, 1, NULL)
TEST(norms_with_a_residual_refuse_wrong_arguments) {
    const char *name = "cushim_add_rms_norm_f32";
    ASSERT_SIZE_ERRORS(name, ADD, ADD_NONE);
    assert_error(ADD_OF(NULL, f, f, f, f), name, "x=NULL");
    assert_error(ADD_OF(f, NULL, f, f, f), name, "residual=NULL");
    assert_error(ADD_OF(f, f, NULL, f, f), name, "w=NULL");
    assert_error(ADD_OF(f, f, f, NULL, f), name, "y=NULL");
    assert_error(ADD_OF(f, f, f, f, NULL), name, "sum=NULL");
    assert_error(ADD_OF(f, odd_f, f, f, f), name, "residual=0x10002");
    assert_error(ADD_OF(f, f, f, f, odd_f), name, "sum=0x10002");
    name = "cushim_rms_norm_add_f32";
    ASSERT_SIZE_ERRORS(name, AFTER, AFTER_NONE);
    assert_error(AFTER_OF(NULL, f, f, f), name, "x=NULL");
    assert_error(AFTER_OF(f, NULL, f, f), name, "w=NULL");
    assert_error(AFTER_OF(f, f, NULL, f), name, "residual=NULL");
    assert_error(AFTER_OF(f, f, f, NULL), name, "y=NULL");
    assert_error(AFTER_OF(f, f, odd_f, f), name, "residual=0x10002");
}

#define HALVES(rows, d)      cushim_rms_norm_f16(h, h, h, 1, rows, d, NULL)
#define HALVES_NONE(rows, d) cushim_rms_norm_f16(NULL, NULL, NULL, 1, rows, d, NULL)
#define HALVES_OF(x, w, y)   cushim_rms_norm_f16(x, w, y, 1, 1, 1, NULL)
#define CODES(rows, d)       cushim_rms_norm_e4m3_f16(b, h, h, 1, 1, rows, d, NULL)
#define CODES_NONE(rows, d)  cushim_rms_norm_e4m3_f16(NULL, NULL, NULL, 1, 1, rows, d, NULL)
#define CODES_OF(x, w, y)    cushim_rms_norm_e4m3_f16(x, w, y, 1, 1, 1, 1, NULL)
TEST(norms_of_small_formats_refuse_wrong_arguments) {
    const char *name = "cushim_rms_norm_f16";
    ASSERT_SIZE_ERRORS(name, HALVES, HALVES_NONE);
    assert_error(HALVES_OF(NULL, h, h), name, "x=NULL");
    assert_error(HALVES_OF(h, NULL, h), name, "w=NULL");
    assert_error(HALVES_OF(h, h, NULL), name, "y=NULL");
    assert_error(HALVES_OF(odd_h, h, h), name, odd_2);
    name = "cushim_rms_norm_e4m3_f16";
    ASSERT_SIZE_ERRORS(name, CODES, CODES_NONE);
    assert_error(CODES_OF(NULL, h, h), name, "x=NULL");
    assert_error(CODES_OF(b, NULL, h), name, "w=NULL");
    assert_error(CODES_OF(b, h, NULL), name, "y=NULL");
    assert_error(CODES_OF(b, odd_h, h), name, odd_2);
}

SUITE() {
    return tests_run("reference_norm");
}
