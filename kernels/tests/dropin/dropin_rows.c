/* libkernels.so: rows and axes, in sizes of which no two are the same. */
#include <string.h>

#include "cushim/kernels_ref.h"
#include "kernels/tests/dropin/dropin_fixture.h"

enum { OUTER = 3, AXIS = 5, INNER = 7, ALL = OUTER * AXIS * INNER };
enum { ROWS = 11, D = 45, TABLE = 13 };

/* ---- outer, inner, axis ---- */

TEST(softmax_is_over_the_middle_axis) {
    fixture_open();
    struct buffer x = fixture_floats(ALL, -3, 3), y = fixture_room(ALL * sizeof(float));
    ck_done(launch_softmax(x.device, y.device, OUTER, INNER, AXIS, fixture_stream));
    cushim_softmax_f32_ref(x.host, y.host, OUTER, AXIS, INNER);
    fixture_assert_floats("launch_softmax", &y);
    ck_done(
        scaled_softmax_f32(x.device, y.device, OUTER, INNER, AXIS, bits_of(-1.5f), fixture_stream));
    cushim_scaled_softmax_f32_ref(x.host, y.host, -1.5f, OUTER, AXIS, INNER);
    fixture_assert_floats("scaled_softmax_f32", &y);
    struct buffer means = fixture_room(OUTER * INNER * sizeof(float));
    ck_done(launch_fused_softmax_vmul_f32(y.device, x.device, means.device, bits_of(-1.5f), OUTER,
                                          AXIS, INNER, fixture_stream));
    cushim_softmax_mul_f32_ref(y.host, x.host, means.host, -1.5f, OUTER, AXIS, INNER);
    fixture_assert_floats("launch_fused_softmax_vmul_f32", &means);
}

TEST(softmax_of_halves_is_over_the_middle_axis) {
    fixture_open();
    struct buffer x = fixture_halves(ALL), y = fixture_room(ALL * sizeof(uint16_t));
    ck_done(launch_scaled_softmax_fp16(x.device, y.device, OUTER, INNER, AXIS, bits_of(2.5f),
                                       fixture_stream));
    cushim_scaled_softmax_f16_ref(x.host, y.host, 2.5f, OUTER, AXIS, INNER);
    fixture_assert_halves("launch_scaled_softmax_fp16", &y);
}

TEST(a_sum_is_over_the_middle_axis) {
    fixture_open();
    struct buffer x = fixture_floats(ALL, -1, 1), y = fixture_room(OUTER * INNER * sizeof(float));
    ck_done(launch_sum_axis(x.device, y.device, OUTER, INNER, AXIS, fixture_stream));
    cushim_sum_axis_f32_ref(x.host, y.host, OUTER, AXIS, INNER);
    fixture_assert_floats("launch_sum_axis", &y);
}

/* ---- norm ---- */

TEST(a_scan_matches_its_reference) {
    enum { BATCH = 2, CHANNELS = 5, STATES = 6, SEQ = 21, N = BATCH * CHANNELS * SEQ };
    fixture_open();
    struct buffer x = fixture_floats(N, -1, 1), a = fixture_floats(CHANNELS * STATES, 0, 1);
    struct buffer b = fixture_floats(BATCH * STATES * SEQ, -1, 1),
                  c = fixture_floats(BATCH * STATES * SEQ, -1, 1);
    struct buffer d = fixture_floats(CHANNELS, -1, 1);
    for (int has_d = 0; has_d < 2; has_d++) {
        struct buffer y = fixture_room(x.n_bytes);
        ck_done(launch_selective_scan_forward(x.device, a.device, b.device, c.device,
                                              has_d ? d.device : NULL, y.device, BATCH, CHANNELS,
                                              STATES, SEQ, fixture_stream));
        cushim_selective_scan_f32_ref(x.host, a.host, b.host, c.host, has_d ? d.host : NULL, y.host,
                                      BATCH, CHANNELS, STATES, SEQ);
        fixture_assert_floats("launch_selective_scan_forward", &y);
    }
}

