/*
 * Layer norm, GELU and the gradients: the references compared with values by hand and with
 * differences, and the errors of wrong calls.
 */
#include "tests/unit/suite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

static void assert_near(double got, double want, double by) {
    ck_assert_msg(fabs(got - want) <= by, "%.9g is not %.9g", got, want);
}

TEST(a_row_is_centred_and_scaled) {
    const float x[] = {1, 3, 5, 5}, w[] = {1, 2}, b[] = {10, 20};
    float y[4], rstd[2];
    cushim_layer_norm_f32_ref(x, w, b, y, rstd, 3, 2, 2); /* deviations 1 and 0: 1 / sqrt(4) */
    ck_assert(y[0] == 9.5f && y[1] == 21 && y[2] == 10 && y[3] == 20);
    ck_assert(rstd[0] == 0.5f);
}

enum { D = 5 };
static const float x[D] = {0.5f, -1, 2, 0.25f, 1}, w[D] = {1, -2, 0.5f, 3, 1}, b[D] = {0},
                   dy[D] = {1, 0.5f, -1, 2, 0.25f};

static double loss_of(const float *y) {
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += (double)y[i] * dy[i];
    return sum;
}

static double loss_of_norm(const float *at, const float *by) {
    float y[D];
    cushim_layer_norm_f32_ref(at, by, b, y, NULL, 1e-5f, 1, D);
    return loss_of(y);
}

TEST(gradients_of_layer_norm_are_differences) {
    const float step = 0x1p-8f;
    float y[D], rstd, dx[D], dw[D];
    cushim_layer_norm_f32_ref(x, w, b, y, &rstd, 1e-5f, 1, D);
    cushim_layer_norm_backward_f32_ref(dy, x, w, &rstd, dx, dw, 1, D);
    for (int i = 0; i < D; i++) {
        float more[D], less[D];
        memcpy(more, x, sizeof x), memcpy(less, x, sizeof x);
        more[i] += step, less[i] -= step;
        assert_near(dx[i], (loss_of_norm(more, w) - loss_of_norm(less, w)) / (2 * step), 1e-3);
        memcpy(more, w, sizeof w), memcpy(less, w, sizeof w);
        more[i] += step, less[i] -= step;
        assert_near(dw[i], (loss_of_norm(x, more) - loss_of_norm(x, less)) / (2 * step), 1e-3);
    }
}

TEST(gradients_of_softmax_are_its_jacobian) {
    const float y[] = {0.5f, 0.25f, 0.25f};
    float dx[3];
    cushim_softmax_backward_f32_ref(y, (const float[]){4, 0, 8}, dx, 1, 3); /* the sum is 4 */
    ck_assert(dx[0] == 0 && dx[1] == -1 && dx[2] == 1);
}

TEST(gelu_has_its_values_and_slopes) {
    const float at[] = {0, 1, -1, 30, -30, -INFINITY}, one[] = {1, 1, 1, 1, 1, 1};
    const double want[] = {0, 0.841191990608, -0.158808009392, 30, 0, 0};
    float y[6], slopes[6], more, less, step = 0x1p-8f;
    cushim_gelu_f32_ref(at, y, 6);
    cushim_gelu_backward_f32_ref(at, one, slopes, 6);
    for (int i = 0; i < 6; i++)
        assert_near(y[i], want[i], 1e-7);
    for (int i = 0; i < 3; i++) {
        cushim_gelu_f32_ref(&(float){at[i] + step}, &more, 1);
        cushim_gelu_f32_ref(&(float){at[i] - step}, &less, 1);
        assert_near(slopes[i], ((double)more - less) / (2 * step), 1e-4);
    }
    ck_assert(slopes[3] == 1 && slopes[4] == 0 && slopes[5] == 0);
}

static void assert_error(enum cushim_status status, const char *part) {
    ck_assert_int_eq(status, CUSHIM_INVALID);
    ck_assert_msg(strstr(cushim_last_error(), part) != NULL, "%s", cushim_last_error());
}

TEST(wrong_calls_are_refused) {
    float *f = (float *)0x10000, *odd = (float *)0x10002;
    assert_error(cushim_layer_norm_f32(f, f, f, f, NULL, 0, -1, 4, NULL), "rows=-1 is negative");
    assert_error(cushim_layer_norm_f32(f, f, f, f, NULL, 0, 1, -4, NULL), "d=-4 is negative");
    assert_error(cushim_layer_norm_f32(f, f, NULL, f, NULL, 0, 1, 4, NULL), "b=NULL");
    assert_error(cushim_layer_norm_f32(f, f, f, f, odd, 0, 1, 4, NULL), "rstd=0x10002");
    assert_error(cushim_layer_norm_backward_f32(f, f, f, f, f, NULL, 1, 4, NULL), "dw=NULL");
    assert_error(cushim_softmax_backward_f32(f, odd, f, 1, 4, NULL), "dy=0x10002");
    assert_error(cushim_gelu_f32(f, f, -4, NULL), "n=-4 is negative");
    assert_error(cushim_gelu_f32(f, NULL, 4, NULL), "y=NULL");
    assert_error(cushim_gelu_backward_f32(f, f, odd, 4, NULL), "dx=0x10002");
    ck_assert_int_eq(cushim_layer_norm_f32(NULL, NULL, NULL, NULL, NULL, 0, 0, 4, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_gelu_f32(NULL, NULL, 0, NULL), CUSHIM_OK);
}

SUITE() {
    return tests_run("reference_encoder");
}
