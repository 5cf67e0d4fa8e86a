/*
 * Rotary embedding: the references compared with values by hand and identities, and the errors of
 * wrong calls.
 */
#include "tests/unit/suite.h"

#include <math.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

static void assert_values(const float *got, const double *expected, int n) {
    for (int i = 0; i < n; i++)
        ck_assert_double_eq_tol(got[i], expected[i], 1e-6);
}

TEST(a_right_angle_exchanges_the_halves) {
    static const float x[] = {1, 2, 3, 4, 9}, cosines[] = {0, 0}, sines[] = {1, 1};
    float y[5];
    cushim_rope_f32_ref(x, cosines, sines, y, 1, 1, 5, 2, 2);
    assert_values(y, (double[]){-3, -4, 1, 2, 9}, 5);
}

TEST(each_position_has_its_angles) {
    /* [2][2][2], angles 3 apart */
    static const float x[] = {1, 0, 1, 0, 0, 1, 0, 1};
    static const float cosines[] = {1, 7, 7, 0}, sines[] = {0, 7, 7, 1};
    float y[8];
    cushim_rope_f32_ref(x, cosines, sines, y, 2, 2, 2, 1, 3);
    assert_values(y, (double[]){1, 0, 0, 1, 0, 1, -1, 0}, 8);
}

TEST(turning_back_gives_what_was_there) {
    float x[64], cosines[32], sines[32], back[32], y[64];
    for (int i = 0; i < 32; i++) {
        x[i] = (float)i - 7;
        x[i + 32] = 3 - (float)i / 4;
        cosines[i] = (float)cos(i);
        sines[i] = (float)sin(i);
        back[i] = -sines[i];
    }
    cushim_rope_f32_ref(x, cosines, sines, y, 1, 1, 64, 32, 0);
    cushim_rope_f32_ref(y, cosines, back, y, 1, 1, 64, 32, 0);
    for (int i = 0; i < 64; i++)
        ck_assert_double_eq_tol(y[i], x[i], 1e-5);
}

TEST(heads_have_the_weights_of_their_kind) {
    static const float x[] = {3, 4, 3, 4}, w_q[] = {1, 1}, w_k[] = {2, 0};
    static const float cosines[] = {0}, sines[] = {1};
    float y[4];
    double r = 1 / sqrt(12.5);
    cushim_qk_norm_rope_f32_ref(x, w_q, w_k, cosines, sines, y, 0, 2, 2, 1, 1);
    assert_values(y, (double[]){-4 * r, 3 * r, 0, 6 * r}, 4);
}

TEST(a_head_without_rotation_is_only_normed) {
    float x[40], w[20], y[40], expected[40];
    for (int i = 0; i < 40; i++) {
        x[i] = (float)(i * i % 17) - 8;
        w[i % 20] = 1 + (float)i / 8;
    }
    cushim_rms_norm_f32_ref(x, w, expected, NULL, 0.5f, 2, 20);
    cushim_qk_norm_rope_f32_ref(x, w, w, NULL, NULL, y, 0.5f, 2, 20, 1, 0);
    ck_assert_mem_eq(y, expected, sizeof y);
}

/* ---- arguments ---- */

static void assert_error(enum cushim_status status, const char *function, const char *text) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), function) && strstr(cushim_last_error(), text),
                  "\"%s\" has no \"%s\" of %s", cushim_last_error(), text, function);
}

static float *const f = (float *)0x10000, *const odd = (float *)0x10002;
static const char no_multiple[] = "=0x10002 is not a multiple of 4";

#define SIZES(batch, seq, head_dim, half, stride)                                                  \
    cushim_rope_f32(f, f, f, f, batch, seq, head_dim, half, stride, NULL)
