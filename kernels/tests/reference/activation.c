/*
 * Activations with a factor: the references compared with values by hand, and the errors of wrong
 * calls.
 */
#include "tests/unit/suite.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

static float tanh_prime(float a, float upstream) {
    float c;
    cushim_tanh_prime_f32_ref(&a, &upstream, &c, 1);
    return c;
}

static float swiglu(float w1, float w3) {
    float y;
    cushim_swiglu_f32_ref(&w1, &w3, &y, 1);
    return y;
}

#define assert_near(got, want)                                                                     \
    ck_assert_double_eq_tol((double)(got), (double)(want), 1e-7 * fabs((double)(want)))

TEST(the_slope_of_tanh_has_its_values) {
    ck_assert_float_eq(tanh_prime(0, 3), 3);
    ck_assert_float_eq(tanh_prime(0, FLT_MAX), FLT_MAX);
    assert_near(tanh_prime(0.5f, 1), 1 - tanh(0.5) * tanh(0.5));
    assert_near(tanh_prime(-0.5f, 2), 2 * (1 - tanh(0.5) * tanh(0.5)));
    assert_near(tanh_prime(3, -1), -(1 - tanh(3) * tanh(3)));
    assert_near(tanh_prime(20, 1), 4 * exp(-40)); /* 1 - tanh^2 would be 0 */
    assert_near(tanh_prime(40, 1e20f), 4 * exp(-80) * (double)1e20f);
    ck_assert_float_eq(tanh_prime(INFINITY, 5), 0);
    ck_assert(isnan(tanh_prime(INFINITY, INFINITY)));
    ck_assert(tanh_prime(-1000, INFINITY) == INFINITY);
    ck_assert(isnan(tanh_prime(NAN, 1)));
    ck_assert(isnan(tanh_prime(1, NAN)));
}

/* The slope equals the difference of two values. */
TEST(the_slope_of_tanh_is_its_slope) {
    for (float a = -4; a <= 4; a += 0.03125f) {
        double slope = (tanh(a + 0x1p-20) - tanh(a - 0x1p-20)) * 0x1p19;
        ck_assert_double_eq_tol(tanh_prime(a, 1), slope, 1e-7);
    }
}

TEST(swiglu_has_its_values) {
    ck_assert_float_eq(swiglu(0, 7), 0);
    assert_near(swiglu(1, 1), 1 / (1 + exp(-1)));
    assert_near(swiglu(-1, 3), -3 / (1 + exp(1)));
    assert_near(swiglu(50, 2), 100);
    assert_near(swiglu(-50, 1), -50 * exp(-50));
    ck_assert(swiglu(INFINITY, -2) == -INFINITY);
    ck_assert(isnan(swiglu(INFINITY, 0)));
    ck_assert(swiglu(-1000, INFINITY) == -INFINITY);
    ck_assert(swiglu(0x1p-149f, -INFINITY) == -INFINITY);
    ck_assert(isnan(swiglu(0, INFINITY)));
    ck_assert(isnan(swiglu(-INFINITY, INFINITY)));
    ck_assert(isnan(swiglu(NAN, 1)));
    ck_assert(isnan(swiglu(1, NAN)));
}

TEST(swiglu_of_minus_infinity_is_the_limit) {
    float limit = swiglu(-INFINITY, 2), other = swiglu(-INFINITY, -2);
    ck_assert(limit == 0 && signbit(limit));
    ck_assert(other == 0 && !signbit(other));
}

/* silu(x) - silu(-x) = x */
TEST(gates_of_both_signs_add_up) {
    for (float x = 0; x < 30; x += 0.125f)
        ck_assert_double_eq_tol((double)swiglu(x, 1) - (double)swiglu(-x, 1), x, 2e-6);
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *function, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), function) && strstr(cushim_last_error(), text),
                  "\"%s\" has no \"%s\" of %s", cushim_last_error(), text, function);
}

static float *const f = (float *)0x10000, *const odd = (float *)0x10002;

#define ASSERT_ERRORS(function, a, b, c)                                                           \
    assert_error(function(f, f, f, -1, NULL), #function, "n=-1 is negative");                      \
    assert_error(function(f, f, f, INT64_MAX / 2, NULL), #function, a "=");                        \
    assert_error(function(NULL, f, f, 1, NULL), #function, a "=NULL");                             \
    assert_error(function(f, NULL, f, 1, NULL), #function, b "=NULL");                             \
    assert_error(function(f, f, NULL, 1, NULL), #function, c "=NULL");                             \
    assert_error(function(odd, f, f, 1, NULL), #function, a "=0x10002 is not a multiple of 4");    \
    assert_error(function(f, odd, f, 1, NULL), #function, b "=0x10002 is not a multiple of 4");    \
    assert_error(function(f, f, odd, 1, NULL), #function, c "=0x10002 is not a multiple of 4");    \
    ck_assert_int_eq(function(NULL, NULL, NULL, 0, NULL), CUSHIM_OK)

TEST(wrong_arguments_are_refused) {
    ASSERT_ERRORS(cushim_tanh_prime_f32, "a", "upstream", "c");
    ASSERT_ERRORS(cushim_swiglu_f32, "w1", "w3", "y");
}

SUITE() {
    return tests_run("reference_activation");
}
