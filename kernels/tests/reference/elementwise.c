/*
 * Elementwise functions: the references compared with values by hand and identities, and the errors
 * of wrong calls.
 */
#include "tests/unit/suite.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The same number; NaN equals NaN, and zeros have the same sign. */
#define assert_same(got, want)                                                                     \
    do {                                                                                           \
        float got_ = (got), want_ = (want);                                                        \
        ck_assert_msg(isnan(want_) ? isnan(got_) : bits_of(got_) == bits_of(want_),                \
                      "%s is %a and not %a", #got, (double)got_, (double)want_);                   \
    } while (0)

#define OF_TWO(op, type)                                                                           \
    static type op(type a, type b) {                                                               \
        type c;                                                                                    \
        cushim_##op##_ref(&a, &b, &c, 1);                                                          \
        return c;                                                                                  \
    }

OF_TWO(add_f32, float)
OF_TWO(sub_f32, float)
OF_TWO(mul_f32, float)
OF_TWO(div_f32, float)
OF_TWO(pow_f32, float)
OF_TWO(add_f16, uint16_t)
OF_TWO(sub_f16, uint16_t)
OF_TWO(mul_f16, uint16_t)
OF_TWO(div_f16, uint16_t)

#define UNARY(op)                                                                                  \
    static float op##_of(float a) {                                                                \
        float c;                                                                                   \
        cushim_##op##_f32_ref(&a, &c, 1);                                                          \
        return c;                                                                                  \
    }

UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(sin)
UNARY(cos)
UNARY(tanh)

#define SCALAR(op)                                                                                 \
    static float op##_scalar(float a, float s) {                                                   \
        float c;                                                                                   \
        cushim_##op##_scalar_f32_ref(&a, &c, s, 1);                                                \
        return c;                                                                                  \
    }

SCALAR(add)
SCALAR(sub)
SCALAR(mul)
SCALAR(div)
SCALAR(pow)

/* ---- values ---- */

TEST(arithmetic_on_float_is_ieee) {
    assert_same(add_f32(1, 0x1p-24f), 1);
    assert_same(add_f32(1, 0x1.000002p-24f), 0x1.000002p0f);
    assert_same(add_f32(FLT_MAX, FLT_MAX), INFINITY);
    assert_same(add_f32(0.0f, -0.0f), 0.0f);
    assert_same(sub_f32(INFINITY, INFINITY), NAN);
    assert_same(sub_f32(0x1p-126f, 0x1.8p-126f), -0x1p-127f);
    assert_same(mul_f32(0x1p-100f, 0x1p-49f), 0x1p-149f);
    assert_same(mul_f32(-0.0f, 5), -0.0f);
    assert_same(div_f32(1, 3), 0x1.555556p-2f);
    assert_same(div_f32(-1, 0.0f), -INFINITY);
    assert_same(div_f32(0, 0), NAN);
    assert_same(add_scalar(1.5f, -2), -0.5f);
    assert_same(sub_scalar(1.5f, -2), 3.5f);
    assert_same(mul_scalar(1.5f, -2), -3);
    assert_same(div_scalar(1.5f, -2), -0.75f);
    assert_same(div_scalar(1.5f, -0.0f), -INFINITY);
}

TEST(arithmetic_on_half_is_rounded_once) {
    ck_assert_uint_eq(add_f16(0x3C00, 0x1000), 0x3C00); /* 1 + 2^-11, the middle: to even */
    ck_assert_uint_eq(add_f16(0x3C00, 0x1001), 0x3C01);
    ck_assert_uint_eq(add_f16(0x3C01, 0x1000), 0x3C02);
    ck_assert_uint_eq(add_f16(0x7BFF, 0x4C00), 0x7C00); /* 65504 + 16 */
    ck_assert_uint_eq(add_f16(0x7BFF, 0x4BFF), 0x7BFF);
    ck_assert_uint_eq(sub_f16(0x0400, 0x0001), 0x03FF); /* subnormals */
    ck_assert_uint_eq(sub_f16(0x3C00, 0x3C00), 0x0000);
    ck_assert_uint_eq(mul_f16(0x0001, 0x3800), 0x0000); /* half of the least: to even */
    ck_assert_uint_eq(mul_f16(0x0003, 0x3800), 0x0002);
    ck_assert_uint_eq(mul_f16(0xC000, 0x3E00), 0xC200); /* -2 * 1.5 */
    ck_assert_uint_eq(div_f16(0x3C00, 0x4200), 0x3555); /* 1 / 3 */
    ck_assert_uint_eq(div_f16(0xBC00, 0x0000), 0xFC00);
    ck_assert_uint_gt(div_f16(0x0000, 0x0000) & 0x7FFF, 0x7C00); /* NaN */
}

