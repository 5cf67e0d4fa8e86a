/* The elementwise kernels as plain loops: arithmetic on float and on half, fill. */
#include "cushim/kernels_ref.h"

#include <string.h>

#include "kernels/reference/half.h"

/* ---- a op b ---- */

void cushim_add_f32_ref(const float *a, const float *b, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}

void cushim_sub_f32_ref(const float *a, const float *b, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] - b[i];
}

void cushim_mul_f32_ref(const float *a, const float *b, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] * b[i];
}

void cushim_div_f32_ref(const float *a, const float *b, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] / b[i];
}

/* ---- a op s ---- */

void cushim_add_scalar_f32_ref(const float *a, float *c, float s, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] + s;
}

void cushim_sub_scalar_f32_ref(const float *a, float *c, float s, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] - s;
}

void cushim_mul_scalar_f32_ref(const float *a, float *c, float s, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] * s;
}

void cushim_div_scalar_f32_ref(const float *a, float *c, float s, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] / s;
}

/*
 * ---- a op b on half: in double, in which the first three are exact and the quotient has more than
 * twice a half's digits, then rounded to half ----
 */

void cushim_add_f16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = cushim_f16_of((double)cushim_f32_of_f16(a[i]) + cushim_f32_of_f16(b[i]));
}

void cushim_sub_f16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = cushim_f16_of((double)cushim_f32_of_f16(a[i]) - cushim_f32_of_f16(b[i]));
}

void cushim_mul_f16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = cushim_f16_of((double)cushim_f32_of_f16(a[i]) * cushim_f32_of_f16(b[i]));
}

void cushim_div_f16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = cushim_f16_of((double)cushim_f32_of_f16(a[i]) / cushim_f32_of_f16(b[i]));
}

/* ---- fill: the bits of the value, even of a NaN ---- */

void cushim_fill_f32_ref(float *dst, float value, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        memcpy(&dst[i], &value, sizeof value);
}
