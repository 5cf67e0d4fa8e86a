/*
 * Powers.  If all elements have one exponent the launcher has looked at it: it picks a kernel for
 * 2, 3, +-1 and +-0.5, one for others up to 4, and one up to 64.  These two and the general one get
 * what becomes of a negative base.
 *
 * `kept` are the bits of the base that count: all, or all but the sign for pow(|a|, s).
 */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_POW_CUH
#define CUSHIM_KERNELS_ELEMENTWISE_POW_CUH

#include "kernels/device/each.cuh"
#include "kernels/device/math/exp2.cuh"
#include "kernels/device/math/reciprocal.cuh"

namespace {

DEVICE float masked(float a, uint32_t kept) {
    return __uint_as_float(__float_as_uint(a) & kept);
}

const float ROUND = 12582912.0f; /* 1.5 * 2^23: in a sum with it the last bit is 1 */

/* pow(a, s) for a >= 0 or NaN */
struct AnyPower {
    static __device__ float of(float a, float s) {
        return powf(a, s);
    }
};

__device__ __noinline__ float pow_of_unusual(float a, float s) {
    return powf(a, s);
}

/*
 * The same for |s| <= 64, in half of powf's operations, which would be the kernel's limit.  For a
 * normal number a = 2^e m with m around 1, log2(a) = e + 2 / ln 2 * atanh(q) with q = (m - 1) / (m
 * + 1).  It is kept in a float and one for the rest, so that s times it is good to 2^-24 and
 * 2^(that) to 5 ULP.  This is not enough next to the largest float, where it may give an infinity,
 * and among subnormal ones.  So a result close to either end is not accurate, and powf's is taken.
 */
struct ModeratePower {
    /* The bits of a number less those of the least normal one: small if it is normal. */
    static __device__ uint32_t above_least(float a) {
        return __float_as_uint(a) - 0x00800000u;
    }
    static __device__ bool is_normal(float a) {
        return above_least(a) < 0x7F000000u;
    }

    /* Whether it is from 2^-125 on and below 2^126. */
    static __device__ bool is_accurate(float power) {
        return __float_as_uint(power) - 0x01000000u < 0x7D800000u;
    }

    static __device__ float of(float a, float s) {
        float power = of_normal(__float_as_uint(a), s);
        return is_normal(a) && is_accurate(power) ? power : pow_of_unusual(a, s);
    }

    static __device__ float of_normal(uint32_t bits, float s) {
        const float SCALE = 2.88539004f, SCALE_REST = 4.06795142e-8f; /* 2 / ln 2 */
        uint32_t e = (bits - 0x3F3504F3u) & 0xFF800000u;              /* m from sqrt(1/2) on */
        float d = __uint_as_float(bits - e) - 1.0f, r = reciprocal(d + 2.0f);
        float q = d * r, q_rest = r * fmaf(-d, q, fmaf(q, -2.0f, d)), square = q * q;
        float tail = fmaf(0.115087368f, square, 0.142850672f); /* atanh(q) / q - 1 */
        tail = fmaf(fmaf(tail, square, 0.199998762f), square, 0.333333343f) * square;
        float product = __fmul_rn(SCALE, q), rest = fmaf(SCALE_REST, q, fmaf(SCALE, q, -product));
        rest = fmaf(product, tail, fmaf(SCALE, fmaf(q_rest, square, q_rest), rest));
        float exponent = (float)(int32_t)e * 0x1p-23f, log2 = exponent + product;
        rest += exponent - log2 + product;
        return power_of_sum(s * log2, fmaf(s, rest, fmaf(s, log2, -(s * log2))));
    }

    /* 2^(x + rest); beyond 250 it is an infinity or 0 in any case. */
    static __device__ float power_of_sum(float x, float rest) {
        float within = fminf(fmaxf(x, -250.0f), 250.0f), shifted = within + ROUND;
        float fraction = quick_exp2(within - (shifted - ROUND) + rest);
        uint32_t whole = __float_as_uint(shifted) << 23; /* as an exponent, in two steps: */
        uint32_t half = __float_as_uint(shifted) << 22 & 0xFF800000u;
        return fraction * __uint_as_float(half + 0x3F800000u) *
               __uint_as_float(whole - half + 0x3F800000u);
    }
};

/*
 * The same for |s| <= 4 in two thirds of that. log2(m) is a polynomial in d = m - 1, good to 2^-27,
 * that begins with d / ln 2. s times this term joins s e less its nearest integer, so that what is
 * rounded there is below 1; s log2(m) as one float would be wrong by 2^-23 to begin with.  The
 * power is good to 1.6 ULP, and to 2.8 with the hardware's 2^x; close to either end of the floats
 * it is not accurate.
 */
struct LightPower {
    static __device__ float of(float a, float s) {
        float log2, power = of_normal(__float_as_uint(a), s, log2);
        return is_accurate(a, log2) ? power : pow_of_unusual(a, s);
    }

    static __device__ bool is_accurate(float a, float log2) {
        return ModeratePower::is_normal(a) && fabsf(log2) <= 124.0f;
    }

