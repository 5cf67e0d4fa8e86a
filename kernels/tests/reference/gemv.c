/*
 * Products: the references compared with sums by hand and each other, and the errors of wrong
 * calls.
 */
#include "tests/unit/suite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

enum { ONE_F16 = 0x3C00, HALF_F16 = 0x3800 };

/* Column j of b is zeros except a 1 at value j, so c is the matrix itself. */
static void put_identity(float *b, int n) {
    memset(b, 0, (size_t)n * (size_t)n * sizeof *b);
    for (int i = 0; i < n; i++)
        b[i * n + i] = 1;
}

TEST(q4_0_has_low_nibbles_first_and_eight_less) {
    uint16_t scales[2] = {ONE_F16, HALF_F16};
    uint8_t nibbles[32];
    float b[32 * 32], c[2 * 32];
    for (int i = 0; i < 32; i++)
        nibbles[i] = (uint8_t)(i % 16 | (15 - i % 16) << 4);
    put_identity(b, 32);
    cushim_gemm_q4_0_f32_ref(scales, nibbles, b, c, 2, 32, 32);
    for (int i = 0; i < 16; i++) {
        ck_assert(c[i] == (float)(i - 8) && c[16 + i] == (float)(7 - i));
        ck_assert(c[32 + i] == 0.5f * (float)(i - 8) && c[48 + i] == 0.5f * (float)(7 - i));
    }
}

TEST(bytes_are_signed_behind_their_scale) {
    uint8_t q8_0[2 * 34], q8f[2 * 36];
    const uint16_t halves[] = {ONE_F16, 0x8001};
    const float floats[] = {1, -0x1p-24f};
    float b[32 * 32], c[2 * 32], d[2 * 32];
    for (int i = 0; i < 2; i++) {
        memcpy(q8_0 + 34 * i, &halves[i], 2);
        memcpy(q8f + 36 * i, &floats[i], 4);
        for (int j = 0; j < 32; j++)
            q8_0[34 * i + 2 + j] = q8f[36 * i + 4 + j] = (uint8_t)(j * 8 + i);
    }
    put_identity(b, 32);
    cushim_gemm_q8_0_f32_ref(q8_0, b, c, 2, 32, 32);
    cushim_gemm_q8f_f32_ref(q8f, b, d, 2, 32, 32);
    for (int j = 0; j < 32; j++) {
        ck_assert(c[j] == (float)(int8_t)(j * 8));
        ck_assert(c[32 + j] == -0x1p-24f * (float)(int8_t)(j * 8 + 1));
    }
    ck_assert_mem_eq(c, d, sizeof c);
}

TEST(sums_are_rounded_once) {
    uint8_t block[36] = {0};
    const float scale = 1;
    float b[32] = {0x1p30f, 1, -0x1p30f}, c;
    memcpy(block, &scale, 4);
    block[4] = block[5] = block[6] = 1;
    cushim_gemm_q8f_f32_ref(block, b, &c, 1, 32, 1);
    ck_assert(c == 1);
    const float a[3] = {0x1p30f, 1, -0x1p30f}, x[3] = {1, 1, 1};
    cushim_gemv_f32_ref(a, x, &c, 1, 3);
    ck_assert(c == 1);
    cushim_gemm_batched_small_f32_ref(a, x, &c, 1, 1, 3, 0, 0, 0, 1);
    ck_assert(c == 1);
}

TEST(what_is_not_finite_stays_in_its_column) {
    uint16_t scale = ONE_F16;
    uint8_t nibbles[16];
    float b[32 * 3] = {0}, c[3];
    memset(nibbles, 0x99, sizeof nibbles); /* all 1 */
    for (int i = 0; i < 32; i++)
        b[3 * i + 1] = 1;
    b[0] = INFINITY;
    b[2] = NAN;
    cushim_gemm_q4_0_f32_ref(&scale, nibbles, b, c, 1, 32, 3);
    ck_assert(c[0] == INFINITY && c[1] == 32 && isnan(c[2]));
}

