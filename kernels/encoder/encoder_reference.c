/* Layer norm, GELU, and the gradients of both and of softmax as plain loops, in double. */
#include "cushim/kernels_ref.h"

#include <math.h>

static double mean_of(const float *x, int64_t d) {
    double sum = 0;
    for (int64_t i = 0; i < d; i++)
        sum += x[i];
    return sum / (double)d;
}

void cushim_layer_norm_f32_ref(const float *x, const float *w, const float *b, float *y,
                               float *rstd, float eps, int64_t rows, int64_t d) {
    for (int64_t row = 0; d > 0 && row < rows; row++) {
        double mean = mean_of(x + row * d, d), squares = 0;
        for (int64_t i = 0; i < d; i++)
            squares += (x[row * d + i] - mean) * (x[row * d + i] - mean);
        double r = 1 / sqrt(squares / (double)d + eps);
        for (int64_t i = 0; i < d; i++)
            y[row * d + i] = (float)((x[row * d + i] - mean) * r * w[i] + b[i]);
        if (rstd)
            rstd[row] = (float)r;
    }
}

void cushim_layer_norm_backward_f32_ref(const float *dy, const float *x, const float *w,
                                        const float *rstd, float *dx, float *dw, int64_t rows,
                                        int64_t d) {
    for (int64_t row = 0; d > 0 && row < rows; row++) {
        double mean = mean_of(x + row * d, d), of_g = 0, of_gn = 0, r = rstd[row];
        for (int64_t i = 0; i < d; i++) {
            double g = (double)dy[row * d + i] * w[i];
            of_g += g / (double)d;
            of_gn += g * (x[row * d + i] - mean) * r / (double)d;
        }
        for (int64_t i = 0; i < d; i++) {
            double n = (x[row * d + i] - mean) * r, of_y = dy[row * d + i];
            dw[row * d + i] = (float)(of_y * n);
            dx[row * d + i] = (float)(r * (of_y * w[i] - of_g - n * of_gn));
        }
    }
}

void cushim_softmax_backward_f32_ref(const float *y, const float *dy, float *dx, int64_t rows,
                                     int64_t d) {
    for (int64_t row = 0; row < rows; row++) {
        double dot = 0;
        for (int64_t i = row * d; i < (row + 1) * d; i++)
            dot += (double)y[i] * dy[i];
        for (int64_t i = row * d; i < (row + 1) * d; i++)
            dx[i] = (float)(y[i] * (dy[i] - dot));
    }
}

/* 2 sqrt(2 / pi); then y = x / (1 + exp(-z)) with z = TWICE (x + 0.044715 x^3). */
#define TWICE (2 * sqrt(2 / acos(-1)))

void cushim_gelu_f32_ref(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double at = x[i] < -20 ? -20 : x[i], z = TWICE * (at + 0.044715 * at * at * at);
        y[i] = (float)(at / (1 + exp(-z)));
    }
}

void cushim_gelu_backward_f32_ref(const float *x, const float *dy, float *dx, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double at = x[i] < -20 ? -20 : x[i] > 20 ? 20 : x[i];
        double z = TWICE * (at + 0.044715 * at * at * at), sigmoid = 1 / (1 + exp(-z));
        double slope_of_z = TWICE * (1 + 3 * 0.044715 * at * at);
        dx[i] = (float)(dy[i] * (sigmoid + at * slope_of_z * sigmoid / (1 + exp(z))));
    }
}
