/*
 * RMS norm as plain loops: r = 1 / sqrt(mean(x^2) + eps), y = x * r * w.
 *
 * The sum is as in a float: if it is too large for one, r is 0.  Squares are floats too, so those
 * below the least subnormal number count as 0.
 */
#include <math.h>

#include "cushim/kernels_ref.h"
#include "kernels/reference/half.h"
#include "kernels/launch/variants.h"

static void add_square(double *sum, float x) {
    *sum += x * x;
}

static double rstd_of(double sum_of_squares, int64_t d, float eps) {
    return isinf((float)sum_of_squares) ? 0 : 1 / sqrt(sum_of_squares / (double)d + eps);
}

static double rstd_of_row(const float *row, int64_t d, float eps) {
    double sum = 0;
    for (int64_t i = 0; i < d; i++)
        add_square(&sum, row[i]);
    return rstd_of(sum, d, eps);
}

void cushim_rms_norm_f32_ref(const float *x, const float *w, float *y, float *rstd, float eps,
                             int64_t rows, int64_t d) {
    for (int64_t row = 0; d > 0 && row < rows; row++) {
        double r = rstd_of_row(x + row * d, d, eps);
        for (int64_t i = 0; i < d; i++)
            y[row * d + i] = (float)(x[row * d + i] * r * w[i]);
        if (rstd)
            rstd[row] = (float)r;
    }
}

void cushim_add_rms_norm_f32_ref(const float *x, const float *residual, const float *w, float *y,
                                 float *sum, float eps, int64_t rows, int64_t d) {
    for (int64_t row = 0; d > 0 && row < rows; row++) {
        float *of_row = sum + row * d;
        for (int64_t i = 0; i < d; i++)
            of_row[i] = x[row * d + i] + residual[row * d + i];
        double r = rstd_of_row(of_row, d, eps);
        for (int64_t i = 0; i < d; i++)
            y[row * d + i] = (float)(of_row[i] * r * w[i]);
    }
}

void cushim_rms_norm_add_f32_ref(const float *x, const float *w, const float *residual, float *y,
                                 float eps, int64_t rows, int64_t d) {
    for (int64_t row = 0; d > 0 && row < rows; row++) {
        double r = rstd_of_row(x + row * d, d, eps);
        for (int64_t i = 0; i < d; i++)
            y[row * d + i] = (float)(x[row * d + i] * r * w[i] + residual[row * d + i]);
    }
}

void cushim_rms_norm_f16_ref(const uint16_t *x, const uint16_t *w, uint16_t *y, float eps,
                             int64_t rows, int64_t d) {
    for (int64_t row = 0; d > 0 && row < rows; row++) {
        const uint16_t *from = x + row * d;
        double sum = 0;
        for (int64_t i = 0; i < d; i++)
            add_square(&sum, cushim_f32_of_f16(from[i]));
        double r = rstd_of(sum, d, eps);
        for (int64_t i = 0; i < d; i++)
            y[row * d + i] =
                cushim_f16_of(cushim_f32_of_f16(from[i]) * r * cushim_f32_of_f16(w[i]));
    }
}

static double rstd_of_bf16(const uint16_t *row, int64_t d, float eps) {
    double sum = 0;
    for (int64_t i = 0; i < d; i++)
        add_square(&sum, cushim_f32_of_bf16(row[i]));
    return rstd_of(sum, d, eps);
}

void cushim_add_rms_norm_bf16_ref(const uint16_t *x, const uint16_t *residual, const uint16_t *w,
                                  uint16_t *y, uint16_t *sum, float eps, int64_t rows, int64_t d) {
    for (int64_t row = 0; d > 0 && row < rows; row++) {
        uint16_t *of_row = sum + row * d;
        for (int64_t i = 0; i < d; i++)
            of_row[i] = cushim_bf16_of((double)cushim_f32_of_bf16(x[row * d + i]) +
                                       cushim_f32_of_bf16(residual[row * d + i]));
        double r = rstd_of_bf16(of_row, d, eps);
        for (int64_t i = 0; i < d; i++)
            y[row * d + i] =
                cushim_bf16_of(cushim_f32_of_bf16(of_row[i]) * r * cushim_f32_of_bf16(w[i]));
    }
}

void cushim_rms_norm_add_bf16_ref(const uint16_t *x, const uint16_t *w, const uint16_t *residual,
                                  uint16_t *y, float eps, int64_t rows, int64_t d) {
    for (int64_t row = 0; d > 0 && row < rows; row++) {
        double r = rstd_of_bf16(x + row * d, d, eps);
        for (int64_t i = 0; i < d; i++)
            y[row * d + i] =
                cushim_bf16_of(cushim_f32_of_bf16(x[row * d + i]) * r * cushim_f32_of_bf16(w[i]) +
                               cushim_f32_of_bf16(residual[row * d + i]));
    }
}

static void norm_e4m3(const uint8_t *x, int has_nan, const uint16_t *w, uint16_t *y, float scale,
                      float eps, int64_t rows, int64_t d) {
    for (int64_t row = 0; d > 0 && row < rows; row++) {
        const uint8_t *from = x + row * d;
        double sum = 0;
        for (int64_t i = 0; i < d; i++)
            add_square(&sum, cushim_f32_of_e4m3(from[i], has_nan) * scale);
        double r = rstd_of(sum, d, eps);
        for (int64_t i = 0; i < d; i++) {
            float value = cushim_f32_of_e4m3(from[i], has_nan) * scale;
            y[row * d + i] = cushim_f16_of(value * r * cushim_f32_of_f16(w[i]));
        }
    }
}

void cushim_rms_norm_e4m3_f16_ref(const uint8_t *x, const uint16_t *w, uint16_t *y, float scale,
                                  float eps, int64_t rows, int64_t d) {
    norm_e4m3(x, 1, w, y, scale, eps, rows, d);
}

void cushim_variant_rms_norm_e4m3_f16_ref(const uint8_t *x, const uint16_t *w, uint16_t *y,
                                          float scale, float eps, int64_t rows, int64_t d) {
    norm_e4m3(x, 0, w, y, scale, eps, rows, d);
}
