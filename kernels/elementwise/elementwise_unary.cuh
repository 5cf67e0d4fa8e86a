/*
 * exp, log, sqrt, rsqrt, sin, cos, tanh: CUDA's accurate functions, from whose published errors the
 * tolerances are made.
 */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_UNARY_CUH
#define CUSHIM_KERNELS_ELEMENTWISE_UNARY_CUH

#include "kernels/device/each.cuh"
#include "kernels/device/math/bf16.cuh"

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

/* Computed in float and rounded. */
template <class Op> struct OnBf16 {
    __device__ uint16_t operator()(uint16_t a) const {
        return Bf16::narrow(Op()(Bf16::widen(a)));
    }
};

template <class Op> struct OnBf16s {
    static __device__ uint32_t pair(uint32_t a) {
        float2 x = Bf16::widen2(a);
        return Bf16::narrow2(Op()(x.x), Op()(x.y));
    }
    __device__ uint4 operator()(uint4 a) const {
        return make_uint4(pair(a.x), pair(a.y), pair(a.z), pair(a.w));
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

#define UNARY_BF16(word, Op)                                                                       \
    EACH_KERNEL(elementwise_##word##_bf16)(const uint16_t *a, uint16_t *c, int64_t n) {            \
        each(OnBf16<Op>(), a, c, n);                                                               \
    }                                                                                              \
    EACH_KERNEL(elementwise_##word##_bf16_wide)(const uint16_t *a, uint16_t *c, int64_t n) {       \
        each_wide_of<uint4, EACH_LONG_PIECES>(OnBf16s<Op>(), OnBf16<Op>(), a, c, n);               \
    }

UNARY_BF16(exp, Exp)
UNARY_BF16(log, Log)
UNARY_BF16(sqrt, Sqrt)
UNARY_BF16(rsqrt, Rsqrt)
UNARY_BF16(tanh, Tanh)

#endif
