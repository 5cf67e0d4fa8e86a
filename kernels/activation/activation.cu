/*
 * Activations with a factor: c = (1 - tanh(a)^2) * upstream, and y = w1 / (1 + exp(-w1)) * w3.
 * Moves 12 n bytes.
 *
 * Both use e = exp(-|x|), which is at most 1, and the hardware's reciprocal of 1 + e, which is in
 * [1, 2].  So no step overflows or loses digits.  With 2 ULP of expf and 1 of the reciprocal the
 * errors add up to less than 8e-7 of the value.
 */
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/each.cuh"
#include "kernels/device/math/reciprocal.cuh"
#include "kernels/device/math/swiglu.cuh"

namespace {

/* 1 - tanh(a)^2 = 4 e / (1 + e)^2 with e = exp(-2 |a|); the difference itself would cancel. */
struct TanhPrime {
    __device__ float operator()(float a, float upstream) const {
        float e = expf(-2.0f * fabsf(a)), r = reciprocal(1.0f + e), slope = 4.0f * e * r * r;
        slope = never_zero(slope, fabsf(a) == INFINITY);
        return (slope > 1.0f ? 1.0f : slope) * upstream; /* keeps the largest upstream finite */
    }
};

} // namespace

#define ACTIVATION(word, Op)                                                                       \
    EACH_KERNEL(activation_##word##_f32)(const float *a, const float *b, float *c, int64_t n) {    \
        wait_for_earlier();                                                                        \
        let_next_start();                                                                          \
        each(Op(), a, b, c, n);                                                                    \
    }                                                                                              \
    EACH_KERNEL(activation_##word##_f32_wide)                                                      \
    (const float *a, const float *b, float *c, int64_t n) {                                        \
        wait_for_earlier();                                                                        \
        let_next_start();                                                                          \
        each_wide(Op(), a, b, c, n);                                                               \
    }

ACTIVATION(tanh_prime, TanhPrime)
ACTIVATION(swiglu, SwiGlu)