TEST(functions_have_their_values) {
    assert_same(exp_of(0), 1);
    assert_same(exp_of(1), 0x1.5bf0a8p1f);
    assert_same(exp_of(-INFINITY), 0);
    assert_same(exp_of(89), INFINITY);
    assert_same(exp_of(-103.5f), 0x1p-149f);
    assert_same(exp_of(NAN), NAN);
    assert_same(log_of(1), 0);
    assert_same(log_of(0x1p-149f), -0x1.9d1dap6f);
    assert_same(log_of(0.0f), -INFINITY);
    assert_same(log_of(-0.0f), -INFINITY);
    assert_same(log_of(-1), NAN);
    assert_same(sqrt_of(2), 0x1.6a09e6p0f);
    assert_same(sqrt_of(-0.0f), -0.0f);
    assert_same(sqrt_of(-1), NAN);
    assert_same(rsqrt_of(4), 0.5f);
    assert_same(rsqrt_of(0.0f), INFINITY);
    assert_same(rsqrt_of(-0.0f), -INFINITY);
    assert_same(rsqrt_of(INFINITY), 0);
    assert_same(rsqrt_of(0x1p-148f), 0x1p74f);
    assert_same(sin_of(-0.0f), -0.0f);
    assert_same(sin_of(1), 0x1.aed548p-1f);
    assert_same(sin_of(0x1p22f), (float)sin(0x1p22));
    assert_same(sin_of(INFINITY), NAN);
    assert_same(cos_of(0), 1);
    assert_same(cos_of(1), 0x1.14a28p-1f);
    assert_same(cos_of(-INFINITY), NAN);
    assert_same(tanh_of(INFINITY), 1);
    assert_same(tanh_of(-50), -1);
    assert_same(tanh_of(0x1p-100f), 0x1p-100f);
    assert_same(tanh_of(NAN), NAN);
}

TEST(sines_and_cosines_are_on_the_circle) {
    for (float angle = -1e5f; angle < 1e5f; angle += 37.25f)
        ck_assert_double_eq_tol(pow(sin_of(angle), 2) + pow(cos_of(angle), 2), 1, 3e-7);
}

/* The special cases of pow in IEEE 754. */
TEST(powers_have_their_special_cases) {
    float (*const powers[])(float, float) = {pow_f32, pow_scalar};
    for (int i = 0; i < 2; i++) {
        float (*power)(float, float) = powers[i];
        assert_same(power(-2, 3), -8);
        assert_same(power(-2, 2), 4);
        assert_same(power(2, 10), 1024);
        assert_same(power(-2, 0.5f), NAN);
        assert_same(power(NAN, 0), 1);
        assert_same(power(1, NAN), 1);
        assert_same(power(-1, NAN), NAN);
        assert_same(power(-1, INFINITY), 1);
        assert_same(power(0.5f, -INFINITY), INFINITY);
        assert_same(power(-0.0f, 0.5f), 0);
        assert_same(power(-0.0f, -0.5f), INFINITY);
        assert_same(power(-0.0f, -1), -INFINITY);
        assert_same(power(-0.0f, 3), -0.0f);
        assert_same(power(-INFINITY, 0.5f), INFINITY);
        assert_same(power(-INFINITY, -0.5f), 0);
        assert_same(power(-INFINITY, 3), -INFINITY);
        assert_same(power(-INFINITY, -1), -0.0f);
        assert_same(power(0x1p-140f, 0.5f), 0x1p-70f);
        assert_same(power(0x1p64f, 2), INFINITY);
    }
}

