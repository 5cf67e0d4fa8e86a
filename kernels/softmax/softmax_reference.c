/* Softmax as plain loops: a column of the middle axis at a time. */
#include <math.h>

#include "cushim/kernels_ref.h"
#include "kernels/reference/half.h"

/* If x * scale is nowhere a number above -Inf, or somewhere NaN or +Inf, the sum is NaN. */
void cushim_scaled_softmax_f32_ref(const float *x, float *y, float scale, int64_t outer,
                                   int64_t axis, int64_t inner) {
    for (int64_t o = 0; axis > 0 && o < outer; o++) {
        for (int64_t i = 0; i < inner; i++) {
            const float *from = x + o * axis * inner + i;
            float *to = y + o * axis * inner + i;
            double top = -INFINITY, sum = 0;
            for (int64_t a = 0; a < axis; a++)
                top = fmax(top, (double)from[a * inner] * scale);
            for (int64_t a = 0; a < axis; a++)
                sum += exp((double)from[a * inner] * scale - top);
            for (int64_t a = 0; a < axis; a++)
                to[a * inner] = (float)(exp((double)from[a * inner] * scale - top) / sum);
        }
    }
}

void cushim_softmax_f32_ref(const float *x, float *y, int64_t outer, int64_t axis, int64_t inner) {
    cushim_scaled_softmax_f32_ref(x, y, 1, outer, axis, inner);
}

#define SMALL(format)                                                                              \
    void cushim_scaled_softmax_##format##_ref(const uint16_t *x, uint16_t *y, float scale,         \
                                              int64_t outer, int64_t axis, int64_t inner) {        \
        for (int64_t o = 0; axis > 0 && o < outer; o++) {                                          \
            for (int64_t i = 0; i < inner; i++) {                                                  \
                const uint16_t *from = x + o * axis * inner + i;                                   \
                uint16_t *to = y + o * axis * inner + i;                                           \
                double top = -INFINITY, sum = 0;                                                   \
                for (int64_t a = 0; a < axis; a++)                                                 \
                    top = fmax(top, (double)cushim_f32_of_##format(from[a * inner]) * scale);      \
                for (int64_t a = 0; a < axis; a++)                                                 \
                    sum += exp((double)cushim_f32_of_##format(from[a * inner]) * scale - top);     \
                for (int64_t a = 0; a < axis; a++)                                                 \
                    to[a * inner] = cushim_##format##_of(                                          \
                        exp((double)cushim_f32_of_##format(from[a * inner]) * scale - top) / sum); \
            }                                                                                      \
        }                                                                                          \
    }

SMALL(f16)
SMALL(bf16)

void cushim_softmax_mul_f32_ref(const float *scores, const float *v, float *y, float scale,
                                int64_t rows, int64_t n, int64_t d) {
    for (int64_t i = 0; i < rows * d; i++) {
        int64_t first = i / d * n; /* of the row's scores */
        double top = -INFINITY, sum = 0, total = 0;
        for (int64_t k = 0; k < n; k++)
            top = fmax(top, (double)scores[first + k] * scale);
        for (int64_t k = 0; k < n; k++) {
            double weight = exp((double)scores[first + k] * scale - top);
            sum += weight;
            total += weight * v[(first + k) * d + i % d];
        }
        y[i] = n ? (float)(total / sum) : 0;
    }
}