TEST(q4k_is_the_sum_of_its_values) {
    uint8_t w[3 * 2 * 144];
    float values[3 * 512], x[512], y[3], z[3];
    uint64_t state = 42;
    for (size_t i = 0; i < sizeof w; i++)
        w[i] = (uint8_t)suite_random(&state);
    for (int i = 0; i < 6; i++)
        w[144 * i + 1] = w[144 * i + 3] = 0x34;
    for (int i = 0; i < 512; i++)
        x[i] = (float)(int)(suite_random(&state) % 64) - 32;
    cushim_dequant_q4k_f32_ref(w, values, 3, 512);
    cushim_gemv_f32_ref(values, x, y, 3, 512);
    cushim_gemv_q4k_f32_ref(w, x, z, 3, 512);
    for (int i = 0; i < 3; i++)
        ck_assert_float_eq_tol(y[i], z[i], 1e-6f * fabsf(y[i]));
}

enum { END_K = 256, END_DIM = 4, END_Q = 2, END_KV = 1, END_ROWS = (END_Q + 2 * END_KV) * END_DIM };

/* The ends of products of q4k, by functions that do a part each. */
TEST(products_of_q4k_end_as_their_parts_do) {
    uint8_t w[END_ROWS * 144];
    float x[END_K], norm[END_K], xn[END_K], products[END_ROWS], expected[END_ROWS], found[END_ROWS];
    uint64_t state = 42;
    for (size_t i = 0; i < sizeof w; i++)
        w[i] = (uint8_t)suite_random(&state);
    for (int i = 0; i < END_ROWS; i++)
        w[144 * i + 1] = w[144 * i + 3] = 0x14;
    for (int i = 0; i < END_K; i++) {
        x[i] = (float)(int)(suite_random(&state) % 64) - 32;
        norm[i] = (float)(suite_random(&state) % 64) / 64;
    }
    cushim_rms_norm_f32_ref(x, norm, xn, NULL, 0.5f, 1, END_K);
    cushim_gemv_q4k_f32_ref(w, x, products, END_ROWS, END_K);
    cushim_gemv_add_q4k_f32_ref(w, x, norm, found, END_ROWS, END_K);
    for (int i = 0; i < END_ROWS; i++)
        ck_assert_float_eq_tol(found[i], products[i] + norm[i], 1e-5f);
    cushim_gemv_q4k_f32_ref(w, xn, products, END_ROWS, END_K);
    cushim_swiglu_f32_ref(products, products + END_ROWS / 2, expected, END_ROWS / 2);
    cushim_gemv_swiglu_q4k_f32_ref(w, x, norm, found, 0.5f, END_ROWS / 2, END_K);
    for (int i = 0; i < END_ROWS / 2; i++)
        ck_assert_float_eq_tol(found[i], expected[i], 1e-5f + 1e-5f * fabsf(expected[i]));
}

