/*
 * exp, log, sqrt, rsqrt, sin, cos, tanh: CUDA's accurate functions, whose published errors are what
 * the tolerances are made of.
 */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_UNARY_CUH
#define CUSHIM_KERNELS_ELEMENTWISE_UNARY_CUH

#include "kernels/device/each.cuh"

namespace {

struct Exp {
    __device__ float operator()(float a) const {
        return expf(a);
    }
};

struct Log {
    __device__ float operator()(float a) const {
        return logf(a);
    }
};

struct Sqrt {
    __device__ float operator()(float a) const {
        return __fsqrt_rn(a);
    }
};

struct Rsqrt {
    __device__ float operator()(float a) const {
        return rsqrtf(a);
    }
};

struct Tanh {
    __device__ float operator()(float a) const {
        return tanhf(a);
    }
};

/*
 * From this magnitude on sinf and cosf take a much longer way to bring the angle into range.  It is
 * called there and not inlined: with the very comparison of the functions, which then have none
 * left, an element takes some 20 instructions.  NaN leaves early.
 */
#define LARGE_ANGLE 105615.0f

__device__ __noinline__ float sin_of_large(float a) {
    return sinf(a);
}

__device__ __noinline__ float cos_of_large(float a) {
    return cosf(a);
}

struct Sin {
    __device__ float operator()(float a) const {
        return fabsf(a) >= LARGE_ANGLE ? sin_of_large(a) : sinf(a);
    }
};

struct Cos {
    __device__ float operator()(float a) const {
        return fabsf(a) >= LARGE_ANGLE ? cos_of_large(a) : cosf(a);
    }
};

} // namespace

#define UNARY(word, Op, PIECES)                                                                    \
    EACH_KERNEL(elementwise_##word##_f32)(const float *a, float *c, int64_t n) {                   \
        each(Op(), a, c, n);                                                                       \
    }                                                                                              \
    EACH_KERNEL(elementwise_##word##_f32_wide)(const float *a, float *c, int64_t n) {              \
        each_wide<PIECES>(Op(), a, c, n);                                                          \
    }

UNARY(exp, Exp, EACH_PIECES)
UNARY(log, Log, EACH_PIECES)
UNARY(sqrt, Sqrt, EACH_PIECES)
UNARY(rsqrt, Rsqrt, EACH_PIECES)
UNARY(sin, Sin, EACH_LONG_PIECES)
UNARY(cos, Cos, EACH_LONG_PIECES)
UNARY(tanh, Tanh, EACH_PIECES)

#endif