TEST(fill_keeps_every_bit) {
    static const uint32_t patterns[] = {0x3F800000, 0x80000000, 0x7FA00001, 0xFFC12345};
    for (int i = 0; i < 4; i++) {
        float value;
        uint32_t values[3] = {1, 2, 3};
        memcpy(&value, &patterns[i], sizeof value);
        cushim_fill_f32_ref((float *)values, value, 2);
        ck_assert_uint_eq(values[0], patterns[i]);
        ck_assert_uint_eq(values[1], patterns[i]);
        ck_assert_uint_eq(values[2], 3);
    }
}

/* ---- dropout ---- */

static float drop(float p, float keep_scale, uint64_t key, int64_t i) {
    float in[8] = {3, 3, 3, 3, 3, 3, 3, 3}, out[8];
    cushim_dropout_f32_ref(in, out, p, keep_scale, key, 8);
    return out[i];
}

/* The generator's published answers for the counter 0: 6627e8d5 with the key 0. */
TEST(dropout_has_the_generators_first_word) {
    float u = (float)0x6627e8d5u * 0x1p-32f;
    assert_same(drop(u, 2, 0, 0), 6);
    assert_same(drop(nextafterf(u, 1), 2, 0, 0), 0.0f);
    assert_same(drop(nextafterf(u, 0), 2, 0, 0), 6);
}

TEST(dropout_without_a_probability_copies) {
    uint32_t in[2] = {0x7FA00001, 0x80000000}, out[2];
    cushim_dropout_f32_ref((float *)in, (float *)out, 0, 7, 1, 2);
    ck_assert_mem_eq(in, out, sizeof in);
    cushim_dropout_f32_ref((float *)in, (float *)out, -0.0f, 7, 1, 2);
    ck_assert_mem_eq(in, out, sizeof in);
}

TEST(dropout_keeps_all_or_none_at_the_ends) {
    for (int64_t i = 0; i < 8; i++) {
        assert_same(drop(-1, 2, 5, i), 6);
        assert_same(drop(1.5f, 2, 5, i), 0.0f);
        assert_same(drop(NAN, 2, 5, i), 0.0f);
        assert_same(drop(INFINITY, 2, 5, i), 0.0f);
    }
}

TEST(dropout_drops_a_share_of_p) {
    enum { N = 100000 };
    static float in[N], out[N];
    for (int i = 0; i < N; i++)
        in[i] = 1;
    for (uint64_t key = 1; key < 4; key++) {
        int n_dropped = 0;
        cushim_dropout_f32_ref(in, out, 0.3f, 2, key << 31, N);
        for (int i = 0; i < N; i++)
            n_dropped += out[i] == 0;
        ck_assert_int_gt(n_dropped, 29400);
        ck_assert_int_lt(n_dropped, 30600);
    }
}

/* ---- AdamW ---- */

TEST(a_step_of_adamw_by_hand) {
    float param = 2, m = 4, grad = 8;
    double v = 16;
    cushim_adamw_f32_ref(&param, &m, &v, &grad, 0.5, 0.25, 0.5, 0.75, 0.5, 2, 0.125, 1);
    /* m = 2 + 4, v = 4 + 48, p = 2 - 12 / (sqrt(52) + 0.5) - 0.25 */
    assert_same(m, 6);
    ck_assert_double_eq(v, 52);
    assert_same(param, (float)(1.75 - 12 / (sqrt(52) + 0.5)));
    assert_same(grad, 0.0f);
}

TEST(the_second_moment_keeps_more_than_float) {
    float param = 1, m = 0, grad = 0x1p-20f;
    double v = 1;
    cushim_adamw_f32_ref(&param, &m, &v, &grad, 0.9, 1, 0.1, 1, 1e-8, 0, 0, 1);
    ck_assert_double_eq(v, 1 + 0x1p-40);
    assert_same(param, 1);
}

TEST(an_unrounded_moment_enters_the_parameter) {
    float param = 0, m = 0, grad = 1;
    double v = 0;
    cushim_adamw_f32_ref(&param, &m, &v, &grad, 0, 0, 1 + 0x1p-30, 1, 0, 0x1p30, 0, 1);
    assert_same(m, 1);
    assert_same(param, -(float)(0x1p30 + 1));
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *function, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), function) && strstr(cushim_last_error(), text),
                  "\"%s\" has no \"%s\" of %s", cushim_last_error(), text, function);
}