/* Three positions of a cache that has keys and values of a token side by side. */
TEST(heads_of_q4k_are_rotated_and_kept) {
    enum { POSITIONS = 3, AT = 1, HALF = END_DIM / 2, N_ROTATED = (END_Q + END_KV) * END_DIM };
    uint8_t w[END_ROWS * 144];
    float x[END_K], products[END_ROWS], q[END_Q * END_DIM], cache[POSITIONS][2][END_DIM];
    float cosines[POSITIONS * HALF], sines[POSITIONS * HALF];
    int32_t position = AT;
    uint64_t state = 7;
    for (size_t i = 0; i < sizeof w; i++)
        w[i] = (uint8_t)suite_random(&state);
    for (int i = 0; i < END_ROWS; i++)
        w[144 * i + 1] = w[144 * i + 3] = 0x14;
    for (int i = 0; i < END_K; i++)
        x[i] = (float)(int)(suite_random(&state) % 64) - 32;
    for (int i = 0; i < POSITIONS * HALF; i++) {
        cosines[i] = cosf((float)i);
        sines[i] = sinf((float)i);
    }
    memset(cache, 0, sizeof cache);
    cushim_gemv_qkv_q4k_f32_ref(w, x, NULL, cosines, sines, &position, q, cache[0][0], cache[0][1],
                                0, END_Q, END_KV, END_DIM, END_K, POSITIONS, 2 * END_DIM, END_DIM);
    cushim_gemv_q4k_f32_ref(w, x, products, END_ROWS, END_K);
    cushim_rope_f32_ref(products, cosines + AT * HALF, sines + AT * HALF, products, END_Q + END_KV,
                        1, END_DIM, HALF, 0);
    for (int i = 0; i < END_ROWS; i++) {
        float found = i < END_Q * END_DIM ? q[i]
                      : i < N_ROTATED     ? cache[AT][0][i % END_DIM]
                                          : cache[AT][1][i % END_DIM];
        ck_assert_float_eq_tol(found, products[i], 1e-5f + 1e-5f * fabsf(products[i]));
    }
    for (int i = 0; i < END_DIM; i++)
        ck_assert(cache[0][0][i] == 0 && cache[0][1][i] == 0 && cache[2][0][i] == 0);
    position = POSITIONS;
    q[0] = 77;
    cushim_gemv_qkv_q4k_f32_ref(w, x, NULL, cosines, sines, &position, q, cache[0][0], cache[0][1],
                                0, END_Q, END_KV, END_DIM, END_K, POSITIONS, 2 * END_DIM, END_DIM);
    ck_assert(q[0] == 77);
}

TEST(nothing_to_add_is_zero) {
    float y[2] = {7, 7};
    cushim_gemv_f32_ref(NULL, NULL, y, 2, 0);
    ck_assert(y[0] == 0 && y[1] == 0);
    y[0] = y[1] = 7;
    cushim_gemm_q4_0_f32_ref(NULL, NULL, NULL, y, 1, 0, 2);
    ck_assert(y[0] == 0 && y[1] == 0);
    y[0] = y[1] = 7;
    cushim_gemv_q4k_f32_ref(NULL, NULL, y, 2, 0);
    ck_assert(y[0] == 0 && y[1] == 0);
}

TEST(small_matrices_lie_at_their_strides) {
    const float a[] = {1, 2, 3, 4, -1, 5, 6, 7, 8}; /* 2 x 2, five apart */
    const float b[] = {1, 0, 2, 0, 1, 3};           /* 2 x 3, one for all */
    float c[15];
    for (int i = 0; i < 15; i++)
        c[i] = 99;
    cushim_gemm_batched_small_f32_ref(a, b, c, 2, 3, 2, 5, 0, 8, 2);
    const float wanted[] = {1, 2, 8, 3, 4, 18, 99, 99, 5, 6, 28, 7, 8, 38, 99};
    for (int i = 0; i < 15; i++)
        ck_assert_msg(c[i] == wanted[i], "%d: %g", i, c[i]);
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), text) != NULL, "%s", cushim_last_error());
}

static float *const f = (float *)0x10000, *const odd = (float *)0x10001;
static void *const v = (void *)0x20000;
static uint16_t *const h = (uint16_t *)0x30000;
static const int64_t huge = (int64_t)1 << 40;

