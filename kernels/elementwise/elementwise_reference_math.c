/* The elementwise kernels as plain loops: functions and powers, in double and rounded once. */
#include "cushim/kernels_ref.h"

#include <math.h>

#include "kernels/launch/variants.h"
#include "kernels/reference/half.h"

void cushim_exp_f32_ref(const float *a, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = (float)exp(a[i]);
}

void cushim_log_f32_ref(const float *a, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = (float)log(a[i]);
}

void cushim_sqrt_f32_ref(const float *a, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = (float)sqrt(a[i]);
}

void cushim_rsqrt_f32_ref(const float *a, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = (float)(1 / sqrt(a[i]));
}

void cushim_sin_f32_ref(const float *a, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = (float)sin(a[i]);
}

void cushim_cos_f32_ref(const float *a, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = (float)cos(a[i]);
}

void cushim_tanh_f32_ref(const float *a, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = (float)tanh(a[i]);
}

void cushim_pow_f32_ref(const float *a, const float *b, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = (float)pow(a[i], b[i]);
}

void cushim_pow_scalar_f32_ref(const float *a, float *c, float s, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = (float)pow(a[i], s);
}

void cushim_variant_pow_abs_scalar_f32_ref(const float *a, float *c, float s, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        c[i] = (float)pow(fabs((double)a[i]), s);
}

/* ---- on bfloat16 ---- */

#define UNARY_BF16(word, f)                                                                        \
    void cushim_##word##_bf16_ref(const uint16_t *a, uint16_t *c, int64_t n) {                     \
        for (int64_t i = 0; i < n; i++)                                                            \
            c[i] = cushim_bf16_of(f(cushim_f32_of_bf16(a[i])));                                    \
    }

static double rsqrt_of(double a) {
    return 1 / sqrt(a);
}

UNARY_BF16(exp, exp)
UNARY_BF16(log, log)
UNARY_BF16(sqrt, sqrt)
UNARY_BF16(rsqrt, rsqrt_of)
UNARY_BF16(tanh, tanh)
