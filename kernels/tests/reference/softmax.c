/*
 * Softmax: the references compared with values by hand and identities, and the errors of wrong
 * calls.
 */
#include "tests/unit/suite.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

enum { HALF_1 = 0x3C00, HALF_INF = 0x7C00 };

static void assert_values(const float *got, const double *expected, int n) {
    for (int i = 0; i < n; i++)
        ck_assert_double_eq_tol(got[i], expected[i], 1e-7);
}

TEST(logarithms_of_weights_give_the_weights) {
    float x[4], y[4];
    static const double weights[] = {1, 2, 5, 8};
    for (int i = 0; i < 4; i++)
        x[i] = (float)log(weights[i]) + 3;
    cushim_softmax_f32_ref(x, y, 1, 4, 1);
    assert_values(y, (double[]){1 / 16.0, 2 / 16.0, 5 / 16.0, 8 / 16.0}, 4);
}

TEST(softmax_is_over_the_middle_axis) {
    /* [2][2][2]: columns (0, 1), (0, 0) and (2, 2), (1, 3) */
    static const float x[] = {0, 0, 1, 0, 2, 1, 2, 3};
    double low = 1 / (1 + exp(1)), lower = 1 / (1 + exp(2));
    float y[8];
    cushim_softmax_f32_ref(x, y, 2, 2, 2);
    assert_values(y, (double[]){low, 0.5, 1 - low, 0.5, 0.5, lower, 0.5, 1 - lower}, 8);
}

TEST(a_scale_is_a_factor_of_x) {
    static const float x[] = {-1, 0.5f, 2};
    static const float scales[] = {3, -3, 0, 0.25f};
    float scaled[3], y[3], expected[3];
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 3; i++)
            scaled[i] = scales[k] * x[i];
        cushim_softmax_f32_ref(scaled, expected, 1, 3, 1);
        cushim_scaled_softmax_f32_ref(x, y, scales[k], 1, 3, 1);
        for (int i = 0; i < 3; i++)
            ck_assert_double_eq_tol(y[i], expected[i], 1e-7);
    }
}

TEST(a_scale_may_take_x_beyond_float) {
    static const float x[] = {FLT_MAX, -FLT_MAX, FLT_MAX};
    float y[3];
    cushim_scaled_softmax_f32_ref(x, y, FLT_MAX, 1, 3, 1);
    assert_values(y, (double[]){0.5, 0, 0.5}, 3);
    cushim_scaled_softmax_f32_ref(x, y, -FLT_MAX, 1, 3, 1);
    assert_values(y, (double[]){0, 1, 0}, 3);
}

static void assert_all_nan(float a, float b, float c, float scale) {
    float x[] = {a, b, c}, y[3];
    cushim_scaled_softmax_f32_ref(x, y, scale, 1, 3, 1);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(isnan(y[i]), "softmax of %g, %g, %g times %g: %g", a, b, c, scale, y[i]);
}

TEST(rows_without_a_maximum_are_nan) {
    assert_all_nan(-INFINITY, -INFINITY, -INFINITY, 1);
    assert_all_nan(INFINITY, INFINITY, INFINITY, -1);
    assert_all_nan(0, INFINITY, 0, 1);
    assert_all_nan(0, -INFINITY, 0, -1);
    assert_all_nan(0, 0, NAN, 1);
    assert_all_nan(0, -INFINITY, 0, 0);
    assert_all_nan(1, 2, 3, NAN);
    assert_all_nan(1, 2, 3, INFINITY);
}

TEST(minus_infinity_among_others_is_0) {
    static const float x[] = {-INFINITY, 1, 1};
    float y[3];
    cushim_softmax_f32_ref(x, y, 1, 3, 1);
    assert_values(y, (double[]){0, 0.5, 0.5}, 3);
}

TEST(halves_are_rounded_once) {
    static const uint16_t x[] = {HALF_1, HALF_1, HALF_1};
    uint16_t y[3];
    cushim_scaled_softmax_f16_ref(x, y, 0.5f, 1, 3, 1);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(y[i], 0x3555); /* 1/3 */
    cushim_scaled_softmax_f16_ref((uint16_t[]){HALF_INF, 0}, y, 1, 1, 2, 1);
    ck_assert_uint_gt(y[0] & 0x7FFF, HALF_INF);
    ck_assert_uint_gt(y[1] & 0x7FFF, HALF_INF);
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *function, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), function) && strstr(cushim_last_error(), text),
                  "\"%s\" has no \"%s\" of %s", cushim_last_error(), text, function);
}

