/* The frame's own arithmetic: elements as numbers, draws, and when an output is right. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/tests/frame/frame.h"
#include "tests/unit/suite.h"

enum { N = 300, MOST_TEXT = 512 };

/* ---- values ---- */

TEST(every_f16_code_is_its_value_and_back) {
    for (unsigned code = 0; code < 0x10000; code++) {
        uint16_t in = (uint16_t)code, out = 0;
        double value = value_of(TYPE_F16, &in, 0);
        value_set(TYPE_F16, &out, 0, value);
        if (isnan(value))
            ck_assert((code & 0x7C00) == 0x7C00 && (code & 0x3FF) &&
                      isnan(value_of(TYPE_F16, &out, 0)));
        else
            ck_assert_uint_eq(out, code);
    }
    const uint16_t some[] = {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x0400, 0x7C00, 0xFC00};
    const double values[] = {1, -2, 65504, 0x1p-24, 0x1p-14, INFINITY, -INFINITY};
    for (unsigned i = 0; i < sizeof some / sizeof *some; i++)
        ck_assert(value_of(TYPE_F16, some, i) == values[i]);
}

TEST(every_e4m3_code_is_its_value_and_back) {
    for (unsigned code = 0; code < 0x100; code++) {
        uint8_t in = (uint8_t)code, out = 0;
        double value = value_of(TYPE_E4M3, &in, 0);
        value_set(TYPE_E4M3, &out, 0, value);
        ck_assert_int_eq(isnan(value), (code & 0x7F) == 0x7F);
        ck_assert_uint_eq(out & 0x7F, code & 0x7F);
        ck_assert(isnan(value) || out == code);
    }
    const uint8_t some[] = {0x38, 0x7E, 0x01, 0x08, 0xB8};
    const double values[] = {1, 448, 0x1p-9, 0x1p-6, -1};
    for (unsigned i = 0; i < sizeof some / sizeof *some; i++)
        ck_assert(value_of(TYPE_E4M3, some, i) == values[i]);
}

static unsigned f16_of(double value) {
    uint16_t code = 0;
    value_set(TYPE_F16, &code, 0, value);
    return code;
}

TEST(rounding_is_to_nearest_even) {
    ck_assert_uint_eq(f16_of(1 + 0x1p-11), 0x3C00); /* halfway, to even */
    ck_assert_uint_eq(f16_of(1 + 3 * 0x1p-11), 0x3C02);
    ck_assert_uint_eq(f16_of(1 + 0x1p-11 + 0x1p-40), 0x3C01);
    ck_assert_uint_eq(f16_of(2 - 0x1p-12), 0x4000); /* a carry into the exponent */
    ck_assert_uint_eq(f16_of(0x1p-25), 0);
    ck_assert_uint_eq(f16_of(-0x1.8p-25), 0x8001);
    ck_assert_uint_eq(f16_of(0x1p-14 - 0x1p-26), 0x0400); /* from a subnormal to a normal */
    ck_assert_uint_eq(f16_of(65519.99), 0x7BFF);
    ck_assert_uint_eq(f16_of(65520), 0x7C00);
    ck_assert_uint_eq(f16_of(-1e300), 0xFC00);
    ck_assert_uint_eq(f16_of(-INFINITY), 0xFC00);
}

TEST(the_same_key_draws_the_same_and_another_does_not) {
    struct kernel_draw a = {7}, b = {7}, c = {8};
    double sum = 0, squares = 0;
    float one[N], two[N], three[N];
    make_gauss_f32(&a, one, N);
    make_gauss_f32(&b, two, N);
    make_gauss_f32(&c, three, N);
    ck_assert_mem_eq(one, two, sizeof one);
    ck_assert_mem_ne(one, three, sizeof one);
    for (int i = 0; i < 100000; i++) {
        double u = draw_uniform(&a), g = draw_gauss(&a);
        ck_assert(u >= -1 && u < 1 && isfinite(g));
        sum += g;
        squares += g * g;
    }
    ck_assert(fabs(sum) < 1500 && fabs(squares - 100000) < 2000);
}

TEST(codes_of_e4m3_are_finite_and_all_come) {
    struct kernel_draw draw = {1};
    uint8_t codes[10000];
    bool has[256] = {false};
    make_codes_e4m3(&draw, codes, sizeof codes);
    for (unsigned i = 0; i < sizeof codes; i++)
        has[codes[i]] = true;
    for (unsigned code = 0; code < 256; code++)
        ck_assert(has[code] == ((code & 0x7F) != 0x7F));
}

/* ---- rules ---- */

static struct kernel_subject subject;
static float got[N], want[N];
static char text[MOST_TEXT];

/* The verdict on the first n elements of got and want. */
static bool is_right(const struct kernel_tolerance *tolerance, size_t n) {
    struct kernel_case c = {.subject = &subject, .n_operands = 1, .got = {got}, .host = {want}};
    c.operands[0] = (struct kernel_operand){.name = "c", .role = ROLE_OUT, .n = n};
    subject.tolerance = *tolerance;
    return compare_outputs(&c, text, sizeof text);
}

static bool is_one_right(const struct kernel_tolerance *tolerance, float one, float reference) {
    got[0] = one;
    want[0] = reference;
    return is_right(tolerance, 1);
}

