/*
 * Conversions: the references compared with values by hand and identities, and the errors of wrong
 * calls.
 */
#include "tests/unit/suite.h"

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

static uint16_t narrow(float value) {
    uint16_t half;
    cushim_convert_f32_f16_ref(&value, &half, 1);
    return half;
}

static float widen(uint16_t half) {
    float value;
    cushim_convert_f16_f32_ref(&half, &value, 1);
    return value;
}

static uint16_t dequant(uint8_t code, float scale) {
    uint16_t half;
    cushim_dequant_e4m3_f16_ref(&code, &half, scale, 1);
    return half;
}

static int is_nan_f16(uint16_t half) {
    return (half & 0x7FFF) > 0x7C00;
}

TEST(known_halves_have_their_bits) {
    static const struct {
        float value;
        uint16_t half;
    } rows[] = {{0, 0},
                {-0.f, 0x8000},
                {1, 0x3C00},
                {-2, 0xC000},
                {65504, 0x7BFF},
                {65519.996f, 0x7BFF},
                {65520, 0x7C00},
                {-1e9f, 0xFC00},
                {0x1p-14f, 0x400},
                {0x1p-24f, 1},
                {0x1p-25f, 0},
                {0x1.8p-24f, 2},
                {0x1.000002p-25f, 1},
                {0x1.ff8p-15f, 0x3FF},
                {0x1.ffcp-15f, 0x400},
                {INFINITY, 0x7C00},
                {-INFINITY, 0xFC00},
                {1.f / 3, 0x3555}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(narrow(rows[i].value) == rows[i].half, "%a: 0x%04x", rows[i].value,
                      narrow(rows[i].value));
    ck_assert(is_nan_f16(narrow(NAN)));
}

TEST(every_half_comes_back_from_float) {
    for (uint32_t half = 0; half < 65536; half++) {
        float value = widen((uint16_t)half);
        if (is_nan_f16((uint16_t)half))
            ck_assert(isnan(value));
        else
            ck_assert_uint_eq(narrow(value), half);
    }
}

/* Between neighbours: below the middle the lower one, above it the upper, at it the even one. */
TEST(the_middle_between_halves_goes_to_the_even_one) {
    for (uint32_t half = 0; half < 0x7BFF; half++) {
        float low = widen((uint16_t)half), high = widen((uint16_t)(half + 1));
        float middle = (low + high) / 2;
        ck_assert_uint_eq(narrow(middle), half + (half & 1));
        ck_assert_uint_eq(narrow(nextafterf(middle, 0)), half);
        ck_assert_uint_eq(narrow(nextafterf(middle, INFINITY)), half + 1);
        ck_assert_uint_eq(narrow(-middle), 0x8000 | (half + (half & 1)));
    }
}

TEST(widening_keeps_signs_of_zeros_and_infinities) {
    ck_assert_uint_eq(bits_of(widen(0x8000)), 0x80000000);
    ck_assert_uint_eq(bits_of(widen(0x7C00)), 0x7F800000);
    ck_assert_uint_eq(bits_of(widen(0xFC00)), 0xFF800000);
    ck_assert_uint_eq(bits_of(widen(0x0001)), 0x33800000);
    ck_assert_uint_eq(bits_of(widen(0x3555)), bits_of(0x1.554p-2f));
}

TEST(bf16_is_the_upper_half_of_a_float_to_nearest_even) {
    static const struct {
        float value;
        uint16_t bits;
    } rows[] = {{1, 0x3F80},
                {-2, 0xC000},
                {0x1.01p0f, 0x3F80},
                {0x1.03p0f, 0x3F82},
                {0x1.010002p0f, 0x3F81},
                {0x1.FEp127f, 0x7F7F},
                {0x1.FFp127f, 0x7F80},
                {0x1p-133f, 0x0001},
                {0x1p-134f, 0},
                {INFINITY, 0x7F80},
                {-0.0f, 0x8000}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint16_t bits;
        cushim_convert_f32_bf16_ref(&rows[i].value, &bits, 1);
        ck_assert_uint_eq(bits, rows[i].bits);
    }
}

TEST(every_code_of_e4m3_has_its_value) {
    for (int code = 0; code < 256; code++) {
        int exponent = code >> 3 & 15, fraction = code & 7;
        double size = exponent ? (1 + fraction / 8.0) * exp2(exponent - 7) : fraction / 8.0 / 64;
        uint16_t half = dequant((uint8_t)code, 1);
        if ((code & 0x7F) == 0x7F) {
            ck_assert(is_nan_f16(half));
            continue;
        }
        ck_assert(widen(half) == (code & 0x80 ? -size : size));
        ck_assert_int_eq(half >> 15, code >> 7);
    }
    ck_assert(widen(dequant(0x7E, 1)) == 448 && widen(dequant(1, 1)) == 0x1p-9f);
}

TEST(a_scale_is_applied_in_float_and_rounded_to_half_after) {
    ck_assert_uint_eq(dequant(0x38, 1.f / 3), 0x3555);
    ck_assert_uint_eq(dequant(0x7E, 1e30f), 0x7C00);
    ck_assert_uint_eq(dequant(0xFE, 1e30f), 0xFC00);
    ck_assert_uint_eq(dequant(0xB8, 0), 0x8000);
    ck_assert(is_nan_f16(dequant(0, INFINITY)) && is_nan_f16(dequant(0x38, NAN)));
    /* 1.125 * scale is 1 + 2^-11 + 3 * 2^-27: above the middle of two halves, but at it as a
     * float */
    float scale = (float)((0x1p27 + 0x1p16 + 3) / 9 * 0x1p-24);
    ck_assert_uint_eq(dequant(0x39, scale), 0x3C00);
}

TEST(sums_and_products_of_e4m3_round_at_each_step) {
    uint8_t a = 0x39, b = 0x3B; /* 1.125, 1.375 */
    uint16_t c;
    cushim_add_e4m3_f16_ref(&a, &b, &c, 2, -1, 1);
    ck_assert(widen(c) == 0.875f);
    cushim_mul_e4m3_f16_ref(&a, &b, &c, 2, -1, 1);
    ck_assert(widen(c) == -3.09375f);
    cushim_mul_e4m3_f16_ref(&a, &b, &c, 1e30f, 1e30f, 1);
    ck_assert_uint_eq(c, 0x7C00);
    cushim_add_e4m3_f16_ref(&a, &a, &c, 1e30f, -1e30f, 1);
    ck_assert_uint_eq(c, 0);
    b = 0xFF;
    cushim_add_e4m3_f16_ref(&a, &b, &c, 1, 0, 1);
    ck_assert(is_nan_f16(c));
    cushim_mul_e4m3_f16_ref(&b, &a, &c, 1, 0, 1);
    ck_assert(is_nan_f16(c));
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), text) != NULL, "\"%s\" has no \"%s\"",
                  cushim_last_error(), text);
}