    /* `log2` is that of the power, to 0.5. */
    static __device__ float of_normal(uint32_t bits, float s, float &log2) {
        const float FIRST = 1.44269487f; /* 1 / ln 2 */
        float s_first = __fmul_rn(s, FIRST), s_rest = fmaf(s, FIRST, -s_first);
        float s_scaled = s * 0x1p-23f;                   /* 0 if it is so small that any power is
                                                            1 */
        uint32_t e = (bits - 0x3F3504F3u) & 0xFF800000u; /* m from sqrt(1/2) on */
        float d = __uint_as_float(bits - e) - 1.0f, exponent = (float)(int32_t)e;
        float tail = fmaf(0.125411211f, d, -0.210302932f);
        tail = fmaf(fmaf(tail, d, 0.217379666f), d, -0.238519509f);
        tail = fmaf(fmaf(tail, d, 0.28765665f), d, -0.360721192f);
        tail = fmaf(fmaf(tail, d, 0.48092253f), d, -0.721347129f) * d;
        log2 = fmaf(s_first, d, s_scaled * exponent);
        float shifted = log2 + ROUND, whole = shifted - ROUND;
        float fraction = fmaf(s_first, d, fmaf(s_scaled, exponent, -whole));
        fraction = quick_exp2(fmaf(fmaf(s, tail, s_rest), d, fraction));
        return __uint_as_float(__float_as_uint(fraction) + (__float_as_uint(shifted) << 23));
    }
};

/*
 * pow(a, b) of normal numbers and a moderate exponent.  The exponent's parity makes it negative or
 * NaN if a is negative.  For others powf.
 */
struct Pow {
    static __device__ float magnitude(float a, float b) {
        return ModeratePower::of_normal(__float_as_uint(fabsf(a)), b);
    }
    static __device__ bool is_accurate(float a, float b, float power) {
        return ModeratePower::is_normal(fabsf(a)) && fabsf(b) <= 64.0f &&
               ModeratePower::is_accurate(power);
    }
    static __device__ float signed_of(float a, float b, float power) {
        float sum = b + ROUND;
        uint32_t sign = __float_as_uint(a) & __float_as_uint(sum) << 31;
        return a < 0.0f && sum - ROUND != b ? __uint_as_float(0x7FC00000u)
                                            : __uint_as_float(__float_as_uint(power) | sign);
    }
    __device__ float operator()(float a, float b) const {
        float power = magnitude(a, b);
        return is_accurate(a, b, power) ? signed_of(a, b, power) : pow_of_unusual(a, b);
    }
};

/* Four at a time with one branch for all. */
struct Pows {
    static __device__ float corrected(float a, float b, float power) {
        return Pow::is_accurate(a, b, power) ? Pow::signed_of(a, b, power) : pow_of_unusual(a, b);
    }
    __device__ float4 operator()(float4 a, float4 b) const {
        float4 power = make_float4(Pow::magnitude(a.x, b.x), Pow::magnitude(a.y, b.y),
                                   Pow::magnitude(a.z, b.z), Pow::magnitude(a.w, b.w));
        if (Pow::is_accurate(a.x, b.x, power.x) && Pow::is_accurate(a.y, b.y, power.y) &&
            Pow::is_accurate(a.z, b.z, power.z) && Pow::is_accurate(a.w, b.w, power.w))
            return make_float4(Pow::signed_of(a.x, b.x, power.x), Pow::signed_of(a.y, b.y, power.y),
                               Pow::signed_of(a.z, b.z, power.z),
                               Pow::signed_of(a.w, b.w, power.w));
        return make_float4(corrected(a.x, b.x, power.x), corrected(a.y, b.y, power.y),
                           corrected(a.z, b.z, power.z), corrected(a.w, b.w, power.w));
    }
};

/*
 * pow(a, s) from pow(|a|, s).  The sign of a comes back through `sign`, which is 0x80000000 if s is
 * an odd integer, else 0.  A finite base below `bound` gives NaN; it is 0 if s is finite and no
 * integer, or NaN, and -Inf otherwise.
 */
template <class Power> struct PowScalar {
    float s;
    uint32_t sign;
    float bound;
    __device__ float signed_of(float a, float power) const {
        uint32_t bits = __float_as_uint(power) | (__float_as_uint(a) & sign);
        return a < bound && a > -INFINITY ? __uint_as_float(0x7FC00000u) : __uint_as_float(bits);
    }
    __device__ float signed_of_finite(float a, float power) const {
        uint32_t bits = __float_as_uint(power) | (__float_as_uint(a) & sign);
        return a < bound ? __uint_as_float(0x7FC00000u) : __uint_as_float(bits);
    }
    __device__ float operator()(float a) const {
        return signed_of(a, Power::of(fabsf(a), s));
    }
};

/* Four at a time with one branch for all. */
struct LightPowers {
    PowScalar<LightPower> one;
    __device__ float magnitude(float a, float &log2) const {
        return LightPower::of_normal(__float_as_uint(fabsf(a)), one.s, log2);
    }
    __device__ float corrected(float a, float power, float log2) const {
        bool is_accurate = LightPower::is_accurate(fabsf(a), log2);
        return one.signed_of(a, is_accurate ? power : pow_of_unusual(fabsf(a), one.s));
    }
    static __device__ uint32_t above(float a) {
        return ModeratePower::above_least(fabsf(a));
    }
    /* Looks at the extremes, because the branch would keep four answers in four registers. */
    static __device__ bool are_accurate(float4 a, float4 log2) {
        uint32_t most = max(max(above(a.x), above(a.y)), max(above(a.z), above(a.w)));
        float furthest =
            fmaxf(fmaxf(fabsf(log2.x), fabsf(log2.y)), fmaxf(fabsf(log2.z), fabsf(log2.w)));
        return most < 0x7F000000u && furthest <= 124.0f;
    }
    __device__ float4 operator()(float4 a) const {
        float4 log2, power = make_float4(magnitude(a.x, log2.x), magnitude(a.y, log2.y),
                                         magnitude(a.z, log2.z), magnitude(a.w, log2.w));
        if (are_accurate(a, log2))
            return make_float4(
                one.signed_of_finite(a.x, power.x), one.signed_of_finite(a.y, power.y),
                one.signed_of_finite(a.z, power.z), one.signed_of_finite(a.w, power.w));
        return make_float4(corrected(a.x, power.x, log2.x), corrected(a.y, power.y, log2.y),
                           corrected(a.z, power.z, log2.z), corrected(a.w, power.w, log2.w));
    }
};

struct ModeratePowers {
    PowScalar<ModeratePower> one;
    __device__ float magnitude(float a) const {
        return ModeratePower::of_normal(__float_as_uint(fabsf(a)), one.s);
    }
    static __device__ bool is_accurate(float a, float power) {
        return ModeratePower::is_normal(fabsf(a)) && ModeratePower::is_accurate(power);
    }
    __device__ float corrected(float a, float power) const {
        return is_accurate(a, power) ? power : pow_of_unusual(fabsf(a), one.s);
    }
    __device__ float4 operator()(float4 a) const {
        float4 power = make_float4(magnitude(a.x), magnitude(a.y), magnitude(a.z), magnitude(a.w));
        if (!(is_accurate(a.x, power.x) && is_accurate(a.y, power.y) && is_accurate(a.z, power.z) &&
              is_accurate(a.w, power.w)))
            power = make_float4(corrected(a.x, power.x), corrected(a.y, power.y),
                                corrected(a.z, power.z), corrected(a.w, power.w));
        return make_float4(one.signed_of(a.x, power.x), one.signed_of(a.y, power.y),
                           one.signed_of(a.z, power.z), one.signed_of(a.w, power.w));
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

/* If a^2 is rounded to a subnormal number, a^3 is far below those; if it overflows, so does a^3. */
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

/* Unlike with the square root, the power of -0 is +0, and that of -Inf is +Inf. */
struct PowHalf {
    uint32_t kept;
    __device__ float operator()(float a) const {
        float base = __fadd_rn(masked(a, kept), 0.0f); /* +0 for -0 */
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
    each_wide_of<float4>(Pows(), Pow(), a, b, c, n);
}

EACH_KERNEL(elementwise_pow_scalar_f32)
(const float *a, float *c, float s, uint32_t sign, float bound, int64_t n) {
    each(PowScalar<AnyPower>{s, sign, bound}, a, c, n);
}

EACH_KERNEL(elementwise_pow_scalar_f32_wide)
(const float *a, float *c, float s, uint32_t sign, float bound, int64_t n) {
    each_wide(PowScalar<AnyPower>{s, sign, bound}, a, c, n);
}

EACH_KERNEL(elementwise_pow_light_f32)
(const float *a, float *c, float s, uint32_t sign, float bound, int64_t n) {
    each(PowScalar<LightPower>{s, sign, bound}, a, c, n);
}

/*
 * Registers for 12 blocks, because with 10 fewer loads are in flight than memory can take.  Before
 * sm_80 a multiprocessor has no place for more than 8.
 */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
constexpr int LIGHT_BLOCKS = 12;
#else
constexpr int LIGHT_BLOCKS = 8;
#endif

KERNEL_OF(EACH_THREADS, LIGHT_BLOCKS, elementwise_pow_light_f32_wide)
(const float *a, float *c, float s, uint32_t sign, float bound, int64_t n) {
    PowScalar<LightPower> one = {s, sign, bound};
    each_wide_of<float4>(LightPowers{one}, one, a, c, n);
}

EACH_KERNEL(elementwise_pow_moderate_f32)
(const float *a, float *c, float s, uint32_t sign, float bound, int64_t n) {
    each(PowScalar<ModeratePower>{s, sign, bound}, a, c, n);
}

EACH_KERNEL(elementwise_pow_moderate_f32_wide)
(const float *a, float *c, float s, uint32_t sign, float bound, int64_t n) {
    PowScalar<ModeratePower> one = {s, sign, bound};
    each_wide_of<float4>(ModeratePowers{one}, one, a, c, n);
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
