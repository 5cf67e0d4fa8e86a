/*
 * exp, log, sqrt, rsqrt, sin, cos, tanh: CUDA's accurate functions, from whose published errors the
 * tolerances are made.
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
 * From this magnitude on sinf and cosf need a much longer way to bring the angle into range.  They
 * are called there and not inlined.  Because this is the functions' own comparison, the inlined
 * ones have none left, and an element takes some 20 instructions.  NaN leaves early.
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
