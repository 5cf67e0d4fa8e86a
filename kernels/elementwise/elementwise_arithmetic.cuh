/* a op b and a op s, on float, half and bfloat16; each operation is rounded once, to nearest even.
 */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_ARITHMETIC_CUH
#define CUSHIM_KERNELS_ELEMENTWISE_ARITHMETIC_CUH

#include "kernels/device/each.cuh"
#include "kernels/device/math/bf16.cuh"
#include "kernels/device/math/half.cuh"
#include "kernels/device/math/arithmetic.cuh"

namespace {

/* The operation on two elements. */
template <class Op> struct OnFloat {
    __device__ float operator()(float a, float b) const {
        return Op::of(a, b);
    }
};

/* The second operand is the same for all elements. */
template <class Op> struct WithScalar {
    float s;
    __device__ float operator()(float a) const {
        return Op::of(a, s);
    }
};

/*
 * a / s from r, which is 1 / s rounded, with s from 2^-60 to 2^60.  If `a` is in that range too,
 * the correction makes the very bits of the division (all mantissas of `a` were tried with 4000 of
 * s).  Other values are divided, 0 among them, because it would lose its sign.
 */
struct DivModerate {
    float s, r;
    static __device__ bool is_moderate(float a) {
        return __float_as_uint(fabsf(a)) - 0x21800000u < 0x3C000000u;
    }
    __device__ float moderate(float a) const {
        float quotient = __fmul_rn(a, r);
        return fmaf(fmaf(-quotient, s, a), r, quotient);
    }
    __device__ float operator()(float a) const {
        return is_moderate(a) ? moderate(a) : __fdiv_rn(a, s);
    }
};

/* Four at a time with one branch for all. */
struct DivModerates {
    DivModerate one;
    __device__ void correct(float a, float &quotient) const {
        if (!DivModerate::is_moderate(a))
            quotient = __fdiv_rn(a, one.s);
    }
    __device__ float4 operator()(float4 a) const {
        float4 c =
            make_float4(one.moderate(a.x), one.moderate(a.y), one.moderate(a.z), one.moderate(a.w));
        if (!(DivModerate::is_moderate(a.x) && DivModerate::is_moderate(a.y) &&
              DivModerate::is_moderate(a.z) && DivModerate::is_moderate(a.w))) {
            correct(a.x, c.x);
            correct(a.y, c.y);
            correct(a.z, c.z);
            correct(a.w, c.w);
        }
        return c;
    }
};

/*
 * Computed in float, then rounded to the Format, F16 or Bf16, which equals the operation itself
 * rounded to it.  A float has more than twice the digits of either and 2 more, so the second
 * rounding cannot go wrong.
 */
template <class Op, class Format> struct OnSmall {
    __device__ uint16_t operator()(uint16_t a, uint16_t b) const {
        return Format::narrow(Op::of(Format::widen(a), Format::widen(b)));
    }
};

template <class Op, class Format> struct OnSmalls {
    static __device__ uint32_t pair(uint32_t a, uint32_t b) {
        float2 x = Format::widen2(a), y = Format::widen2(b);
        return Format::narrow2(Op::of(x.x, y.x), Op::of(x.y, y.y));
    }
    __device__ uint4 operator()(uint4 a, uint4 b) const {
        return make_uint4(pair(a.x, b.x), pair(a.y, b.y), pair(a.z, b.z), pair(a.w, b.w));
    }
};

} // namespace

/* PIECES is how many a thread has of halves (elementwise_is_long). */
#define ON_SMALL(name, Op, Format, PIECES)                                                         \
    EACH_KERNEL(elementwise_##name)                                                                \
    (const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n) {                               \
        each(OnSmall<Op, Format>(), a, b, c, n);                                                   \
    }                                                                                              \
    EACH_KERNEL(elementwise_##name##_wide)                                                         \
    (const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n) {                               \
        each_wide_of<uint4, PIECES>(OnSmalls<Op, Format>(), OnSmall<Op, Format>(), a, b, c, n);    \
    }
#define ARITHMETIC(word, Op, PIECES)                                                               \
    EACH_KERNEL(elementwise_##word##_f32)                                                          \
    (const float *a, const float *b, float *c, int64_t n) {                                        \
        each(OnFloat<Op>(), a, b, c, n);                                                           \
    }                                                                                              \
    EACH_KERNEL(elementwise_##word##_f32_wide)                                                     \
    (const float *a, const float *b, float *c, int64_t n) {                                        \
        each_wide(OnFloat<Op>(), a, b, c, n);                                                      \
    }                                                                                              \
    EACH_KERNEL(elementwise_##word##_scalar_f32)                                                   \
    (const float *a, float *c, float s, int64_t n) {                                               \
        each(WithScalar<Op>{s}, a, c, n);                                                          \
    }                                                                                              \
    EACH_KERNEL(elementwise_##word##_scalar_f32_wide)                                              \
    (const float *a, float *c, float s, int64_t n) {                                               \
        each_wide(WithScalar<Op>{s}, a, c, n);                                                     \
    }                                                                                              \
    ON_SMALL(word##_f16, Op, F16, PIECES)                                                          \
    ON_SMALL(word##_bf16, Op, Bf16, PIECES)

ARITHMETIC(add, Add, EACH_PIECES)
ARITHMETIC(sub, Sub, EACH_PIECES)
ARITHMETIC(mul, Mul, EACH_PIECES)
ARITHMETIC(div, Div, EACH_LONG_PIECES)

EACH_KERNEL(elementwise_div_moderate_f32)
(const float *a, float *c, float s, float r, int64_t n) {
    each(DivModerate{s, r}, a, c, n);
}

EACH_KERNEL(elementwise_div_moderate_f32_wide)
(const float *a, float *c, float s, float r, int64_t n) {
    DivModerate one = {s, r};
    each_wide_of<float4>(DivModerates{one}, one, a, c, n);
}

#endif
