/* Products with quantised and small matrices as plain loops: sums in double, rounded once. */
#include <math.h>
#include <stdbool.h>

#include "cushim/kernels_ref.h"
#include "kernels/gemv/gemv_ends.h"
#include "kernels/launch/variants.h"
#include "kernels/reference/quant_values.h"

void cushim_variant_gemm_ref(const struct quant_parts *parts, enum quant_format format,
                             const float *b, float *c, int64_t m, int64_t k, int64_t n) {
    for (int64_t at = 0; at < m * n; at++) {
        int64_t row = at / n, col = at % n;
        double sum = 0;
        for (int64_t i = 0; i < k; i++) {
            struct quant_value value = quant_value_at(parts, format, row * k + i);
            sum += ((double)value.scale * value.q - value.minimum) * b[i * n + col];
        }
        c[at] = (float)sum;
    }
}

/* 1 / the root of the mean square of x. */
static double rstd_of(const float *x, float eps, int64_t k) {
    double sum = 0;
    for (int64_t i = 0; i < k; i++)
        sum += (double)x[i] * x[i];
    return 1 / sqrt(sum / (double)k + eps);
}

/* A row times x, or times x with its norm. */
static double product_of(const struct gemv_rows *w, int64_t row, const float *x, const float *norm,
                         int64_t k) {
    double sum = 0;
    int part = 0;
    while (row >= w->of[part].m)
        row -= w->of[part++].m;
    for (int64_t i = 0; i < k; i++) {
        struct quant_value value = quant_value_at(&w->of[part].w, w->of[part].format, row * k + i);
        sum += ((double)value.scale * value.q - value.minimum) * x[i] * (norm ? norm[i] : 1);
    }
    return sum;
}

void cushim_gemv_add_ref(struct gemv_rows w, const float *x, const float *residual, float *y,
                         int64_t m, int64_t k) {
    cushim_gemv_split(&w, m, 0, 0);
    for (int64_t row = 0; row < m; row++)
        y[row] = (float)(residual[row] + product_of(&w, row, x, NULL, k));
}

void cushim_gemv_add_q4k_f32_ref(const void *w, const float *x, const float *residual, float *y,
                                 int64_t m, int64_t k) {
    cushim_gemv_add_ref(cushim_gemv_rows_of_q4k(w), x, residual, y, m, k);
}

void cushim_gemv_swiglu_ref(struct gemv_rows w, const float *x, const float *norm, float *y,
                            float eps, int64_t m, int64_t k) {
    cushim_gemv_split(&w, m, m, 0);
    double rstd = norm && k ? rstd_of(x, eps, k) : 1;
    for (int64_t row = 0; row < m; row++) {
        double gate = rstd * product_of(&w, row, x, norm, k),
               up = rstd * product_of(&w, m + row, x, norm, k);
        y[row] = (float)(gate / (1 + exp(-gate)) * up);
    }
}

void cushim_gemv_swiglu_q4k_f32_ref(const void *w, const float *x, const float *norm, float *y,
                                    float eps, int64_t m, int64_t k) {
    cushim_gemv_swiglu_ref(cushim_gemv_rows_of_q4k(w), x, norm, y, eps, m, k);
}

void cushim_gemv_qkv_ref(struct gemv_rows w, const float *x, const float *norm, const float *bias,
                         const float *cos_table, const float *sin_table, const int32_t *position,
                         float *q, float *keys, float *values, float eps, int64_t n_q_heads,
                         int64_t n_kv_heads, int64_t head_dim, int64_t k, int64_t max_len,
                         int64_t position_stride, int64_t head_stride) {
    cushim_gemv_split(&w, n_q_heads * head_dim, n_kv_heads * head_dim, n_kv_heads * head_dim);
    double rstd = norm && k ? rstd_of(x, eps, k) : 1;
    int64_t half = head_dim / 2, p = *position;
    if (p < 0 || p >= max_len)
        return;
    for (int64_t head = 0; head < n_q_heads + 2 * n_kv_heads; head++) {
        int64_t kv = head - n_q_heads;
        bool is_value = kv >= n_kv_heads;
        float *to = kv < 0     ? q + head * head_dim
                    : is_value ? values + p * position_stride + (kv - n_kv_heads) * head_stride
                               : keys + p * position_stride + kv * head_stride;
        for (int64_t i = 0; i < half; i++) {
            int64_t first = head * head_dim + i, second = first + half;
            double a = rstd * product_of(&w, first, x, norm, k) + (bias ? bias[first] : 0);
            double b = rstd * product_of(&w, second, x, norm, k) + (bias ? bias[second] : 0);
            double cosine = is_value ? 1 : cos_table[p * half + i];
            double sine = is_value ? 0 : sin_table[p * half + i];
            to[i] = (float)(a * cosine - b * sine);
            to[half + i] = (float)(b * cosine + a * sine);
        }
    }
}

void cushim_gemv_qkv_q4k_f32_ref(const void *w, const float *x, const float *norm,
                                 const float *cos_table, const float *sin_table,
                                 const int32_t *position, float *q, float *keys, float *values,
                                 float eps, int64_t n_q_heads, int64_t n_kv_heads, int64_t head_dim,
                                 int64_t k, int64_t max_len, int64_t position_stride,
                                 int64_t head_stride) {
    cushim_gemv_qkv_ref(cushim_gemv_rows_of_q4k(w), x, norm, NULL, cos_table, sin_table, position,
                        q, keys, values, eps, n_q_heads, n_kv_heads, head_dim, k, max_len,
                        position_stride, head_stride);
}

void cushim_gemv_f32_ref(const float *a, const float *x, float *y, int64_t m, int64_t n) {
    for (int64_t row = 0; row < m; row++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += (double)a[row * n + i] * x[i];
        y[row] = (float)sum;
    }
}

void cushim_gemm_batched_small_f32_ref(const float *a, const float *b, float *c, int64_t m,
                                       int64_t n, int64_t k, int64_t stride_a, int64_t stride_b,
                                       int64_t stride_c, int64_t batch) {
    for (int64_t i = 0; i < batch; i++) {
        for (int64_t row = 0; row < m; row++) {
            for (int64_t col = 0; col < n; col++) {
                double sum = 0;
                for (int64_t at = 0; at < k; at++)
                    sum += (double)a[i * stride_a + row * k + at] * b[i * stride_b + at * n + col];
                c[i * stride_c + row * n + col] = (float)sum;
            }
        }
    }
}

void cushim_gemv_f16_ref(const uint16_t *a, const uint16_t *x, uint16_t *y, int64_t m, int64_t n) {
    for (int64_t row = 0; row < m; row++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += (double)cushim_f32_of_f16(a[row * n + i]) * cushim_f32_of_f16(x[i]);
        y[row] = cushim_f16_of(sum);
    }
}