TEST(norms_match_their_references) {
    const float eps = 1e-3f;
    fixture_open();
    struct buffer x = fixture_floats(ROWS * D, -1, 1), r = fixture_floats(ROWS * D, -2, 2);
    struct buffer w = fixture_floats(D, 0.5, 2), scales = fixture_room(ROWS * sizeof(float));
    struct buffer y = fixture_room(ROWS * D * sizeof(float)),
                  sum = fixture_room(ROWS * D * sizeof(float));
    ck_done(launch_rmsnorm(x.device, w.device, y.device, scales.device, bits_of(eps), ROWS, D,
                           fixture_stream));
    cushim_rms_norm_f32_ref(x.host, w.host, y.host, scales.host, eps, ROWS, D);
    fixture_assert_floats("launch_rmsnorm", &y);
    fixture_assert_floats("scales", &scales);
    ck_done(
        launch_rmsnorm(r.device, w.device, y.device, NULL, bits_of(eps), ROWS, D, fixture_stream));
    cushim_rms_norm_f32_ref(r.host, w.host, y.host, NULL, eps, ROWS, D);
    fixture_assert_floats("launch_rmsnorm, no scales", &y);
    ck_done(fused_add_rmsnorm_f32(x.device, r.device, w.device, y.device, sum.device, bits_of(eps),
                                  ROWS, D, fixture_stream));
    cushim_add_rms_norm_f32_ref(x.host, r.host, w.host, y.host, sum.host, eps, ROWS, D);
    fixture_assert_floats("fused_add_rmsnorm_f32", &y);
    fixture_assert_floats("sum", &sum);
    ck_done(fused_norm_add_f32(x.device, w.device, r.device, y.device, bits_of(eps), ROWS, D,
                               fixture_stream));
    cushim_rms_norm_add_f32_ref(x.host, w.host, r.host, y.host, eps, ROWS, D);
    fixture_assert_floats("fused_norm_add_f32", &y);
}

TEST(norms_of_halves_match_their_references) {
    const float eps = 1e-3f, scale = 0.25f;
    uint8_t codes[ROWS * D];
    fixture_open();
    struct buffer x = fixture_halves(ROWS * D), w = fixture_halves(D);
    struct buffer y = fixture_room(ROWS * D * sizeof(uint16_t));
    ck_done(
        launch_rmsnorm_fp16(x.device, w.device, y.device, bits_of(eps), ROWS, D, fixture_stream));
    cushim_rms_norm_f16_ref(x.host, w.host, y.host, eps, ROWS, D);
    fixture_assert_halves("launch_rmsnorm_fp16", &y);
    for (int i = 0; i < ROWS * D; i++)
        codes[i] = (uint8_t)(i * 5 % 0x7F);
    struct buffer q = fixture_put(codes, sizeof codes);
    ck_done(launch_fp8_rmsnorm(q.device, w.device, y.device, bits_of(scale), bits_of(eps), ROWS, D,
                               fixture_stream));
    cushim_rms_norm_e4m3_f16_ref(q.host, w.host, y.host, scale, eps, ROWS, D);
    fixture_assert_halves("launch_fp8_rmsnorm", &y);
}

/*
 * A row of only the code 0x7F, which is 480 each, so that all are the same after the norm.  Both
 * widths of access are tested, with a scale that is applied once per row and with one that is not.
 */
TEST(no_code_of_e4m3_makes_a_norm_NaN) {
    enum { WIDE_D = 48 };
    uint8_t codes[WIDE_D];
    fixture_open();
    memset(codes, 0x7F, WIDE_D);
    codes[1] = 0xFF;
    struct buffer q = fixture_put(codes, WIDE_D), w = fixture_halves(WIDE_D);
    for (int i = 0; i < 4; i++) {
        int d = i & 1 ? WIDE_D : D;
        struct buffer y = fixture_room((size_t)d * sizeof(uint16_t));
        ck_done(launch_fp8_rmsnorm(q.device, w.device, y.device, bits_of(i & 2 ? 0x1p41F : 1),
                                   bits_of(0), 1, d, fixture_stream));
        memcpy(y.host, w.host, (size_t)d * sizeof(uint16_t));
        ((uint16_t *)y.host)[1] ^= 0x8000;
        fixture_assert_halves("launch_fp8_rmsnorm", &y);
    }
}

/* ---- rope ---- */