TEST(wrong_arguments_of_q4_0_are_refused) {
    uint8_t *q = v;
    assert_error(cushim_gemm_q4_0_f32(h, q, f, f, -1, 32, 1, NULL, 0, NULL),
                 "cushim_gemm_q4_0_f32 failed");
    assert_error(cushim_gemm_q4_0_f32(h, q, f, f, -1, 32, 1, NULL, 0, NULL), "m=-1 is negative");
    assert_error(cushim_gemm_q4_0_f32(h, q, f, f, 1, -32, 1, NULL, 0, NULL), "k=-32 is negative");
    assert_error(cushim_gemm_q4_0_f32(h, q, f, f, 1, 32, -1, NULL, 0, NULL), "n=-1 is negative");
    assert_error(cushim_gemm_q4_0_f32(h, q, f, f, 1, 33, 1, NULL, 0, NULL),
                 "k=33 is not a multiple of 32");
    assert_error(cushim_gemm_q4_0_f32(h, q, f, f, huge, huge, 1, NULL, 0, NULL), "nibbles");
    assert_error(cushim_gemm_q4_0_f32(h, q, f, f, 1, huge, huge, NULL, 0, NULL), "b has");
    assert_error(cushim_gemm_q4_0_f32(h, q, f, f, huge, 32, huge, NULL, 0, NULL), "c has");
    assert_error(cushim_gemm_q4_0_f32(NULL, q, f, f, 1, 32, 1, NULL, 0, NULL), "scales=NULL");
    assert_error(cushim_gemm_q4_0_f32(h, NULL, f, f, 1, 32, 1, NULL, 0, NULL), "nibbles=NULL");
    assert_error(cushim_gemm_q4_0_f32(h, q, NULL, f, 1, 32, 1, NULL, 0, NULL), "b=NULL");
    assert_error(cushim_gemm_q4_0_f32(h, q, f, NULL, 1, 32, 1, NULL, 0, NULL), "c=NULL");
    assert_error(cushim_gemm_q4_0_f32(NULL, NULL, NULL, NULL, 1, 0, 1, NULL, 0, NULL), "c=NULL");
    assert_error(cushim_gemm_q4_0_f32((uint16_t *)odd, q, f, f, 1, 32, 1, NULL, 0, NULL),
                 "scales=0x10001 is not a multiple of 2");
    assert_error(cushim_gemm_q4_0_f32(h, q, odd, f, 1, 32, 1, NULL, 0, NULL), "b=0x10001");
    assert_error(cushim_gemm_q4_0_f32(h, q, f, odd, 1, 32, 1, NULL, 0, NULL), "c=0x10001");
    ck_assert_int_eq(cushim_gemm_q4_0_f32(NULL, NULL, NULL, NULL, 0, 32, 1, NULL, 0, NULL),
                     CUSHIM_OK);
    ck_assert_int_eq(cushim_gemm_q4_0_f32(NULL, NULL, NULL, NULL, 1, 32, 0, NULL, 0, NULL),
                     CUSHIM_OK);
}

TEST(wrong_arguments_of_bytes_are_refused) {
    assert_error(cushim_gemm_q8_0_f32(v, f, f, 1, 31, 1, NULL, 0, NULL),
                 "cushim_gemm_q8_0_f32 failed");
    assert_error(cushim_gemm_q8_0_f32(v, f, f, 1, 31, 1, NULL, 0, NULL),
                 "k=31 is not a multiple of 32");
    assert_error(cushim_gemm_q8_0_f32(v, f, f, huge, huge, 1, NULL, 0, NULL), "w has");
    assert_error(cushim_gemm_q8_0_f32(NULL, f, f, 1, 32, 1, NULL, 0, NULL), "w=NULL");
    assert_error(cushim_gemm_q8_0_f32(odd, f, f, 1, 32, 1, NULL, 0, NULL), "w=0x10001");
    assert_error(cushim_gemm_q8_0_f32(v, NULL, f, 1, 32, 1, NULL, 0, NULL), "b=NULL");
    assert_error(cushim_gemm_q8_0_f32(v, f, NULL, 1, 32, 1, NULL, 0, NULL), "c=NULL");
    assert_error(cushim_gemm_q8f_f32(v, f, f, 1, 31, 1, NULL, 0, NULL),
                 "cushim_gemm_q8f_f32 failed");
    assert_error(cushim_gemm_q8f_f32(NULL, f, f, 1, 32, 1, NULL, 0, NULL), "w=NULL");
    assert_error(cushim_gemm_q8f_f32((char *)v + 2, f, f, 1, 32, 1, NULL, 0, NULL),
                 "w=0x20002 is not a multiple of 4");
    assert_error(cushim_gemm_q8f_f32(v, f, f, 1, 32, -3, NULL, 0, NULL), "n=-3 is negative");
    ck_assert_int_eq(cushim_gemm_q8f_f32(NULL, NULL, NULL, 3, 64, 0, NULL, 0, NULL), CUSHIM_OK);
}

