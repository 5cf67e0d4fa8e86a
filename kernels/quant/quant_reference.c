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

void cushim_gemv_e2m1_f16_f32_ref(const void *w, const uint16_t *scales, const uint16_t *x,
                                  float *y, int64_t m, int64_t k) {
    static const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (int64_t row = 0; row < m; row++) {
        const uint8_t *bytes = w; /* NULL without columns */
        double sum = 0;
        for (int64_t i = 0; i < k; i++) {
            int64_t at = row * k + i;
            int code = at % 2 ? bytes[at / 2] >> 4 : bytes[at / 2] & 15;
            double value = code < 8 ? values[code] : -values[code - 8];
            sum += value * cushim_f32_of_f16(scales[at / 16]) * cushim_f32_of_f16(x[i]);
        }
        y[row] = (float)sum;
    }
}
