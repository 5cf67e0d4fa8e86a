/* Dequantisation as plain loops, in float, product by product, like the kernels; products. */
#include "cushim/kernels_ref.h"

#include <string.h>

#include "kernels/launch/variants.h"
#include "kernels/reference/q4k.h"

void cushim_dequant_q4k_f32_ref(const void *w, float *y, int64_t rows, int64_t k) {
    const uint8_t *blocks = w;
    for (int64_t i = 0; i < rows * k; i++) {
        struct q4k_value value =
            q4k_value_at(blocks + i / Q4K_VALUES * Q4K_BYTES, (int)(i % Q4K_VALUES));
        float product = (float)value.scale * (float)value.nibble;
        y[i] = product - (float)value.minimum;
    }
}

/* ---- a value is scale * q - minimum ---- */

struct value {
    float scale, minimum;
    int q;
};

static struct value q5_0_at(const struct quant_parts *parts, int64_t n) {
    int64_t block = n / 32;
    int i = (int)(n % 32);
    const uint8_t *high = parts->high + block * parts->high_step;
    int byte = parts->low[block * parts->low_step + i % 16];
    int q = (i < 16 ? byte & 15 : byte >> 4) + 16 * (high[i / 8] >> i % 8 & 1);
    return (struct value){cushim_f32_of_f16(q4k_u16(parts->head + block * parts->head_step)), 0,
                          q - 16};
}

/* The parts of a q4k block. */
static struct value q4k_at(const struct quant_parts *parts, int64_t n) {
    int64_t block = n / Q4K_VALUES;
    uint8_t as_q4k[Q4K_BYTES];
    memcpy(as_q4k, parts->head + block * parts->head_step, 16);
    memcpy(as_q4k + 16, parts->low + block * parts->low_step, 128);
    struct q4k_value value = q4k_value_at(as_q4k, (int)(n % Q4K_VALUES));
    return (struct value){(float)value.scale, (float)value.minimum, value.nibble};
}

static struct value q5k_at(const struct quant_parts *parts, int64_t n) {
    int64_t block = n / Q4K_VALUES;
    int i = (int)(n % Q4K_VALUES);
    struct value value = q4k_at(parts, n);
    value.q += 16 * (parts->high[block * parts->high_step + i % 32] >> i / 32 & 1);
    return value;
}

static struct value q6k_at(const struct quant_parts *parts, int64_t n) {
    int64_t block = n / 256;
    int i = (int)(n % 256), half = i / 128, quarter = i % 128 / 32, l = i % 32;
    const uint8_t *head = parts->head + block * parts->head_step;
    int byte = parts->low[block * parts->low_step + 64 * half + 32 * (quarter % 2) + l];
    int high = parts->high[block * parts->high_step + 32 * half + l] >> 2 * quarter & 3;
    int scale = head[i / 16] < 128 ? head[i / 16] : head[i / 16] - 256;
    return (struct value){cushim_f32_of_f16(q4k_u16(head + 16)) * (float)scale, 0,
                          (quarter < 2 ? byte & 15 : byte >> 4) + 16 * high - 32};
}

static struct value value_at(const struct quant_parts *parts, enum quant_format format, int64_t n) {
    return format == QUANT_Q5_0  ? q5_0_at(parts, n)
           : format == QUANT_Q5K ? q5k_at(parts, n)
           : format == QUANT_Q4K ? q4k_at(parts, n)
                                 : q6k_at(parts, n);
}

void cushim_variant_dequant_ref(const struct quant_parts *parts, enum quant_format format, float *y,
                                int64_t rows, int64_t k) {
    for (int64_t i = 0; i < rows * k; i++) {
        struct value value = value_at(parts, format, i);
        float product = value.scale * (float)value.q;
        y[i] = product - value.minimum;
    }
}

void cushim_variant_gemm_ref(const struct quant_parts *parts, enum quant_format format,
                             const float *b, float *c, int64_t m, int64_t k, int64_t n) {
    for (int64_t at = 0; at < m * n; at++) {
        int64_t row = at / n, col = at % n;
        double sum = 0;
        for (int64_t i = 0; i < k; i++) {
            struct value value = value_at(parts, format, row * k + i);
            sum += ((double)value.scale * value.q - value.minimum) * b[i * n + col];
        }
        c[at] = (float)sum;
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
