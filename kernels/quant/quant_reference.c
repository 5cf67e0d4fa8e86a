/* Dequantisation as plain loops, in float, product by product, like the kernels; two bits. */
#include "cushim/kernels_ref.h"

#include "kernels/launch/variants.h"
#include "kernels/reference/quant_values.h"

void cushim_variant_dequant_ref(const struct quant_parts *parts, enum quant_format format, float *y,
                                int64_t rows, int64_t k) {
    for (int64_t i = 0; i < rows * k; i++) {
        struct quant_value value = quant_value_at(parts, format, i);
        float product = value.scale * (float)value.q;
        y[i] = product - value.minimum;
    }
}

/* Values of two bits, less 1; 3 is 0. */
void cushim_gemv_ternary_f32_ref(const void *w, const float *x, float *y, int64_t m, int64_t k) {
    for (int64_t row = 0; row < m; row++) {
        const uint8_t *bytes = w; /* NULL without columns */
        double sum = 0;
        for (int64_t i = 0; i < k; i++) {
            int q = bytes[row * ((k + 3) / 4) + i / 4] >> 2 * (i % 4) & 3;
            sum += q == 0 ? -(double)x[i] : q == 2 ? (double)x[i] : 0;
        }
        y[row] = (float)sum;
    }
}