static float *const f = (float *)0x10000, *const odd_f = (float *)0x10002;
static uint16_t *const h = (uint16_t *)0x10000, *const odd_h = (uint16_t *)0x10001;

/* call(x, y, outer, axis, inner) */
#define PLAIN(x, y, outer, axis, inner) cushim_softmax_f32(x, y, outer, axis, inner, NULL)
#define SCALED(x, y, outer, axis, inner)                                                           \
    cushim_scaled_softmax_f32(x, y, 1, outer, axis, inner, NULL)
#define HALVES(x, y, outer, axis, inner)                                                           \
    cushim_scaled_softmax_f16(x, y, 1, outer, axis, inner, NULL)

#define ASSERT_ERRORS(call, name, p, odd, text)                                                    \
    assert_error(call(p, p, -1, 1, 1), name, "outer=-1 is negative");                              \
    assert_error(call(p, p, 1, -2, 1), name, "axis=-2 is negative");                               \
    assert_error(call(p, p, 0, 1, -3), name, "inner=-3 is negative");                              \
    assert_error(call(p, p, INT64_MAX / 2, 2, 2), name, "x has more elements than");               \
    assert_error(call(p, p, INT64_MAX, 1, 1), name, "more bytes than");                            \
    assert_error(call(NULL, p, 1, 1, 1), name, "x=NULL");                                          \
    assert_error(call(p, NULL, 1, 1, 1), name, "y=NULL");                                          \
    assert_error(call(odd, p, 1, 1, 1), name, "x=" text);                                          \
    assert_error(call(p, odd, 1, 1, 1), name, "y=" text);                                          \
    ck_assert_int_eq(call(NULL, NULL, 0, 1, 1), CUSHIM_OK);                                        \
    ck_assert_int_eq(call(NULL, NULL, 1, 0, 1), CUSHIM_OK);                                        \
    ck_assert_int_eq(call(NULL, NULL, 1, 1, 0), CUSHIM_OK)

TEST(wrong_arguments_are_refused) {
    ASSERT_ERRORS(PLAIN, "cushim_softmax_f32", f, odd_f, "0x10002 is not a multiple of 4");
    ASSERT_ERRORS(SCALED, "cushim_scaled_softmax_f32", f, odd_f, "0x10002 is not a multiple of 4");
    ASSERT_ERRORS(HALVES, "cushim_scaled_softmax_f16", h, odd_h, "0x10001 is not a multiple of 2");
}

TEST(a_product_has_the_weights_of_a_softmax) {
    const float scores[] = {0, (float)log(3), 7}, v[] = {4, 10, 8, 20, 5, 6};
    float y[2] = {9, 9};
    cushim_softmax_mul_f32_ref(scores, v, y, 1, 1, 2, 2);
    ck_assert(fabsf(y[0] - 7) < 1e-6f && fabsf(y[1] - 17.5f) < 1e-5f); /* a quarter and the rest */
    cushim_softmax_mul_f32_ref(scores, v, y, 0, 1, 2, 2);
    ck_assert(y[0] == 6 && y[1] == 15);
    cushim_softmax_mul_f32_ref(NULL, NULL, y, 1, 1, 0, 2);
    ck_assert(y[0] == 0 && y[1] == 0);
}

TEST(a_wrong_product_is_refused) {
    const char *name = "cushim_softmax_mul_f32";
    assert_error(cushim_softmax_mul_f32(f, f, f, 1, -1, 1, 1, NULL), name, "rows=-1 is negative");
    assert_error(cushim_softmax_mul_f32(f, f, f, 1, 1, -1, 1, NULL), name, "n=-1 is negative");
    assert_error(cushim_softmax_mul_f32(f, f, f, 1, 1, 1, -1, NULL), name, "d=-1 is negative");
    assert_error(cushim_softmax_mul_f32(NULL, f, f, 1, 1, 1, 1, NULL), name, "scores=NULL");
    assert_error(cushim_softmax_mul_f32(f, odd_f, f, 1, 1, 1, 1, NULL), name, "v=0x10002");
    assert_error(cushim_softmax_mul_f32(f, f, NULL, 1, 1, 1, 1, NULL), name, "y=NULL");
    ck_assert_int_eq(cushim_softmax_mul_f32(NULL, NULL, NULL, 1, 0, 1, 1, NULL), CUSHIM_OK);
}

SUITE() {
    return tests_run("reference_softmax");
}