TEST(wrong_arguments_of_one_column_are_refused) {
    assert_error(cushim_gemv_q4k_f32(v, f, f, 1, 300, NULL), "cushim_gemv_q4k_f32 failed");
    assert_error(cushim_gemv_q4k_f32(v, f, f, 1, 300, NULL), "k=300 is not a multiple of 256");
    assert_error(cushim_gemv_q4k_f32(v, f, f, -2, 256, NULL), "m=-2 is negative");
    assert_error(cushim_gemv_q4k_f32(v, f, f, 2, -256, NULL), "k=-256 is negative");
    assert_error(cushim_gemv_q4k_f32(v, f, f, huge, huge, NULL), "w has");
    assert_error(cushim_gemv_q4k_f32(NULL, f, f, 1, 256, NULL), "w=NULL");
    assert_error(cushim_gemv_q4k_f32(odd, f, f, 1, 256, NULL), "w=0x10001");
    assert_error(cushim_gemv_q4k_f32(v, NULL, f, 1, 256, NULL), "x=NULL");
    assert_error(cushim_gemv_q4k_f32(v, f, NULL, 1, 256, NULL), "y=NULL");
    assert_error(cushim_gemv_q4k_f32(v, f, odd, 1, 256, NULL), "y=0x10001");
    ck_assert_int_eq(cushim_gemv_q4k_f32(NULL, NULL, NULL, 0, 256, NULL), CUSHIM_OK);
    assert_error(cushim_gemv_f32(f, f, f, -1, 3, NULL), "cushim_gemv_f32 failed");
    assert_error(cushim_gemv_f32(f, f, f, -1, 3, NULL), "m=-1 is negative");
    assert_error(cushim_gemv_f32(f, f, f, 3, -1, NULL), "n=-1 is negative");
    assert_error(cushim_gemv_f32(f, f, f, huge, huge, NULL), "a has");
    assert_error(cushim_gemv_f32(NULL, f, f, 1, 1, NULL), "a=NULL");
    assert_error(cushim_gemv_f32(f, NULL, f, 1, 1, NULL), "x=NULL");
    assert_error(cushim_gemv_f32(f, f, NULL, 1, 1, NULL), "y=NULL");
    assert_error(cushim_gemv_f32(odd, f, f, 1, 1, NULL), "a=0x10001");
    assert_error(cushim_gemv_f32(f, odd, f, 1, 1, NULL), "x=0x10001");
    ck_assert_int_eq(cushim_gemv_f32(NULL, NULL, NULL, 0, 5, NULL), CUSHIM_OK);
}

static enum cushim_status small(int64_t m, int64_t n, int64_t k, int64_t stride_a, int64_t stride_b,
                                int64_t stride_c, int64_t batch) {
    return cushim_gemm_batched_small_f32(f, f, f, m, n, k, stride_a, stride_b, stride_c, batch,
                                         NULL);
}

