/*
 * w1 / (1 + exp(-w1)) * w3, computed from e = exp(-|w1|), which is at most 1, and the hardware's
 * reciprocal of 1 + e, which is in [1, 2].  So no step overflows or loses digits.
 */
#ifndef CUSHIM_KERNELS_SWIGLU_CUH
#define CUSHIM_KERNELS_SWIGLU_CUH

#include "kernels/device/device.cuh"
#include "kernels/device/math/reciprocal.cuh"

/*
 * Replaces a value that is too small for a float, but not 0, by the least number.  Its product with
 * an infinity is then an infinity; with other numbers it is as good as 0.
 */
DEVICE float never_zero(float value, bool is_zero) {
    return value == 0.0f && !is_zero ? __uint_as_float(1) : value;
}

/*
 * 1 / (1 + exp(-w1)) is r for w1 >= 0 and e r below.  Below -200 the product is -0 in any case, but
 * -Inf times 0 would be NaN.
 */
struct SwiGlu {
    __device__ float operator()(float w1, float w3) const {
        float x = w1 < -200.0f ? -200.0f : w1;
        float e = expf(-fabsf(x)), r = reciprocal(1.0f + e), gate = x * (x < 0.0f ? e * r : r);
        gate = copysignf(never_zero(fabsf(gate), w1 == 0.0f || w1 == -INFINITY), w1);
        return gate * w3;
    }
};

#endif
