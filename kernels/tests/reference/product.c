/*
 * Products of matrices at any strides: the references compared with products by hand, and the
 * errors of wrong calls.
 */
#include "tests/unit/suite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

static const struct cushim_matrix_strides rows2 = {6, 2, 1}, rows3 = {6, 3, 1}, turned2 = {6, 1, 2},
                                          square = {4, 2, 1};

/* [1 2 3; 4 5 6] [1 2; 3 4; 5 6] */
TEST(a_product_by_hand) {
    const float a[] = {1, 2, 3, 4, 5, 6};
    float c[] = {NAN, NAN, NAN, NAN};
    cushim_gemm_strided_f32_ref(a, a, c, 1, 0, 1, 2, 2, 3, &rows3, &rows2, &square);
    ck_assert(c[0] == 22 && c[1] == 28 && c[2] == 49 && c[3] == 64);
    cushim_gemm_strided_f32_ref(a, a, c, 2, -1, 1, 2, 2, 3, &rows3, &rows2, &square);
    ck_assert(c[0] == 22 && c[1] == 28 && c[2] == 49 && c[3] == 64);
    cushim_gemm_strided_f32_ref(a, a, c, 1, 0, 1, 2, 2, 3, &turned2, &rows2, &square);
    ck_assert(c[0] == 35 && c[1] == 44 && c[2] == 44 && c[3] == 56);
}

TEST(codes_are_multiplied_with_their_scales) {
    const uint8_t a[] = {0x38, 0x40}, b[] = {0x38, 0xB8, 0x7F, 0x30}; /* 1 2, 1 -1; NaN 0.5 */
    uint16_t c[2];
    cushim_gemm_e4m3_f16_ref(a, b, c, 0.5f, 4, 1, 2, 2);
    ck_assert((c[0] & 0x7FFF) > 0x7C00);
    ck_assert_int_eq(c[1], 0); /* 2 (-1 + 1) */
}

static void assert_error(enum cushim_status status, const char *part) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), part) != NULL, "%s", cushim_last_error());
}

TEST(wrong_products_are_refused) {
    float *a = (float *)0x10000, *c = (float *)0x30000, *odd = (float *)0x30002;
    const struct cushim_matrix_strides back = {6, -2, 1}, far = {1, INT64_MAX / 2, 1};
#define STRIDED(a, c, m, of_a)                                                                     \
    cushim_gemm_strided_f32(a, a, c, 1, 0, 1, m, 2, 3, of_a, &rows2, &square, NULL)
    assert_error(STRIDED(a, c, 2, NULL), "of_a=NULL");
    assert_error(STRIDED(a, c, -2, &rows3), "m=-2 is negative");
    assert_error(STRIDED(a, c, 2, &back), "stride=-2 is negative");
    assert_error(STRIDED(a, c, 2, &far), "a reaches more bytes than can be counted");
    assert_error(STRIDED(NULL, c, 2, &rows3), "a=NULL");
    assert_error(STRIDED(a, odd, 2, &rows3), "c=0x30002 is not a multiple of 4");
    ck_assert_int_eq(STRIDED(NULL, NULL, 0, &rows3), CUSHIM_OK);
    uint8_t *codes = (uint8_t *)0x10001;
    uint16_t *halves = (uint16_t *)0x20000;
    assert_error(cushim_gemm_e4m3_f16(codes, codes, halves, 1, 1, 2, 3, -4, NULL),
                 "k=-4 is negative");
    assert_error(cushim_gemm_e4m3_f16(codes, NULL, halves, 1, 1, 2, 3, 4, NULL), "b=NULL");
    ck_assert_int_eq(cushim_gemm_e4m3_f16(NULL, NULL, NULL, 1, 1, 2, 0, 4, NULL), CUSHIM_OK);
}

SUITE() {
    return tests_run("reference_product");
}