#define OF(x, cosines, sines, y) cushim_rope_f32(x, cosines, sines, y, 1, 1, 4, 2, 2, NULL)
TEST(rope_refuses_wrong_arguments) {
    const char *name = "cushim_rope_f32";
    assert_error(SIZES(-1, 1, 4, 2, 2), name, "batch=-1 is negative");
    assert_error(SIZES(1, -1, 4, 2, 2), name, "seq=-1 is negative");
    assert_error(SIZES(1, 1, -4, 2, 2), name, "head_dim=-4 is negative");
    assert_error(SIZES(1, 1, 4, -2, 2), name, "half_rotary=-2 is negative");
    assert_error(SIZES(0, 1, 5, 3, 2), name, "half_rotary=3 is more than half of head_dim=5");
    assert_error(SIZES(1, 1, 4, 2, -1), name, "cos_stride=-1 is negative");
    assert_error(SIZES(INT64_MAX / 2, 2, 4, 2, 2), name, "x has more elements than");
    assert_error(SIZES(1, 4, 4, 2, INT64_MAX / 2), name, "cosines has more elements than");
    assert_error(OF(NULL, f, f, f), name, "x=NULL");
    assert_error(OF(f, NULL, f, f), name, "cosines=NULL");
    assert_error(OF(f, f, NULL, f), name, "sines=NULL");
    assert_error(OF(f, f, f, NULL), name, "y=NULL");
    assert_error(OF(odd, f, f, f), name, no_multiple);
    assert_error(OF(f, odd, f, f), name, no_multiple);
    assert_error(OF(f, f, odd, f), name, no_multiple);
    assert_error(OF(f, f, f, odd), name, no_multiple);
    ck_assert_int_eq(cushim_rope_f32(NULL, NULL, NULL, NULL, 0, 1, 4, 2, 2, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_rope_f32(NULL, NULL, NULL, NULL, 1, 0, 4, 2, 2, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_rope_f32(NULL, NULL, NULL, NULL, 1, 1, 0, 0, 2, NULL), CUSHIM_OK);
}

#define QK_SIZES(n_heads, head_dim, n_q_heads, half)                                               \
    cushim_qk_norm_rope_f32(f, f, f, f, f, f, 1, n_heads, head_dim, n_q_heads, half, NULL)
#define QK_OF(x, w_q, w_k, cosines, sines, y)                                                      \
    cushim_qk_norm_rope_f32(x, w_q, w_k, cosines, sines, y, 1, 2, 4, 1, 2, NULL)
TEST(qk_norm_rope_refuses_wrong_arguments) {
    const char *name = "cushim_qk_norm_rope_f32";
    assert_error(QK_SIZES(-1, 4, 0, 2), name, "n_heads=-1 is negative");
    assert_error(QK_SIZES(1, 4, -1, 2), name, "n_q_heads=-1 is negative");
    assert_error(QK_SIZES(1, 4, 2, 2), name, "n_q_heads=2 is more than n_heads=1");
    assert_error(QK_SIZES(1, -4, 1, 2), name, "head_dim=-4 is negative");
    assert_error(QK_SIZES(1, 4, 1, -2), name, "half_rotary=-2 is negative");
    assert_error(QK_SIZES(1, 4, 1, 3), name, "half_rotary=3 is more than half of head_dim=4");
    assert_error(QK_SIZES(INT64_MAX / 2, 4, 1, 2), name, "x has more elements than");
    assert_error(QK_OF(NULL, f, f, f, f, f), name, "x=NULL");
    assert_error(QK_OF(f, NULL, f, f, f, f), name, "w_q=NULL");
    assert_error(QK_OF(f, f, NULL, f, f, f), name, "w_k=NULL");
    assert_error(QK_OF(f, f, f, NULL, f, f), name, "cosines=NULL");
    assert_error(QK_OF(f, f, f, f, NULL, f), name, "sines=NULL");
    assert_error(QK_OF(f, f, f, f, f, NULL), name, "y=NULL");
    assert_error(QK_OF(f, odd, f, f, f, f), name, no_multiple);
    assert_error(QK_OF(f, f, odd, f, f, f), name, no_multiple);
    assert_error(QK_OF(f, f, f, f, f, odd), name, no_multiple);
    ck_assert_int_eq(
        cushim_qk_norm_rope_f32(NULL, NULL, NULL, NULL, NULL, NULL, 1, 0, 4, 0, 2, NULL),
        CUSHIM_OK);
}

SUITE() {
    return tests_run("reference_rope");
}
