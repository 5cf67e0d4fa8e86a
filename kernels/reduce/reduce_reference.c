/* The reductions as plain loops. */
#include <math.h>

#include "cushim/kernels_ref.h"
#include "kernels/launch/variants.h"
#include "kernels/reference/half.h"

void cushim_sum_axis_f32_ref(const float *x, float *y, int64_t outer, int64_t axis, int64_t inner) {
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < inner; i++) {
            double sum = 0;
            for (int64_t a = 0; a < axis; a++)
                sum += x[(o * axis + a) * inner + i];
            y[o * inner + i] = (float)sum;
        }
    }
}

/* n >= 1 */
static int64_t find_largest(const float *x, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            return i;
        if (x[i] > x[best])
            best = i;
    }
    return best;
}

void cushim_argmax_f32_ref(const float *x, int64_t *index, int64_t n) {
    if (n > 0)
        *index = find_largest(x, n);
}

void cushim_variant_argmax_f32_i32_ref(const float *x, int32_t *index, int64_t n) {
    if (n > 0)
        *index = (int32_t)find_largest(x, n);
}

void cushim_sum_axis_bf16_ref(const uint16_t *x, uint16_t *y, float scale, int64_t outer,
                              int64_t axis, int64_t inner) {
    for (int64_t i = 0; i < outer * inner; i++) {
        double sum = 0;
        for (int64_t a = 0; a < axis; a++)
            sum += cushim_f32_of_bf16(x[(i / inner * axis + a) * inner + i % inner]);
        y[i] = cushim_bf16_of(sum * scale);
    }
}

/* SCAN_STATES states at a time, whose sums are rounded. */
enum { SCAN_STATES = 256 };

void cushim_selective_scan_f32_ref(const float *x, const float *a, const float *b, const float *c,
                                   const float *d, float *y, int64_t batch, int64_t n_channels,
                                   int64_t n_states, int64_t seq) {
    for (int64_t row = 0; seq > 0 && row < batch * n_channels; row++) {
        int64_t channel = row % n_channels, first = 0;
        do {
            double h[SCAN_STATES] = {0};
            for (int64_t t = 0; t < seq; t++) {
                double value = x[row * seq + t];
                double sum = first ? (double)y[row * seq + t] : d ? d[channel] * value : 0;
                for (int64_t i = 0; i < SCAN_STATES && first + i < n_states; i++) {
                    int64_t at = (row / n_channels * n_states + first + i) * seq + t;
                    h[i] = a[channel * n_states + first + i] * h[i] + b[at] * value;
                    sum += c[at] * h[i];
                }
                y[row * seq + t] = (float)sum;
            }
            first += SCAN_STATES;
        } while (first < n_states);
    }
}