static float *const f = (float *)0x10000, *const odd_f = (float *)0x10002;
static uint16_t *const h = (uint16_t *)0x20000, *const odd_h = (uint16_t *)0x20001;
static double *const d = (double *)0x30000, *const odd_d = (double *)0x30004;

#define ASSERT_TWO_ERRORS(function, good, odd, rule)                                               \
    assert_error(function(good, good, good, -1, NULL), #function, "n=-1 is negative");             \
    assert_error(function(good, good, good, INT64_MAX / 2 + 1, NULL), #function, "a=");            \
    assert_error(function(NULL, good, good, 1, NULL), #function, "a=NULL");                        \
    assert_error(function(good, NULL, good, 1, NULL), #function, "b=NULL");                        \
    assert_error(function(good, good, NULL, 1, NULL), #function, "c=NULL");                        \
    assert_error(function(odd, good, good, 1, NULL), #function, "a=0x");                           \
    assert_error(function(good, odd, good, 1, NULL), #function, "b=0x");                           \
    assert_error(function(good, good, odd, 1, NULL), #function, rule);                             \
    ck_assert_int_eq(function(NULL, NULL, NULL, 0, NULL), CUSHIM_OK)

TEST(wrong_operands_are_refused) {
    ASSERT_TWO_ERRORS(cushim_add_f32, f, odd_f, "c=0x10002 is not a multiple of 4");
    ASSERT_TWO_ERRORS(cushim_sub_f32, f, odd_f, "c=0x10002 is not a multiple of 4");
    ASSERT_TWO_ERRORS(cushim_mul_f32, f, odd_f, "c=0x10002 is not a multiple of 4");
    ASSERT_TWO_ERRORS(cushim_div_f32, f, odd_f, "c=0x10002 is not a multiple of 4");
    ASSERT_TWO_ERRORS(cushim_pow_f32, f, odd_f, "c=0x10002 is not a multiple of 4");
    ASSERT_TWO_ERRORS(cushim_add_f16, h, odd_h, "c=0x20001 is not a multiple of 2");
    ASSERT_TWO_ERRORS(cushim_sub_f16, h, odd_h, "c=0x20001 is not a multiple of 2");
    ASSERT_TWO_ERRORS(cushim_mul_f16, h, odd_h, "c=0x20001 is not a multiple of 2");
    ASSERT_TWO_ERRORS(cushim_div_f16, h, odd_h, "c=0x20001 is not a multiple of 2");
}

#define ASSERT_SCALAR_ERRORS(function)                                                             \
    assert_error(function(f, f, 1, -1, NULL), #function, "n=-1 is negative");                      \
    assert_error(function(f, f, 1, INT64_MAX / 2, NULL), #function, "a=");                         \
    assert_error(function(NULL, f, 1, 1, NULL), #function, "a=NULL");                              \
    assert_error(function(f, NULL, 1, 1, NULL), #function, "c=NULL");                              \
    assert_error(function(odd_f, f, 1, 1, NULL), #function, "a=0x10002 is not a multiple of 4");   \
    assert_error(function(f, odd_f, 1, 1, NULL), #function, "c=0x10002 is not a multiple of 4");   \
    ck_assert_int_eq(function(NULL, NULL, NAN, 0, NULL), CUSHIM_OK)

TEST(wrong_operands_beside_a_number_are_refused) {
    ASSERT_SCALAR_ERRORS(cushim_add_scalar_f32);
    ASSERT_SCALAR_ERRORS(cushim_sub_scalar_f32);
    ASSERT_SCALAR_ERRORS(cushim_mul_scalar_f32);
    ASSERT_SCALAR_ERRORS(cushim_div_scalar_f32);
    ASSERT_SCALAR_ERRORS(cushim_pow_scalar_f32);
}

#define ASSERT_ONE_ERRORS(function)                                                                \
    assert_error(function(f, f, -5, NULL), #function, "n=-5 is negative");                         \
    assert_error(function(f, f, INT64_MAX / 2, NULL), #function, "a=");                            \
    assert_error(function(NULL, f, 1, NULL), #function, "a=NULL");                                 \
    assert_error(function(f, NULL, 1, NULL), #function, "c=NULL");                                 \
    assert_error(function(odd_f, f, 1, NULL), #function, "a=0x10002 is not a multiple of 4");      \
    assert_error(function(f, odd_f, 1, NULL), #function, "c=0x10002 is not a multiple of 4");      \
    ck_assert_int_eq(function(NULL, NULL, 0, NULL), CUSHIM_OK)

TEST(wrong_operands_of_functions_are_refused) {
    ASSERT_ONE_ERRORS(cushim_exp_f32);
    ASSERT_ONE_ERRORS(cushim_log_f32);
    ASSERT_ONE_ERRORS(cushim_sqrt_f32);
    ASSERT_ONE_ERRORS(cushim_rsqrt_f32);
    ASSERT_ONE_ERRORS(cushim_sin_f32);
    ASSERT_ONE_ERRORS(cushim_cos_f32);
    ASSERT_ONE_ERRORS(cushim_tanh_f32);
}

TEST(a_wrong_fill_is_refused) {
    static const char name[] = "cushim_fill_f32";
    assert_error(cushim_fill_f32(f, 1, -1, NULL), name, "n=-1 is negative");
    assert_error(cushim_fill_f32(f, 1, INT64_MAX / 2, NULL), name, "dst=");
    assert_error(cushim_fill_f32(NULL, 1, 1, NULL), name, "dst=NULL");
    assert_error(cushim_fill_f32(odd_f, 1, 1, NULL), name, "dst=0x10002 is not a multiple of 4");
    ck_assert_int_eq(cushim_fill_f32(NULL, 1, 0, NULL), CUSHIM_OK);
}

TEST(a_wrong_dropout_is_refused) {
    static const char name[] = "cushim_dropout_f32";
    assert_error(cushim_dropout_f32(f, f, 0.5f, 2, 1, -1, NULL), name, "n=-1 is negative");
    assert_error(cushim_dropout_f32(f, f, 0.5f, 2, 1, INT64_MAX / 2, NULL), name, "in=");
    assert_error(cushim_dropout_f32(NULL, f, 0.5f, 2, 1, 1, NULL), name, "in=NULL");
    assert_error(cushim_dropout_f32(f, NULL, 0.5f, 2, 1, 1, NULL), name, "out=NULL");
    assert_error(cushim_dropout_f32(odd_f, f, 0.5f, 2, 1, 1, NULL), name, "in=0x10002");
    assert_error(cushim_dropout_f32(f, odd_f, 0.5f, 2, 1, 1, NULL), name, "out=0x10002");
    ck_assert_int_eq(cushim_dropout_f32(NULL, NULL, 0.5f, 2, 1, 0, NULL), CUSHIM_OK);
}

static enum cushim_status step(float *param, float *m, double *v, float *grad, int64_t n) {
    return cushim_adamw_f32(param, m, v, grad, 0.9, 0.99, 0.1, 0.01, 1e-8, 1e-3, 0, n, NULL);
}

TEST(a_wrong_step_of_adamw_is_refused) {
    static const char name[] = "cushim_adamw_f32";
    assert_error(step(f, f, d, f, -1), name, "n=-1 is negative");
    assert_error(step(f, f, d, f, INT64_MAX / 8 + 1), name, "v=");
    assert_error(step(NULL, f, d, f, 1), name, "param=NULL");
    assert_error(step(f, NULL, d, f, 1), name, "m=NULL");
    assert_error(step(f, f, NULL, f, 1), name, "v=NULL");
    assert_error(step(f, f, d, NULL, 1), name, "grad=NULL");
    assert_error(step(odd_f, f, d, f, 1), name, "param=0x10002 is not a multiple of 4");
    assert_error(step(f, odd_f, d, f, 1), name, "m=0x10002 is not a multiple of 4");
    assert_error(step(f, f, odd_d, f, 1), name, "v=0x30004 is not a multiple of 8");
    assert_error(step(f, f, d, odd_f, 1), name, "grad=0x10002 is not a multiple of 4");
    ck_assert_int_eq(step(NULL, NULL, NULL, NULL, 0), CUSHIM_OK);
}

SUITE() {
    return tests_run("reference_elementwise");
}
