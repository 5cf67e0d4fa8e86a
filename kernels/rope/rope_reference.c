/*
 * Rotary embedding as plain loops: elements d and d + half_rotary of a head are a point that is
 * turned by an angle; elements beyond both halves are copied.
 */
#include <math.h>

#include "cushim/kernels_ref.h"

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
static double rstd_of(const float *head, int64_t head_dim, float eps) {
    double sum = 0;
    for (int64_t d = 0; d < head_dim; d++)
        sum += head[d] * head[d];
    return isinf((float)sum) ? 0 : 1 / sqrt(sum / (double)head_dim + eps);
}

void cushim_qk_norm_rope_f32_ref(const float *x, const float *w_q, const float *w_k,
                                 const float *cosines, const float *sines, float *y, float eps,
                                 int64_t n_heads, int64_t head_dim, int64_t n_q_heads,
                                 int64_t half_rotary) {
    for (int64_t head = 0; head_dim > 0 && head < n_heads; head++) {
        const float *from = x + head * head_dim, *w = head < n_q_heads ? w_q : w_k;
        float *to = y + head * head_dim;
        double r = rstd_of(from, head_dim, eps);
        for (int64_t d = 0; d < half_rotary; d++) {
            double first = from[d] * r * w[d];
            double second = from[d + half_rotary] * r * w[d + half_rotary];
            to[d] = (float)(first * cosines[d] - second * sines[d]);
            to[d + half_rotary] = (float)(second * cosines[d] + first * sines[d]);
        }
        for (int64_t d = 2 * half_rotary; d < head_dim; d++)
            to[d] = (float)(from[d] * r * w[d]);
    }
}
