/*
 * Dequantisation: the reference compared with blocks packed by hand, and the errors of wrong calls.
 */
#include "tests/unit/suite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

enum { VALUES = 256, BYTES = 144 };

/* d = 0.5 (0x3800), dmin = 2 (0x4000). */
static void put_scales(uint8_t *block) {
    const uint8_t halves[] = {0x00, 0x38, 0x00, 0x40};
    memset(block, 0, BYTES);
    memcpy(block, halves, sizeof halves);
}

TEST(the_first_scales_are_the_low_six_bits) {
    uint8_t block[BYTES];
    float y[VALUES];
    put_scales(block);
    block[4] = 63; /* sc[0] */
    block[8] = 5;  /* mn[0] */
    block[16] = 0x07;
    block[47] = 0x0F;
    cushim_dequant_q4k_f32_ref(block, y, 1, VALUES);
    ck_assert(y[0] == 0.5f * 63 * 7 - 2 * 5);
    ck_assert(y[1] == -10);
    ck_assert(y[31] == 0.5f * 63 * 15 - 10);
    ck_assert(y[32] == 0 && y[255] == 0);
}

TEST(the_last_scales_are_of_two_parts) {
    uint8_t block[BYTES];
    float y[VALUES];
    put_scales(block);
    block[4 + 3] = 2 << 6;      /* the upper bits of sc[7] */
    block[4 + 7] = 3 << 6;      /* of mn[7] */
    block[4 + 11] = 9 | 4 << 4; /* the lower ones: sc[7] = 41, mn[7] = 52 */
    block[16 + 96] = 0xC0;      /* value 224 */
    cushim_dequant_q4k_f32_ref(block, y, 1, VALUES);
    ck_assert(y[224] == 0.5f * 41 * 12 - 2 * 52);
    ck_assert(y[225] == -104);
    ck_assert(y[96] == 0 && y[192] == 0);
}

TEST(each_nibble_has_its_place) {
    uint8_t block[BYTES];
    float y[VALUES];
    put_scales(block);
    for (int j = 0; j < 4; j++)
        block[4 + j] = 1;
    for (int j = 8; j < 12; j++)
        block[4 + j] = 1;
    for (int byte = 0; byte < 128; byte++) {
        memset(block + 16, 0, 128);
        block[16 + byte] = 0x52;
        cushim_dequant_q4k_f32_ref(block, y, 1, VALUES);
        for (int i = 0; i < VALUES; i++) {
            int low = 64 * (byte / 32) + byte % 32;
            ck_assert(y[i] == (i == low ? 1 : i == low + 32 ? 2.5f : 0));
        }
    }
}

TEST(a_difference_is_rounded_after_its_products) {
    uint8_t block[BYTES];
    float y[VALUES];
    put_scales(block);
    block[0] = 0xFF; /* d = 65504 */
    block[1] = 0x7B;
    block[2] = 0x01; /* dmin = 2^-24 */
    block[3] = 0x00;
    block[4] = 63;
    block[8] = 63;
    block[16] = 0x0F;
    cushim_dequant_q4k_f32_ref(block, y, 1, VALUES);
    ck_assert(y[0] == 65504.f * 63 * 15);
    ck_assert(y[1] == -63 * 0x1p-24f);
}

TEST(rows_follow_each_other) {
    uint8_t blocks[4 * BYTES] = {0};
    float y[4 * VALUES];
    for (int i = 0; i < 4; i++) {
        put_scales(blocks + i * BYTES);
        blocks[i * BYTES + 4] = (uint8_t)(i + 1);
        blocks[i * BYTES + 16] = 2;
    }
    cushim_dequant_q4k_f32_ref(blocks, y, 2, 2 * VALUES);
    for (int i = 0; i < 4; i++)
        ck_assert(y[i * VALUES] == (float)(i + 1));
}

static void assert_error(enum cushim_status status, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), text) != NULL, "%s", cushim_last_error());
}

