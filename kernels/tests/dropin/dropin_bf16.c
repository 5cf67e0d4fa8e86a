/* libkernels.so: functions of bfloat16, and blocks of five and six bits, in sizes of which no two
 * are the same. */
#include <string.h>

#include "cushim/kernels_ref.h"
#include "kernels/tests/dropin/dropin_fixture.h"

enum { N = 1003, OUTER = 3, AXIS = 5, INNER = 7, ALL = OUTER * AXIS * INNER, ROWS = 11, D = 45 };
enum { M = 5, K = 512 };

/* ---- bfloat16 ---- */

static struct buffer numbers(size_t n, double low, double high) {
    struct buffer floats = fixture_floats(n, low, high);
    uint16_t narrow[4096];
    ck_assert_uint_le(n, sizeof narrow / sizeof *narrow);
    cushim_convert_f32_bf16_ref(floats.host, narrow, (int64_t)n);
    return fixture_put(narrow, n * sizeof *narrow);
}

static struct buffer room(size_t n) {
    return fixture_room(n * sizeof(uint16_t));
}

TEST(bf16_elements_match_their_references) {
    fixture_open();
    struct buffer a = numbers(N, 0.5, 3), b = numbers(N, 0.5, 3), c = room(N);
#define BINARY(op)                                                                                 \
    ck_done(launch_##op##_bf16(a.device, b.device, c.device, N, fixture_stream));                  \
    cushim_##op##_bf16_ref(a.host, b.host, c.host, N);                                             \
    fixture_assert_bf16("launch_" #op "_bf16", &c);
#define UNARY(op)                                                                                  \
    ck_done(launch_##op##_bf16(a.device, c.device, N, fixture_stream));                            \
    cushim_##op##_bf16_ref(a.host, c.host, N);                                                     \
    fixture_assert_bf16("launch_" #op "_bf16", &c);
    BINARY(add)
    BINARY(sub)
    BINARY(mul)
    BINARY(div)
    UNARY(exp)
    UNARY(log)
    UNARY(sqrt)
    UNARY(rsqrt)
    UNARY(tanh)
}

TEST(bf16_is_converted) {
    fixture_open();
    struct buffer floats = fixture_floats(N, -9, 9), small = room(N);
    ck_done(launch_f32_to_bf16(floats.device, small.device, N, fixture_stream));
    cushim_convert_f32_bf16_ref(floats.host, small.host, N);
    fixture_assert_bytes("launch_f32_to_bf16", &small);
    ck_done(launch_bf16_to_f32(small.device, floats.device, N, fixture_stream));
    cushim_convert_bf16_f32_ref(small.host, floats.host, N);
    fixture_assert_bytes("launch_bf16_to_f32", &floats);
}

TEST(bf16_adamw_takes_a_step) {
    fixture_open();
    struct buffer param = numbers(N, -1, 1), grad = numbers(N, -1, 1);
    struct buffer m = fixture_floats(N, -1, 1), v = fixture_room(N * sizeof(double));
    for (int i = 0; i < N; i++)
        ((double *)v.host)[i] = 0.01 * i;
    v = fixture_put(v.host, v.n_bytes);
    ck_done(fused_adamw_bf16(param.device, m.device, v.device, grad.device, bits_of_double(0.9),
                             bits_of_double(0.999), bits_of_double(0.1), bits_of_double(0.001),
                             bits_of_double(1e-8), bits_of_double(3e-4), bits_of_double(3e-6), N,
                             fixture_stream));
    cushim_adamw_bf16_ref(param.host, m.host, v.host, grad.host, 0.9, 0.999, 0.1, 0.001, 1e-8, 3e-4,
                          3e-6, N);
    fixture_assert_bf16("param", &param);
    fixture_assert_floats("m", &m);
    fixture_assert_doubles("v", &v);
    fixture_assert_bytes("grad", &grad);
}

TEST(bf16_axes_match_their_references) {
    fixture_open();
    struct buffer x = numbers(ALL, -3, 3), y = room(ALL), sum = room(OUTER * INNER);
    ck_done(launch_scaled_softmax_bf16(x.device, y.device, OUTER, INNER, AXIS, bits_of(2.5f),
                                       fixture_stream));
    cushim_scaled_softmax_bf16_ref(x.host, y.host, 2.5f, OUTER, AXIS, INNER);
    fixture_assert_bf16("launch_scaled_softmax_bf16", &y);
    ck_done(launch_sum_axis_bf16(x.device, sum.device, OUTER, INNER, AXIS, bits_of(0.2f),
                                 fixture_stream));
    cushim_sum_axis_bf16_ref(x.host, sum.host, 0.2f, OUTER, AXIS, INNER);
    fixture_assert_bf16("launch_sum_axis_bf16", &sum);
}

TEST(bf16_norms_match_their_references) {
    const float eps = 1e-3f;
    enum { HEADS = 9, Q_HEADS = 6, HEAD = 22, HALF = 8 };
    fixture_open();
    struct buffer x = numbers(ROWS * D, -1, 1), r = numbers(ROWS * D, -2, 2);
    struct buffer w = numbers(D, 0.5, 2), y = room(ROWS * D), sum = room(ROWS * D);
    ck_done(fused_add_rmsnorm_bf16(x.device, r.device, w.device, y.device, sum.device, bits_of(eps),
                                   ROWS, D, fixture_stream));
    cushim_add_rms_norm_bf16_ref(x.host, r.host, w.host, y.host, sum.host, eps, ROWS, D);
    fixture_assert_bf16("fused_add_rmsnorm_bf16", &y);
    fixture_assert_bf16("sum", &sum);
    ck_done(fused_norm_add_bf16(x.device, w.device, r.device, y.device, bits_of(eps), ROWS, D,
                                fixture_stream));
    cushim_rms_norm_add_bf16_ref(x.host, w.host, r.host, y.host, eps, ROWS, D);
    fixture_assert_bf16("fused_norm_add_bf16", &y);
    struct buffer heads = numbers(HEADS * HEAD, -1, 1), turned = room(HEADS * HEAD);
    struct buffer w_q = numbers(HEAD, 0.5, 2), w_k = numbers(HEAD, 0.5, 2);
    struct buffer cosines = numbers(HALF, -1, 1), sines = numbers(HALF, -1, 1);
    ck_done(fused_qk_norm_rope_bf16(heads.device, w_q.device, w_k.device, cosines.device,
                                    sines.device, turned.device, bits_of(eps), HEADS, HEAD, Q_HEADS,
                                    HALF, fixture_stream));
    cushim_qk_norm_rope_bf16_ref(heads.host, w_q.host, w_k.host, cosines.host, sines.host,
                                 turned.host, eps, HEADS, HEAD, Q_HEADS, HALF);
    fixture_assert_bf16("fused_qk_norm_rope_bf16", &turned);
}

TEST(heads_are_repeated_next_to_each_other) {
    enum { B = 2, KV = 3, S = 5, HEAD = 7, REP = 4, ELEMENTS = B * KV * S * HEAD };
    fixture_open();
    struct buffer x = fixture_floats(ELEMENTS, -1, 1),
                  y = fixture_room(REP * ELEMENTS * sizeof(float));
    ck_done(launch_repeat_interleave_f32(x.device, y.device, B, KV, S, HEAD, REP, fixture_stream));
    for (int head = 0; head < B * KV * REP; head++)
        memcpy((float *)y.host + (size_t)head * S * HEAD,
               (float *)x.host + (size_t)(head / REP) * S * HEAD, S * HEAD * sizeof(float));
    fixture_assert_bytes("launch_repeat_interleave_f32", &y);
}

/* ---- five and six bits ---- */

/* Any bytes, whose halves at `at` of each step are 2^-8. */
static struct buffer blocks(size_t n, size_t n_bytes, size_t at, size_t n_halves) {
    const uint16_t half = 0x1C00;
    struct buffer floats = fixture_floats(n * n_bytes / 4 + 1, -1, 1);
    for (size_t i = 0; i < n * n_halves; i++)
        memcpy((char *)floats.host + i / n_halves * n_bytes + at + 2 * (i % n_halves), &half, 2);
    return fixture_put(floats.host, n * n_bytes);
}

TEST(q5_0_comes_in_three_regions) {
    enum { N_BLOCKS = M * K / 32, HIGH = (2 * N_BLOCKS + 15) / 16 * 16 };
    enum { LOW = HIGH + (4 * N_BLOCKS + 15) / 16 * 16 };
    uint8_t apart[LOW + 16 * N_BLOCKS] = {0};
    fixture_open();
    struct buffer x = fixture_floats(K, -1, 1), y = fixture_room(M * sizeof(float));
    struct buffer w = blocks(N_BLOCKS, 22, 0, 1), values = fixture_room(M * K * sizeof(float));
    for (int i = 0; i < N_BLOCKS; i++) {
        memcpy(apart + 2 * i, (char *)w.host + 22 * i, 2);
        memcpy(apart + HIGH + 4 * i, (char *)w.host + 22 * i + 2, 4);
        memcpy(apart + LOW + 16 * i, (char *)w.host + 22 * i + 6, 16);
    }
    struct buffer regions = fixture_put(apart, sizeof apart);
    ck_done(gemv_q5_0_f32(regions.device, x.device, y.device, M, K, HIGH, LOW, fixture_stream));
    cushim_gemv_q5_0_f32_ref(w.host, x.host, y.host, M, K);
    fixture_assert_floats("gemv_q5_0_f32", &y);
    ck_done(dequant_q5_0_f32(w.device, values.device, M, K, fixture_stream));
    cushim_dequant_q5_0_f32_ref(w.host, values.host, M, K);
    fixture_assert_bytes("dequant_q5_0_f32", &values);
}

TEST(q5k_has_its_nibbles_before_its_high_bits) {
    enum { N_BLOCKS = M * K / 256 };
    uint8_t turned[N_BLOCKS * 176];
    fixture_open();
    struct buffer x = fixture_floats(K, -1, 1), y = fixture_room(M * sizeof(float));
    struct buffer w = blocks(N_BLOCKS, 176, 0, 2), values = fixture_room(M * K * sizeof(float));
    memcpy(turned, w.host, sizeof turned);
    for (int i = 0; i < N_BLOCKS; i++) {
        memcpy(turned + 176 * i + 16, (char *)w.host + 176 * i + 48, 128);
        memcpy(turned + 176 * i + 144, (char *)w.host + 176 * i + 16, 32);
    }
    struct buffer theirs = fixture_put(turned, sizeof turned);
    ck_done(gemv_q5k_f32(theirs.device, x.device, y.device, M, K, fixture_stream));
    cushim_gemv_q5k_f32_ref(w.host, x.host, y.host, M, K);
    fixture_assert_floats("gemv_q5k_f32", &y);
    ck_done(dequant_q5k_f32(theirs.device, values.device, M, K, fixture_stream));
    cushim_dequant_q5k_f32_ref(w.host, values.host, M, K);
    fixture_assert_bytes("dequant_q5k_f32", &values);
}

TEST(q6k_is_multiplied_and_decoded) {
    fixture_open();
    struct buffer x = fixture_floats(K, -1, 1), y = fixture_room(M * sizeof(float));
    struct buffer w = blocks(M * K / 256, 210, 208, 1),
                  values = fixture_room(M * K * sizeof(float));
    ck_done(gemv_q6k_f32(w.device, x.device, y.device, M, K, fixture_stream));
    cushim_gemv_q6k_f32_ref(w.host, x.host, y.host, M, K);
    fixture_assert_floats("gemv_q6k_f32", &y);
    ck_done(dequant_q6k_f32(w.device, values.device, M, K, fixture_stream));
    cushim_dequant_q6k_f32_ref(w.host, values.host, M, K);
    fixture_assert_bytes("dequant_q6k_f32", &values);
}

int main(void) {
    return tests_run("dropin_bf16");
}
