/*
 * Powers.  With one exponent for all elements the launcher has looked at it: it picks a kernel for
 * 2, 3, +-1 and +-0.5, and tells the general one what becomes of a negative base.
 *
 * `kept` are the bits of the base that count: all, or all but the sign for pow(|a|, s).
 */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_POW_CUH
#define CUSHIM_KERNELS_ELEMENTWISE_POW_CUH

#include "kernels/device/each.cuh"

namespace {

DEVICE float masked(float a, uint32_t kept) {
    return __uint_as_float(__float_as_uint(a) & kept);
}

struct Pow {
    __device__ float operator()(float a, float b) const {
        return powf(a, b);
    }
};

/*
 * pow(a, s) from pow(|a|, s): the sign of a comes back through `sign`, 0x80000000 where s is an odd
 * integer and 0 elsewhere; a finite base below `bound` gives NaN: 0 where s is finite and no
 * integer, or NaN, and -Inf elsewhere.
 */
struct PowScalar {
    float s;
    uint32_t sign;
    float bound;
    __device__ float operator()(float a) const {
        uint32_t power = __float_as_uint(powf(fabsf(a), s)) | (__float_as_uint(a) & sign);
        return a < bound && a > -INFINITY ? __uint_as_float(0x7FC00000u) : __uint_as_float(power);
    }
};

struct Pow1 {
    uint32_t kept;
    __device__ float operator()(float a) const {
        return masked(a, kept);
    }
};

struct Pow2 {
    uint32_t kept;
    __device__ float operator()(float a) const {
        return __fmul_rn(a, a);
    }
};

/* Where a^2 is rounded as a subnormal number a^3 is far below them, and where it overflows so does
 * a^3. */
struct Pow3 {
    uint32_t kept;
    __device__ float operator()(float a) const {
        return __fmul_rn(__fmul_rn(a, a), masked(a, kept));
    }
};

struct PowMinus1 {
    uint32_t kept;
    __device__ float operator()(float a) const {
        return __fdiv_rn(1.0f, masked(a, kept));
    }
};

/* Unlike the square root's, the power of -0 is +0, and that of -Inf is +Inf. */
struct PowHalf {
    uint32_t kept;
    __device__ float operator()(float a) const {
        float base = __fadd_rn(masked(a, kept), 0.0f); /* +0 of -0 */
        return base == -INFINITY ? INFINITY : __fsqrt_rn(base);
    }
};

struct PowMinusHalf {
    uint32_t kept;
    __device__ float operator()(float a) const {
        float base = __fadd_rn(masked(a, kept), 0.0f);
        return base == -INFINITY ? 0.0f : rsqrtf(base);
    }
};

} // namespace

EACH_KERNEL(elementwise_pow_f32)(const float *a, const float *b, float *c, int64_t n) {
    each(Pow(), a, b, c, n);
}

EACH_KERNEL(elementwise_pow_f32_wide)(const float *a, const float *b, float *c, int64_t n) {
    each_wide_long(Pow(), a, b, c, n);
}

EACH_KERNEL(elementwise_pow_scalar_f32)
(const float *a, float *c, float s, uint32_t sign, float bound, int64_t n) {
    each(PowScalar{s, sign, bound}, a, c, n);
}

EACH_KERNEL(elementwise_pow_scalar_f32_wide)
(const float *a, float *c, float s, uint32_t sign, float bound, int64_t n) {
    each_wide_long(PowScalar{s, sign, bound}, a, c, n);
}

#define SHORTCUT(word, Op)                                                                         \
    EACH_KERNEL(elementwise_##word##_f32)(const float *a, float *c, uint32_t kept, int64_t n) {    \
        each(Op{kept}, a, c, n);                                                                   \
    }                                                                                              \
    EACH_KERNEL(elementwise_##word##_f32_wide)                                                     \
    (const float *a, float *c, uint32_t kept, int64_t n) {                                         \
        each_wide(Op{kept}, a, c, n);                                                              \
    }

SHORTCUT(pow_1, Pow1)
SHORTCUT(pow_2, Pow2)
SHORTCUT(pow_3, Pow3)
SHORTCUT(pow_minus_1, PowMinus1)
SHORTCUT(pow_half, PowHalf)
SHORTCUT(pow_minus_half, PowMinusHalf)

#endif