static const struct kernel_tolerance none, two_ulps = {.ulps = 2},
                                           loose = {.relative = 1, .nmse = 1};

TEST(nothing_allowed_is_the_same_bits) {
    ck_assert(is_one_right(&none, 1.5f, 1.5f));
    ck_assert(!is_one_right(&none, nextafterf(1.5f, 2), 1.5f));
    ck_assert(!is_one_right(&none, -0.0f, 0.0f));
    ck_assert(is_one_right(&none, -NAN, NAN));
    ck_assert(is_one_right(&none, INFINITY, INFINITY));
}

TEST(nan_and_infinities_are_where_the_reference_has_them_however_loose) {
    const struct kernel_tolerance *rules[] = {&none, &two_ulps, &loose};
    for (int i = 0; i < 3; i++) {
        ck_assert(!is_one_right(rules[i], NAN, 1));
        ck_assert(!is_one_right(rules[i], 1, NAN));
        ck_assert(!is_one_right(rules[i], INFINITY, FLT_MAX));
        ck_assert(!is_one_right(rules[i], FLT_MAX, INFINITY));
        ck_assert(!is_one_right(rules[i], -INFINITY, INFINITY));
        ck_assert(!is_one_right(rules[i], NAN, INFINITY));
    }
    got[N - 1] = NAN; /* the others are the same */
    memcpy(want, got, sizeof got);
    want[N - 1] = 0;
    ck_assert(!is_right(&loose, N));
}

TEST(ulps_are_steps_of_the_type) {
    float a = 1.0f, b = nextafterf(nextafterf(a, 0), 0); /* across a power of two */
    ck_assert(is_one_right(&two_ulps, a, b));
    ck_assert(!is_one_right(&two_ulps, a, nextafterf(b, 0)));
    ck_assert(is_one_right(&two_ulps, -0x1p-149f, 0x1p-149f)); /* across zero */
    ck_assert(!is_one_right(&two_ulps, -0x1p-149f, 0x1p-148f));
    ck_assert(!is_one_right(&two_ulps, -0.0f, 0.0f));
    ck_assert(is_one_right(&(struct kernel_tolerance){.ulps = 2, .absolute = 1e-9}, -0.0f, 0.0f));
    ck_assert(!is_one_right(&two_ulps, -FLT_MAX, FLT_MAX));
}

TEST(relative_and_absolute_add_up) {
    const struct kernel_tolerance both = {.relative = 0x1p-10, .absolute = 0x1p-4};
    ck_assert(is_one_right(&both, 64 + 0x1p-3f, 64));
    ck_assert(!is_one_right(&both, 64 + 0x1.1p-3f, 64));
    ck_assert(is_one_right(&both, -0x1p-4f, 0));
}

static double half_at_2(const struct kernel_case *c, int operand, size_t i) {
    ck_assert_ptr_eq(c->subject, &subject);
    ck_assert_int_eq(operand, 0);
    return i == 2 ? 0.5 : 0;
}

TEST(a_bound_is_of_its_element) {
    const struct kernel_tolerance bound = {.bound = half_at_2};
    memset(got, 0, sizeof got);
    memset(want, 0, sizeof want);
    got[2] = 0.5f;
    ck_assert(is_right(&bound, 4));
    got[1] = 0.25f;
    ck_assert(!is_right(&bound, 4));
    ck_assert_msg(
        strstr(text, "c[1] = 0.25 (0x3e800000), the reference has 0 (0x00000000); 1 of 4"), "%s",
        text);
}

/* got is want except for one element, which has this error. */
static bool is_right_with_error(const struct kernel_tolerance *tolerance, size_t n, float error) {
    for (size_t i = 0; i < N; i++)
        got[i] = want[i] = i % 2 ? 1 : -1;
    got[2] += error;
    return is_right(tolerance, n);
}

TEST(nmse_is_of_the_whole_from_256_elements_up) {
    const struct kernel_tolerance nmse = {.nmse = 1e-6 / 256};
    ck_assert(is_right_with_error(&nmse, 256, 0.999e-3f));
    ck_assert(!is_right_with_error(&nmse, 256, 1.001e-3f));
    ck_assert_msg(strstr(text, "c: NMSE is 3.91e-09"), "%s", text);
    ck_assert(is_right_with_error(&nmse, 255, 0.999e-3f)); /* 16 sqrt(nmse) of the mean */
    ck_assert(!is_right_with_error(&nmse, 255, 1.001e-3f));
    ck_assert(!is_right_with_error(&nmse, 3, 1.001e-3f));
    ck_assert(is_right_with_error(&(struct kernel_tolerance){.nmse = 1e-9, .absolute = 1}, 255, 1));
    ck_assert(
        !is_right_with_error(&(struct kernel_tolerance){.nmse = 1e-9, .absolute = 1}, 256, 1));
}

TEST(beside_nmse_a_bound_still_holds) {
    const struct kernel_tolerance both = {.nmse = 1, .bound = half_at_2};
    ck_assert(is_right_with_error(&both, N, 0.5f));
    ck_assert(!is_right_with_error(&both, N, 0.75f));
    ck_assert_msg(strstr(text, "beyond its bound"), "%s", text);
}

int main(void) {
    return tests_run("rules");
}