static float *const f = (float *)0x10000;
static uint16_t *const h = (uint16_t *)0x20000;
static uint8_t *const q = (uint8_t *)0x30001;

TEST(wrong_arguments_are_refused) {
    assert_error(cushim_convert_f32_f16(f, h, -1, NULL), "cushim_convert_f32_f16 failed");
    assert_error(cushim_convert_f32_f16(f, h, -1, NULL), "n=-1 is negative");
    assert_error(cushim_convert_f32_f16(f, h, INT64_MAX / 2, NULL), "dst=");
    assert_error(cushim_convert_f32_f16(NULL, h, 1, NULL), "src=NULL");
    assert_error(cushim_convert_f32_f16((float *)0x10002, h, 1, NULL),
                 "src=0x10002 is not a multiple of 4");
    assert_error(cushim_convert_f32_f16(f, (uint16_t *)0x20001, 1, NULL),
                 "dst=0x20001 is not a multiple of 2");
    assert_error(cushim_convert_f16_f32(h, f, -7, NULL), "cushim_convert_f16_f32 failed");
    assert_error(cushim_convert_f16_f32(h, f, INT64_MAX / 2, NULL), "dst=");
    assert_error(cushim_convert_f16_f32(NULL, f, 1, NULL), "src=NULL");
    assert_error(cushim_convert_f16_f32(h, NULL, 1, NULL), "dst=NULL");
    assert_error(cushim_convert_f16_f32(h, (float *)0x10002, 1, NULL), "dst=0x10002");
    assert_error(cushim_dequant_e4m3_f16(q, h, 1, -1, NULL), "cushim_dequant_e4m3_f16 failed");
    assert_error(cushim_dequant_e4m3_f16(q, h, 1, INT64_MAX, NULL), "dst=");
    assert_error(cushim_dequant_e4m3_f16(NULL, h, 1, 1, NULL), "src=NULL");
    assert_error(cushim_dequant_e4m3_f16(q, (uint16_t *)0x20001, 1, 1, NULL), "dst=0x20001");
}

TEST(wrong_arguments_of_two_inputs_are_refused) {
    enum cushim_status (*const functions[])(const uint8_t *, const uint8_t *, uint16_t *, float,
                                            float, int64_t, struct CUstream_st *) = {
        cushim_add_e4m3_f16, cushim_mul_e4m3_f16};
    static const char *const names[] = {"cushim_add_e4m3_f16 failed", "cushim_mul_e4m3_f16 failed"};
    for (int i = 0; i < 2; i++) {
        assert_error(functions[i](q, q, h, 1, 1, -1, NULL), names[i]);
        assert_error(functions[i](q, q, h, 1, 1, INT64_MAX, NULL), "c=");
        assert_error(functions[i](NULL, q, h, 1, 1, 1, NULL), "a=NULL");
        assert_error(functions[i](q, NULL, h, 1, 1, 1, NULL), "b=NULL");
        assert_error(functions[i](q, q, NULL, 1, 1, 1, NULL), "c=NULL");
        assert_error(functions[i](q, q, (uint16_t *)0x20001, 1, 1, 1, NULL), "c=0x20001");
    }
}

TEST(nothing_is_done_without_an_element) {
    ck_assert_int_eq(cushim_convert_f32_f16(NULL, NULL, 0, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_convert_f16_f32(NULL, NULL, 0, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_dequant_e4m3_f16(NULL, NULL, 1, 0, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_add_e4m3_f16(NULL, NULL, NULL, 1, 1, 0, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_mul_e4m3_f16(NULL, NULL, NULL, 1, 1, 0, NULL), CUSHIM_OK);
}

SUITE() {
    return tests_run("reference_convert");
}
