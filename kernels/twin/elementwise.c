/* The elementwise kernels as plain loops. */
#include "cushim/kernels_ref.h"

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
