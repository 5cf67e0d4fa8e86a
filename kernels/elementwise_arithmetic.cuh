/* a op b and a op s, on float and on half; each operation is rounded once, to nearest even. */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_ARITHMETIC_CUH
#define CUSHIM_KERNELS_ELEMENTWISE_ARITHMETIC_CUH

#include "kernels/device/each.cuh"
#include "kernels/device/half.cuh"
#include "kernels/device/operation.cuh"

namespace {

/* The operation on two elements. */
template <class Op> struct OnFloat {
    __device__ float operator()(float a, float b) const {
        return Op::of(a, b);
    }
};

/* The second operand is the same everywhere. */
template <class Op> struct WithScalar {
    float s;
    __device__ float operator()(float a) const {
        return Op::of(a, s);
    }
};

/*
 * In float, then rounded to half: what the operation itself, rounded to half, would give.  A float
 * has more than twice a half's digits and 2 more, with which the second rounding cannot be misled.
 */
template <class Op> struct OnHalf {
    __device__ uint16_t operator()(uint16_t a, uint16_t b) const {
        return f16_of_f32(Op::of(f32_of_f16(a), f32_of_f16(b)));
    }
};

template <class Op> struct OnHalves {
    static __device__ uint32_t pair(uint32_t a, uint32_t b) {
        float2 x = f32x2_of_f16x2(a), y = f32x2_of_f16x2(b);
        return f16x2_of_f32x2(Op::of(x.x, y.x), Op::of(x.y, y.y));
    }
    __device__ uint4 operator()(uint4 a, uint4 b) const {
        return make_uint4(pair(a.x, b.x), pair(a.y, b.y), pair(a.z, b.z), pair(a.w, b.w));
    }
};

template <class Op>
DEVICE void each_half_wide(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n) {
    each_piece(OnHalves<Op>(), reinterpret_cast<const uint4 *>(a),
               reinterpret_cast<const uint4 *>(b), reinterpret_cast<uint4 *>(c), n / 8);
    int64_t rest = n / 8 * 8 + thread_of_grid();
    if (rest < n)
        c[rest] = OnHalf<Op>()(a[rest], b[rest]);
}

} // namespace

#define ARITHMETIC(word, Op)                                                                       \
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
    EACH_KERNEL(elementwise_##word##_f16)                                                          \
    (const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n) {                               \
        each(OnHalf<Op>(), a, b, c, n);                                                            \
    }                                                                                              \
    EACH_KERNEL(elementwise_##word##_f16_wide)                                                     \
    (const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n) {                               \
        each_half_wide<Op>(a, b, c, n);                                                            \
    }

ARITHMETIC(add, Add)
ARITHMETIC(sub, Sub)
ARITHMETIC(mul, Mul)
ARITHMETIC(div, Div)

#endif