TEST(wrong_arguments_are_refused) {
    void *w = (void *)0x10000, *odd = (void *)0x10001;
    float *y = (float *)0x20000, *odd_y = (float *)0x20002;
    assert_error(cushim_dequant_q4k_f32(w, y, -1, 256, NULL), "cushim_dequant_q4k_f32 failed");
    assert_error(cushim_dequant_q4k_f32(w, y, -1, 256, NULL), "rows=-1 is negative");
    assert_error(cushim_dequant_q4k_f32(w, y, 1, -256, NULL), "k=-256 is negative");
    assert_error(cushim_dequant_q4k_f32(w, y, 1, 300, NULL), "k=300 is not a multiple of 256");
    assert_error(cushim_dequant_q4k_f32(w, y, 0, 300, NULL), "k=300 is not a multiple of 256");
    assert_error(cushim_dequant_q4k_f32(w, y, (int64_t)1 << 40, (int64_t)1 << 40, NULL), "y has");
    assert_error(cushim_dequant_q4k_f32(w, y, (int64_t)1 << 31, (int64_t)1 << 31, NULL), "y=");
    assert_error(cushim_dequant_q4k_f32(NULL, y, 1, 256, NULL), "w=NULL");
    assert_error(cushim_dequant_q4k_f32(w, NULL, 1, 256, NULL), "y=NULL");
    assert_error(cushim_dequant_q4k_f32(odd, y, 1, 256, NULL), "w=0x10001 is not a multiple of 2");
    assert_error(cushim_dequant_q4k_f32(w, odd_y, 1, 256, NULL),
                 "y=0x20002 is not a multiple of 4");
    ck_assert_int_eq(cushim_dequant_q4k_f32(NULL, NULL, 0, 256, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_dequant_q4k_f32(NULL, NULL, 3, 0, NULL), CUSHIM_OK);
}

SUITE() {
    return tests_run("reference_quant");
}

/* ---- five and six bits ---- */

TEST(q5_0_has_its_fifth_bits_in_front) {
    uint8_t block[22] = {0x00, 0x38}; /* d = 0.5 */
    float y[32];
    block[2] = 1;     /* value 0 */
    block[5] = 0x80;  /* value 31 */
    block[6] = 0x07;  /* values 0 and 16 */
    block[21] = 0xF0; /* values 15 and 31 */
    cushim_dequant_q5_0_f32_ref(block, y, 1, 32);
    ck_assert(y[0] == 0.5f * 7);
    ck_assert(y[1] == -8 && y[16] == -8);
    ck_assert(y[31] == 0.5f * 15 && y[15] == -8);
}

TEST(q5k_has_bit_j_for_the_32_values_of_scale_j) {
    uint8_t block[176] = {0x00, 0x38, 0x00, 0x40}; /* d = 0.5, dmin = 2 */
    float y[VALUES];
    block[4] = 3;          /* sc[0] */
    block[7] = 5;          /* sc[3] */
    block[11] = 7;         /* mn[3] */
    block[16] = 1;         /* value 0 */
    block[17] = 1 << 3;    /* value 97 */
    block[48] = 0x02;      /* value 0 */
    block[48 + 33] = 0x90; /* value 97 */
    cushim_dequant_q5k_f32_ref(block, y, 1, VALUES);
    ck_assert(y[0] == 0.5f * 3 * (16 + 2));
    ck_assert(y[97] == 0.5f * 5 * (16 + 9) - 2 * 7);
    ck_assert(y[98] == -14 && y[1] == 0);
}

TEST(q6k_has_signed_scales_of_16_values) {
    uint8_t block[210] = {0};
    float y[VALUES];
    block[209] = 0x38;      /* d = 0.5 */
    block[192] = 2;         /* of values 0 to 15 */
    block[192 + 13] = 0xFE; /* of values 208 to 223: -2 */
    block[0] = 0x05;        /* value 0 */
    block[128] = 0x03;      /* and its high bits */
    block[64 + 16] = 0x90;  /* value 208, with the scale 13 */
    cushim_dequant_q6k_f32_ref(block, y, 1, VALUES);
    ck_assert(y[0] == 0.5f * 2 * (48 + 5 - 32));
    ck_assert(y[1] == 0.5f * 2 * -32);
    ck_assert(y[208] == 0.5f * -2 * (9 - 32));
    ck_assert(y[16] == 0);
}

/* ---- many columns ---- */

TEST(a_product_has_a_column_for_each_of_b) {
    uint8_t w[2 * 22] = {0x00, 0x38}; /* d = 0.5, then 0 */
    float b[32 * 3], c[2 * 3];
    for (int i = 0; i < 32 * 3; i++)
        b[i] = i / 3 == 0 ? (float)(i + 1) : 0; /* row 0 is 1, 2, 3 */
    w[6] = 0x03;                                /* value 0 is 0.5 (3 - 16) */
    cushim_gemm_q5_0_f32_ref(w, b, c, 2, 32, 3);
    for (int i = 0; i < 3; i++)
        ck_assert(c[i] == -6.5f * (float)(i + 1) && c[3 + i] == 0);
}

TEST(two_bits_are_minus_one_zero_and_one) {
    const uint8_t w[] = {0x00 | 1 << 2 | 2 << 4 | 3 << 6, 2, 0,
                         0xFF}; /* rows -1 0 1 0 1, -1 -1 -1 -1 0 */
    const float x[] = {1, 10, 100, 1000, 10000};
    float y[2];
    cushim_gemv_ternary_f32_ref(w, x, y, 2, 5);
    ck_assert(y[0] == 10099 && y[1] == -1111);
    assert_error(cushim_gemv_ternary_f32(w, x, y, -1, 5, NULL), "m=-1 is negative");
    assert_error(cushim_gemv_ternary_f32(w, x, y, 1, -5, NULL), "k=-5 is negative");
    assert_error(cushim_gemv_ternary_f32(NULL, x, y, 1, 5, NULL), "w=NULL");
    assert_error(cushim_gemv_ternary_f32(w, NULL, y, 1, 5, NULL), "x=NULL");
    assert_error(cushim_gemv_ternary_f32(w, x, NULL, 1, 5, NULL), "y=NULL");
    ck_assert_int_eq(cushim_gemv_ternary_f32(NULL, NULL, NULL, 0, 5, NULL), CUSHIM_OK);
}

TEST(four_bits_are_floats) {
    const uint8_t w[] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE};
    const uint16_t scale = 0x4000; /* 2 */
    uint16_t x[16] = {0};
    float y;
    for (int i = 0; i < 16; i++) {
        const float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
        memset(x, 0, sizeof x);
        x[i] = 0x3800; /* 0.5 */
        cushim_gemv_e2m1_f16_f32_ref(w, &scale, x, &y, 1, 16);
        ck_assert(y == (i < 8 ? magnitudes[i] : -magnitudes[i - 8]));
    }
    assert_error(cushim_gemv_e2m1_f16_f32(w, x, x, &y, -1, 16, NULL), "m=-1 is negative");
    assert_error(cushim_gemv_e2m1_f16_f32(w, x, x, &y, 1, 8, NULL), "k=8 is not a multiple of 16");
    assert_error(cushim_gemv_e2m1_f16_f32(NULL, x, x, &y, 1, 16, NULL), "w=NULL");
    assert_error(cushim_gemv_e2m1_f16_f32(w, NULL, x, &y, 1, 16, NULL), "scales=NULL");
    assert_error(cushim_gemv_e2m1_f16_f32(w, x, NULL, &y, 1, 16, NULL), "x=NULL");
    assert_error(cushim_gemv_e2m1_f16_f32(w, x, x, NULL, 1, 16, NULL), "y=NULL");
    ck_assert_int_eq(cushim_gemv_e2m1_f16_f32(NULL, NULL, NULL, NULL, 0, 16, NULL), CUSHIM_OK);
}

