/* Activations with a factor as plain loops, in double. */
#include "cushim/kernels_ref.h"

#include <float.h>
#include <math.h>

/* Too small for a double, but not 0, because it may be the factor of an infinity. */
static double never_zero(double value, int is_zero) {
    return value == 0 && !is_zero ? DBL_TRUE_MIN : value;
}

/*
 * 1 - tanh^2 = 4 e / (1 + e)^2 with e = exp(-2 |a|).  The difference itself cancels if tanh is
 * almost 1.
 */
void cushim_tanh_prime_f32_ref(const float *a, const float *upstream, float *c, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double e = exp(-2 * fabs((double)a[i]));
        double slope = never_zero(4 * e / ((1 + e) * (1 + e)), isinf(a[i]));
        c[i] = (float)(slope * upstream[i]);
    }
}

/* At -Inf the gate takes its limit, -0. */
void cushim_swiglu_f32_ref(const float *w1, const float *w3, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        bool is_least = isinf(w1[i]) && w1[i] < 0;
        double gate = is_least ? -0.0 : w1[i] / (1 + exp(-(double)w1[i]));
        gate = copysign(never_zero(fabs(gate), is_least || w1[i] == 0), w1[i]);
        y[i] = (float)(gate * w3[i]);
    }
}
