/*
 * Rotary embedding as plain loops: elements d and d + half_rotary of a head are a point that is
 * turned by an angle; elements beyond both halves are copied.
 */
#include <math.h>

#include "cushim/kernels_ref.h"
#include "kernels/reference/half.h"

void cushim_rope_f32_ref(const float *x, const float *cosines, const float *sines, float *y,
                         int64_t batch, int64_t seq, int64_t head_dim, int64_t half_rotary,
                         int64_t cos_stride) {
    for (int64_t row = 0; head_dim > 0 && row < batch * seq; row++) {
        const float *from = x + row * head_dim;
        float *to = y + row * head_dim;
        for (int64_t d = 0; d < half_rotary; d++) {
            double cosine = cosines[row % seq * cos_stride + d];
            double sine = sines[row % seq * cos_stride + d];
            double first = from[d], second = from[d + half_rotary];
            to[d] = (float)(first * cosine - second * sine);
            to[d + half_rotary] = (float)(second * cosine + first * sine);
        }
        for (int64_t d = 2 * half_rotary; d < head_dim; d++)
            to[d] = from[d];
    }
}

/* The norm is that of cushim_rms_norm_f32. */
#define QK_NORM_ROPE(name, type, read, round)                                                      \
    void cushim_##name##_ref(const type *x, const type *w_q, const type *w_k, const type *cosines, \
                             const type *sines, type *y, float eps, int64_t n_heads,               \
                             int64_t head_dim, int64_t n_q_heads, int64_t half_rotary) {           \
        for (int64_t head = 0; head_dim > 0 && head < n_heads; head++) {                           \
            const type *from = x + head * head_dim, *w = head < n_q_heads ? w_q : w_k;             \
            type *to = y + head * head_dim;                                                        \
            double sum = 0;                                                                        \
            for (int64_t d = 0; d < head_dim; d++)                                                 \
                sum += square(read(from[d]));                                                      \
            double r = rstd_of(sum, head_dim, eps);                                                \
            for (int64_t d = 0; d < half_rotary; d++) {                                            \
                double first = read(from[d]) * r * read(w[d]);                                     \
                double second = read(from[d + half_rotary]) * r * read(w[d + half_rotary]);        \
                double cosine = read(cosines[d]), sine = read(sines[d]);                           \
                to[d] = round(first * cosine - second * sine);                                     \
                to[d + half_rotary] = round(second * cosine + first * sine);                       \
            }                                                                                      \
            for (int64_t d = 2 * half_rotary; d < head_dim; d++)                                   \
                to[d] = round(read(from[d]) * r * read(w[d]));                                     \
        }                                                                                          \
    }

static float square(float value) {
    return value * value;
}

static double rstd_of(double sum, int64_t head_dim, float eps) {
    return isinf((float)sum) ? 0 : 1 / sqrt(sum / (double)head_dim + eps);
}

QK_NORM_ROPE(qk_norm_rope_f32, float, (float), (float))
QK_NORM_ROPE(qk_norm_rope_bf16, uint16_t, cushim_f32_of_bf16, cushim_bf16_of)
