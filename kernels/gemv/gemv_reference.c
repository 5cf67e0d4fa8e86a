/* Products with quantised and small matrices as plain loops: sums in double, rounded once. */
#include <string.h>

#include "cushim/kernels_ref.h"
#include "kernels/reference/q4k.h"

enum { BLOCK_VALUES = 32 };

void cushim_gemm_q4_0_f32_ref(const uint16_t *scales, const uint8_t *nibbles, const float *b,
                              float *c, int64_t m, int64_t k, int64_t n) {
    for (int64_t row = 0; row < m; row++) {
        for (int64_t col = 0; col < n; col++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++) {
                int64_t block = (row * k + i) / BLOCK_VALUES;
                int at = (int)(i % BLOCK_VALUES), byte = nibbles[16 * block + at % 16];
                int nibble = at < 16 ? byte & 15 : byte >> 4;
                double weight = (nibble - 8) * (double)cushim_f32_of_f16(scales[block]);
                sum += weight * b[i * n + col];
            }
            c[row * n + col] = (float)sum;
        }
    }
}

void cushim_gemm_q8_0_f32_ref(const void *w, const float *b, float *c, int64_t m, int64_t k,
                              int64_t n) {
    enum { BLOCK_BYTES = 34 };
    for (int64_t row = 0; row < m; row++) {
        for (int64_t col = 0; col < n; col++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++) {
                const uint8_t *block =
                    (const uint8_t *)w + (row * k + i) / BLOCK_VALUES * BLOCK_BYTES;
                double scale = cushim_f32_of_f16((uint16_t)(block[0] | block[1] << 8));
                sum += scale * (int8_t)block[2 + i % BLOCK_VALUES] * b[i * n + col];
            }
            c[row * n + col] = (float)sum;
        }
    }
}

void cushim_gemm_q8f_f32_ref(const void *w, const float *b, float *c, int64_t m, int64_t k,
                             int64_t n) {
    enum { BLOCK_BYTES = 36 };
    for (int64_t row = 0; row < m; row++) {
        for (int64_t col = 0; col < n; col++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++) {
                const uint8_t *block =
                    (const uint8_t *)w + (row * k + i) / BLOCK_VALUES * BLOCK_BYTES;
                float scale;
                memcpy(&scale, block, sizeof scale);
                sum += (double)scale * (int8_t)block[4 + i % BLOCK_VALUES] * b[i * n + col];
            }
            c[row * n + col] = (float)sum;
        }
    }
}

void cushim_gemv_q4k_f32_ref(const void *w, const float *x, float *y, int64_t m, int64_t k) {
    for (int64_t row = 0; row < m; row++) {
        const uint8_t *blocks = (const uint8_t *)w + row * (k / Q4K_VALUES) * Q4K_BYTES;
        double sum = 0;
        for (int64_t i = 0; i < k; i++) {
            struct q4k_value value =
                q4k_value_at(blocks + i / Q4K_VALUES * Q4K_BYTES, (int)(i % Q4K_VALUES));
            sum += (value.scale * value.nibble - value.minimum) * x[i];
        }
        y[row] = (float)sum;
    }
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
    for (int64_t i = 0; i < batch; i++, a += stride_a, b += stride_b, c += stride_c) {
        for (int64_t row = 0; row < m; row++) {
            for (int64_t col = 0; col < n; col++) {
                double sum = 0;
                for (int64_t at = 0; at < k; at++)
                    sum += (double)a[row * k + at] * b[at * n + col];
                c[row * n + col] = (float)sum;
            }
        }
    }
}
