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
 * ---- a op b on half and bfloat16: in double, in which the first three are exact and the quotient
 * has more than twice their digits, then rounded ----
 */

#define SMALL(format, word, op)                                                                    \
    void cushim_##word##_##format##_ref(const uint16_t *a, const uint16_t *b, uint16_t *c,         \
                                        int64_t n) {                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            c[i] = cushim_##format##_of((double)cushim_f32_of_##format(a[i])                       \
                                            op cushim_f32_of_##format(b[i]));                      \
    }

SMALL(f16, add, +)
SMALL(f16, sub, -)
SMALL(f16, mul, *)
SMALL(f16, div, /)
SMALL(bf16, add, +)
SMALL(bf16, sub, -)
SMALL(bf16, mul, *)
SMALL(bf16, div, /)

/* ---- fill: the bits of the value, even of a NaN ---- */

void cushim_fill_f32_ref(float *dst, float value, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        memcpy(&dst[i], &value, sizeof value);
}
