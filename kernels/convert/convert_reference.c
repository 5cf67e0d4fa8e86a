/* Conversions as plain loops: each operation rounded where the specification rounds. */
#include "cushim/kernels_ref.h"
#include "kernels/reference/half.h"
#include "kernels/launch/variants.h"

void cushim_convert_f32_f16_ref(const float *src, uint16_t *dst, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        dst[i] = cushim_f16_of(src[i]);
}

void cushim_convert_f16_f32_ref(const uint16_t *src, float *dst, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        dst[i] = cushim_f32_of_f16(src[i]);
}

void cushim_convert_f32_bf16_ref(const float *src, uint16_t *dst, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        dst[i] = cushim_bf16_of(src[i]);
}

void cushim_convert_bf16_f32_ref(const uint16_t *src, float *dst, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        dst[i] = cushim_f32_of_bf16(src[i]);
}

/* The conversion to the type float rounds. */
static float scaled(uint8_t code, int has_nan, float scale) {
    float product = cushim_f32_of_e4m3(code, has_nan) * scale;
    return product;
}

static void dequant(const uint8_t *src, uint16_t *dst, float scale, int has_nan, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        dst[i] = cushim_f16_of(scaled(src[i], has_nan, scale));
}

void cushim_dequant_e4m3_f16_ref(const uint8_t *src, uint16_t *dst, float scale, int64_t n) {
    dequant(src, dst, scale, 1, n);
}

void cushim_variant_dequant_e4m3_f16_ref(const uint8_t *src, uint16_t *dst, float scale,
                                         int64_t n) {
    dequant(src, dst, scale, 0, n);
}

static void add(const uint8_t *a, const uint8_t *b, uint16_t *c, float scale_a, float scale_b,
                int has_nan, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float sum = scaled(a[i], has_nan, scale_a) + scaled(b[i], has_nan, scale_b);
        c[i] = cushim_f16_of(sum);
    }
}

void cushim_add_e4m3_f16_ref(const uint8_t *a, const uint8_t *b, uint16_t *c, float scale_a,
                             float scale_b, int64_t n) {
    add(a, b, c, scale_a, scale_b, 1, n);
}

void cushim_variant_add_e4m3_f16_ref(const uint8_t *a, const uint8_t *b, uint16_t *c, float scale_a,
                                     float scale_b, int64_t n) {
    add(a, b, c, scale_a, scale_b, 0, n);
}

static void mul(const uint8_t *a, const uint8_t *b, uint16_t *c, float scale_a, float scale_b,
                int has_nan, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float product = scaled(a[i], has_nan, scale_a) * scaled(b[i], has_nan, scale_b);
        c[i] = cushim_f16_of(product);
    }
}

void cushim_mul_e4m3_f16_ref(const uint8_t *a, const uint8_t *b, uint16_t *c, float scale_a,
                             float scale_b, int64_t n) {
    mul(a, b, c, scale_a, scale_b, 1, n);
}

void cushim_variant_mul_e4m3_f16_ref(const uint8_t *a, const uint8_t *b, uint16_t *c, float scale_a,
                                     float scale_b, int64_t n) {
    mul(a, b, c, scale_a, scale_b, 0, n);
}