TEST(rotations_match_their_references) {
    enum { BATCH = 2, SEQ = 3, HEAD = 20, HALF = 7, STRIDE = 9, HEADS = 5, Q_HEADS = 3 };
    fixture_open();
    struct buffer x = fixture_floats(BATCH * SEQ * HEAD, -1, 1), y = fixture_room(x.n_bytes);
    struct buffer cosines = fixture_floats(SEQ * STRIDE, -1, 1),
                  sines = fixture_floats(SEQ * STRIDE, -1, 1);
    ck_done(fused_rope_f32(x.device, cosines.device, sines.device, y.device, BATCH, SEQ, HEAD, HALF,
                           STRIDE, fixture_stream));
    cushim_rope_f32_ref(x.host, cosines.host, sines.host, y.host, BATCH, SEQ, HEAD, HALF, STRIDE);
    fixture_assert_floats("fused_rope_f32", &y);
    struct buffer heads = fixture_floats(HEADS * HEAD, -1, 1),
                  rotated = fixture_room(heads.n_bytes);
    struct buffer w_q = fixture_floats(HEAD, 0.5, 2), w_k = fixture_floats(HEAD, 0.5, 2);
    ck_done(fused_qk_norm_rope_f32(heads.device, w_q.device, w_k.device, cosines.device,
                                   sines.device, rotated.device, bits_of(1e-3f), HEADS, HEAD,
                                   Q_HEADS, HALF, fixture_stream));
    cushim_qk_norm_rope_f32_ref(heads.host, w_q.host, w_k.host, cosines.host, sines.host,
                                rotated.host, 1e-3f, HEADS, HEAD, Q_HEADS, HALF);
    fixture_assert_floats("fused_qk_norm_rope_f32", &rotated);
}

/* ---- gather, argmax ---- */

TEST(gathered_rows_match_their_references) {
    fixture_open();
    struct buffer table = fixture_floats(TABLE * D, -1, 1),
                  out = fixture_room(ROWS * D * sizeof(float));
    long long wide[ROWS];
    int narrow[ROWS];
    for (int i = 0; i < ROWS; i++)
        narrow[i] = (int)(wide[i] = i * 5 % (TABLE + 4) - 2);
    wide[3] = ((long long)1 << 32) + 5; /* beyond the table, not row 5 */
    struct buffer idx = fixture_put(wide, sizeof wide), idx32 = fixture_put(narrow, sizeof narrow);
    ck_done(launch_gather(table.device, idx.device, out.device, ROWS, D, TABLE, fixture_stream));
    cushim_gather_f32_i64_ref(table.host, idx.host, out.host, ROWS, D, TABLE);
    fixture_assert_bytes("launch_gather", &out);
    ck_done(
        launch_gather_i32(table.device, idx32.device, out.device, ROWS, D, TABLE, fixture_stream));
    cushim_gather_f32_i32_ref(table.host, idx32.host, out.host, ROWS, D, TABLE);
    fixture_assert_bytes("launch_gather_i32", &out);
    struct buffer blocks = fixture_floats(TABLE * 2 * 9, -1, 1); /* any bytes behind a scale */
    struct buffer values = fixture_room(ROWS * 64 * sizeof(float));
    ck_done(launch_gather_q8_f32(blocks.device, idx32.device, values.device, ROWS, 64, TABLE,
                                 fixture_stream));
    cushim_gather_q8f_f32_i32_ref(blocks.host, idx32.host, values.host, ROWS, 64, TABLE);
    fixture_assert_bytes("launch_gather_q8_f32", &values);
}

static void assert_argmax(int n, int where, size_t scratch_offset) {
    struct buffer x = fixture_floats((size_t)n, -1, 1), index = fixture_put((int[]){-7, -7}, 8);
    struct buffer scratch = fixture_room(((size_t)n + 255) / 256 * 8 + 8);
    ((float *)x.host)[where] = 2;
    struct buffer marked = fixture_put(x.host, x.n_bytes);
    ck_done(launch_argmax(marked.device, index.device,
                          scratch_offset > 8 ? NULL : (char *)scratch.device + scratch_offset, n,
                          fixture_stream));
    ((int *)index.host)[0] = where;
    fixture_assert_bytes("launch_argmax", &index);
}

TEST(the_largest_is_found_with_any_scratch) {
    fixture_open();
    for (size_t offset = 0; offset <= 12; offset += 4) {
        assert_argmax(1, 0, offset);
        assert_argmax(1000, 999, offset);
        assert_argmax(300001, 270000, offset);
    }
}

int main(void) {
    return tests_run("dropin_rows");
}
