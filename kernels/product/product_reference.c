/* Products of matrices at any strides as plain loops, with sums in double. */
#include "cushim/kernels/product.h"
#include "cushim/kernels_ref.h"
#include "kernels/reference/half.h"

void cushim_gemm_strided_f32_ref(const float *a, const float *b, float *c, float alpha, float beta,
                                 int64_t batch, int64_t m, int64_t n, int64_t k,
                                 const struct cushim_matrix_strides *of_a,
                                 const struct cushim_matrix_strides *of_b,
                                 const struct cushim_matrix_strides *of_c) {
    for (int64_t at = 0; m > 0 && n > 0 && at < batch * m * n; at++) {
        int64_t i = at / n / m, row = at / n % m, col = at % n;
        float *out = c + i * of_c->batch + row * of_c->row + col * of_c->column;
        double sum = 0;
        for (int64_t d = 0; d < k; d++)
            sum += (double)a[i * of_a->batch + row * of_a->row + d * of_a->column] *
                   b[i * of_b->batch + d * of_b->row + col * of_b->column];
        *out = (float)(alpha * sum + (beta == 0 ? 0 : (double)beta * *out));
    }
}

void cushim_gemm_e4m3_f16_ref(const uint8_t *a, const uint8_t *b, uint16_t *c, float scale_a,
                              float scale_b, int64_t m, int64_t n, int64_t k) {
    float scale = scale_a * scale_b;
    for (int64_t at = 0; at < m * n; at++) {
        double sum = 0;
        for (int64_t d = 0; d < k; d++)
            sum += (double)cushim_f32_of_e4m3(a[at / n * k + d], 1) *
                   cushim_f32_of_e4m3(b[d * n + at % n], 1);
        c[at] = cushim_f16_of(scale * sum);
    }
}
