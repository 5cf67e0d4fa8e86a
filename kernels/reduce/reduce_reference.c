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