TEST(halves_are_multiplied) {
    const uint16_t a[] = {0x3C00, 0x4000, 0xBC00, 0x7BFF}, x[] = {0x4200, 0x3800}; /* 3, 0.5 */
    uint16_t *off = (uint16_t *)0x10001, y[2];
    cushim_gemv_f16_ref(a, x, y, 2, 2);
    ck_assert_uint_eq(y[0], 0x4400); /* 3 + 1 */
    ck_assert_uint_eq(y[1], 0x77FF); /* -3 + 32752 is rounded to a multiple of 16 */
    cushim_gemv_f16_ref(NULL, NULL, y, 2, 0);
    ck_assert_uint_eq(y[0] | y[1], 0);
    assert_error(cushim_gemv_f16(h, h, h, -1, 3, NULL), "m=-1 is negative");
    assert_error(cushim_gemv_f16(h, h, h, 3, -1, NULL), "n=-1 is negative");
    assert_error(cushim_gemv_f16(NULL, h, h, 1, 1, NULL), "a=NULL");
    assert_error(cushim_gemv_f16(h, off, h, 1, 1, NULL), "x=0x10001 is not a multiple of 2");
    assert_error(cushim_gemv_f16(h, h, NULL, 1, 1, NULL), "y=NULL");
    ck_assert_int_eq(cushim_gemv_f16(NULL, NULL, NULL, 0, 3, NULL), CUSHIM_OK);
}

TEST(wrong_arguments_of_small_matrices_are_refused) {
    assert_error(small(65, 1, 1, 65, 1, 65, 2), "cushim_gemm_batched_small_f32 failed");
    assert_error(small(65, 1, 1, 65, 1, 65, 2), "m=65 is above 64");
    assert_error(small(1, 65, 1, 1, 65, 65, 2), "n=65 is above 64");
    assert_error(small(1, 1, 65, 65, 65, 1, 2), "k=65 is above 64");
    assert_error(small(-1, 1, 1, 1, 1, 1, 1), "m=-1 is negative");
    assert_error(small(1, 1, 1, 1, 1, 1, -1), "batch=-1 is negative");
    assert_error(small(1, 1, 1, -1, 1, 1, 1), "stride_a=-1 is negative");
    assert_error(small(1, 1, 1, 1, -1, 1, 1), "stride_b=-1 is negative");
    assert_error(small(1, 1, 1, 1, 1, -1, 1), "stride_c=-1 is negative");
    assert_error(small(2, 3, 1, 2, 3, 5, 2), "stride_c=5 is below m*n=6");
    assert_error(small(1, 1, 1, huge, 1, 1, huge), "stride_a");
    assert_error(cushim_gemm_batched_small_f32(NULL, f, f, 1, 1, 1, 1, 1, 1, 1, NULL), "a=NULL");
    assert_error(cushim_gemm_batched_small_f32(f, NULL, f, 1, 1, 1, 1, 1, 1, 1, NULL), "b=NULL");
    assert_error(cushim_gemm_batched_small_f32(f, f, NULL, 1, 1, 1, 1, 1, 1, 1, NULL), "c=NULL");
    assert_error(cushim_gemm_batched_small_f32(f, odd, f, 1, 1, 1, 1, 1, 1, 1, NULL), "b=0x10001");
    ck_assert_int_eq(cushim_gemm_batched_small_f32(NULL, NULL, NULL, 1, 1, 1, 1, 1, 1, 0, NULL),
                     CUSHIM_OK);
    ck_assert_int_eq(cushim_gemm_batched_small_f32(NULL, NULL, NULL, 0, 1, 1, 1, 1, 1, 4, NULL),
                     CUSHIM_OK);
}

static enum cushim_status qkv(const void *w, const int32_t *position, float *keys, int64_t n_kv,
                              int64_t dim, int64_t k, int64_t max_len, int64_t stride,
                              size_t scratch_bytes) {
    return cushim_gemv_qkv_q4k_f32(w, f, NULL, f, f, position, f, keys, f, 0, 1, n_kv, dim, k,
                                   max_len, stride, 8, v, scratch_bytes, NULL);
}