TEST(wrong_products_are_refused) {
    void *w = (void *)0x10001;
    float *b = (float *)0x20000, *c = (float *)0x30000, *odd = (float *)0x30002;
    int64_t much = (int64_t)1 << 31;
    assert_error(cushim_gemm_q6k_f32(w, b, c, -1, 256, 2, NULL, 0, NULL), "m=-1 is negative");
    assert_error(cushim_gemm_q6k_f32(w, b, c, 1, 256, -2, NULL, 0, NULL), "n=-2 is negative");
    assert_error(cushim_gemm_q6k_f32(w, b, c, 1, 32, 2, NULL, 0, NULL),
                 "k=32 is not a multiple of 256");
    assert_error(cushim_gemm_q6k_f32(w, b, c, 0, 32, 2, NULL, 0, NULL),
                 "k=32 is not a multiple of 256");
    assert_error(cushim_gemm_q6k_f32(w, b, c, much, 0, much, NULL, 0, NULL), "c=");
    assert_error(cushim_gemm_q6k_f32(NULL, b, c, 1, 256, 2, NULL, 0, NULL), "w=NULL");
    assert_error(cushim_gemm_q4k_f32(w, b, c, 1, 256, 2, NULL, 0, NULL),
                 "w=0x10001 is not a multiple of 2");
    assert_error(cushim_gemm_q5_0_f32(w, NULL, c, 1, 32, 2, NULL, 0, NULL), "b=NULL");
    assert_error(cushim_gemm_q5k_f32(w, b, odd, 1, 256, 2, NULL, 0, NULL),
                 "c=0x30002 is not a multiple");
    ck_assert_int_eq(cushim_gemm_q6k_f32(NULL, NULL, NULL, 0, 256, 2, NULL, 0, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_gemm_q6k_f32(NULL, NULL, NULL, 3, 256, 0, NULL, 0, NULL), CUSHIM_OK);
}