TEST(wrong_arguments_of_ends_are_refused) {
    const int32_t *p = v;
    size_t n = cushim_gemv_q4k_scratch(24, 256);
    ck_assert_uint_eq(n, (24 + 256) * sizeof(float));
    ck_assert_uint_eq(cushim_gemv_q4k_scratch(0, 256), 0);
    ck_assert_uint_eq(cushim_gemv_q4k_scratch(-1, 256), 0);
    ck_assert_uint_eq(cushim_gemv_q4k_scratch(INT64_MAX, 256), 0);
    assert_error(cushim_gemv_add_q4k_f32(v, f, f, f, -1, 256, v, n, NULL), "m=-1 is negative");
    assert_error(cushim_gemv_add_q4k_f32(v, f, f, f, 24, 300, v, n, NULL),
                 "cushim_gemv_add_q4k_f32 failed");
    assert_error(cushim_gemv_add_q4k_f32(v, f, f, f, 24, 300, v, n, NULL), "k=300");
    assert_error(cushim_gemv_add_q4k_f32(NULL, f, f, f, 24, 256, v, n, NULL), "w=NULL");
    assert_error(cushim_gemv_add_q4k_f32(v, odd, f, f, 24, 256, v, n, NULL), "x=0x10001");
    assert_error(cushim_gemv_add_q4k_f32(v, f, NULL, f, 24, 256, v, n, NULL), "residual=NULL");
    assert_error(cushim_gemv_add_q4k_f32(v, f, f, odd, 24, 256, v, n, NULL), "y=0x10001");
    assert_error(cushim_gemv_add_q4k_f32(v, f, f, f, 24, 256, NULL, n, NULL), "scratch=NULL");
    assert_error(cushim_gemv_add_q4k_f32(v, f, f, f, 24, 256, v, n - 1, NULL),
                 "scratch_bytes=1119 is less than 1120");
    assert_error(cushim_gemv_swiglu_q4k_f32(v, f, f, f, 0, -1, 256, v, n, NULL),
                 "cushim_gemv_swiglu_q4k_f32 failed");
    assert_error(cushim_gemv_swiglu_q4k_f32(v, f, f, f, 0, INT64_MAX, 256, v, n, NULL), "m=");
    assert_error(cushim_gemv_swiglu_q4k_f32(v, f, odd, f, 0, 12, 256, v, n, NULL), "norm=0x10001");
    assert_error(cushim_gemv_swiglu_q4k_f32(v, f, f, NULL, 0, 12, 256, v, n, NULL), "y=NULL");
    assert_error(cushim_gemv_swiglu_q4k_f32(v, f, f, f, 0, 13, 256, v, n, NULL), "scratch_bytes");
    assert_error(qkv(v, p, f, 1, 7, 256, 3, 8, n), "cushim_gemv_qkv_q4k_f32 failed");
    assert_error(qkv(v, p, f, 1, 7, 256, 3, 8, n), "head_dim=7 is not a multiple of 2");
    assert_error(qkv(v, p, f, 1, 0, 256, 3, 8, n), "head_dim=0");
    assert_error(qkv(v, p, f, 1, INT32_MAX - 1, 256, 3, 8, n), "w has more rows");
    assert_error(qkv(v, p, f, -1, 8, 256, 3, 8, n), "n_kv_heads=-1 is negative");
    assert_error(qkv(v, p, f, 1, 8, 256, -3, 8, n), "max_len=-3 is negative");
    assert_error(qkv(v, p, f, 1, 8, 256, 3, -8, n), "position_stride=-8 is negative");
    assert_error(qkv(v, p, f, 1, 8, 256, 3, INT64_MAX, n), "keys reach more bytes");
    assert_error(qkv(v, NULL, f, 1, 8, 256, 3, 8, n), "position=NULL");
    assert_error(qkv(v, p, NULL, 1, 8, 256, 3, 8, n), "keys=NULL");
    assert_error(qkv(v, p, f, 1, 8, 256, 3, 8, n - 1), "scratch_bytes");
    ck_assert_int_eq(cushim_gemv_add_q4k_f32(NULL, NULL, NULL, NULL, 0, 256, NULL, 0, NULL),
                     CUSHIM_OK);
    ck_assert_int_eq(cushim_gemv_swiglu_q4k_f32(NULL, NULL, NULL, NULL, 0, 0, 256, NULL, 0, NULL),
                     CUSHIM_OK);
}

SUITE() {
    return tests_run("reference_gemv");
}
