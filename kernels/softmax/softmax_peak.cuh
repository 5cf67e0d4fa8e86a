/*
 * The arithmetic of softmax: exp(scale * (x - top)) and sums of it that are relative to different
 * tops.
 *
 * A key is x, or -x if the scale is negative, so the top is always a maximum of keys, and x * scale
 * is never formed because it could overflow.  Exponentials are relative to a level, which a Scaling
 * makes of a top: levels have the order of their tops, and equal tops have equal levels.  The
 * lowest level is that of the lowest finite key.  A Peak with sum 0 has nothing in it, or only keys
 * of -Inf.  If the sum of a whole row is 0, 0 / 0 makes the row NaN.
 */
#ifndef CUSHIM_KERNELS_SOFTMAX_PEAK_CUH
#define CUSHIM_KERNELS_SOFTMAX_PEAK_CUH

#include <float.h>

#include "kernels/device/access.cuh"
#include "kernels/device/math/exp2.cuh"
#include "kernels/device/group.cuh"

template <class Element> struct Scaling;

/*
 * For floats.  A level is the top, or half of it if the scale is small: then halves are subtracted,
 * because the difference of keys could overflow, and the factor is doubled.  The factor times
 * log2(e) is octaves + rest; both are above 0, because a difference of -Inf would otherwise become
 * NaN.
 */
template <> struct Scaling<float> {
    float part, octaves, rest;
    uint32_t flip; /* of the sign bit */

    __device__ explicit Scaling(float scale) {
        const float log2e = 1.44269504f, log2e_rest = 1.925963e-8f;
        float size = fabsf(scale), factor = size <= 1 ? 2 * size : size;
        part = size <= 1 ? 0.5f : 1.0f;
        octaves = factor * log2e;
        if (factor > 0 && factor <= FLT_MAX)
            octaves = __uint_as_float(__float_as_uint(octaves) - 1);
        rest = fmaxf(fmaf(factor, log2e, -octaves) + factor * log2e_rest, 1e-45f);
        flip = scale < 0 ? 0x80000000 : 0;
    }
    __device__ static float lowest() {
        return -FLT_MAX;
    }
    __device__ float key(float x) const {
        return __uint_as_float(__float_as_uint(x) ^ flip);
    }
    __device__ float level(float top) const {
        return part * top;
    }
    __device__ float exponential(float key, float level) const {
        return power(fmaf(key, part, -level));
    }
    /* The factor that takes exponentials from one level to another. */
    __device__ float ratio(float from, float to) const {
        return power(from - to);
    }
    __device__ float power(float difference) const {
        return quick_exp2(fmaf(difference, octaves, difference * rest));
    }
};

/*
 * For halves.  A level is in octaves and rounded, which is harmless because all of a row is
 * relative to it.  No two halves are less than 2^-24 apart, so above 2^60 octaves change nothing,
 * and products stay finite.
 */
template <> struct Scaling<uint16_t> {
    float octaves;
    uint32_t flip; /* of both halves of a word */

    __device__ explicit Scaling(float scale) {
        float size = fabsf(scale);
        octaves = size <= FLT_MAX ? fminf(size * 1.44269504f, 0x1p60f) : size;
        flip = scale < 0 ? 0x80008000 : 0;
    }
    __device__ static float lowest() {
        return -65504;
    }
    __device__ float key(float x) const {
        return __uint_as_float(__float_as_uint(x) ^ (flip & 0x80000000));
    }
    __device__ float level(float top) const {
        return __fmul_rn(top, octaves);
    }
    __device__ float exponential(float key, float level) const {
        return quick_exp2(fmaf(key, octaves, -level));
    }
    __device__ float ratio(float from, float to) const {
        return quick_exp2(from - to);
    }
};

/* bfloat16 has the range of floats. */
template <> struct Scaling<bf16> : Scaling<float> {
    __device__ explicit Scaling(float scale) : Scaling<float>(scale) {
    }
};

/*
 * The keys of an access and their exponentials.  Floats become exponentials in place.  Halves are
 * not replaced and are gone through twice, which takes half of the registers.
 */
template <class Access> struct Keys {
    typedef typename Access::Piece Piece;
    typedef ::Scaling<typename Access::Element> Scaling;
    enum { W = Access::WIDTH, ARE_KEPT = false };
    DEVICE Piece of(const Scaling &scaling, Piece piece) {
        float keys[W];
        Access::spread(piece, keys);
#pragma unroll
        for (int j = 0; j < W; j++)
            keys[j] = scaling.key(keys[j]);
        return Access::pack(keys);
    }
    DEVICE Piece lowest() {
        float keys[W];
#pragma unroll
        for (int j = 0; j < W; j++)
            keys[j] = Scaling::lowest();
        return Access::pack(keys);
    }
    DEVICE Piece larger(Piece a, Piece b) {
        float keys[W], others[W];
        Access::spread(a, keys);
        Access::spread(b, others);
#pragma unroll
        for (int j = 0; j < W; j++)
            keys[j] = fmaxf(keys[j], others[j]);
        return Access::pack(keys);
    }
};

template <> struct Keys<Access<uint16_t, 1>> {
    typedef uint16_t Piece;
    enum { ARE_KEPT = true };
    DEVICE Piece of(const Scaling<uint16_t> &scaling, Piece piece) {
        return (uint16_t)(piece ^ scaling.flip);
    }
    DEVICE Piece lowest() {
        return 0xFBFF;
    }
    DEVICE Piece larger(Piece a, Piece b) {
        return (uint16_t)larger_f16x2(a, b);
    }
};

template <> struct Keys<Access<uint16_t, 8>> {
    typedef uint4 Piece;
    enum { ARE_KEPT = true };
    DEVICE Piece of(const Scaling<uint16_t> &scaling, Piece piece) {
        uint32_t flip = scaling.flip;
        return make_uint4(piece.x ^ flip, piece.y ^ flip, piece.z ^ flip, piece.w ^ flip);
    }
    DEVICE Piece lowest() {
        return make_uint4(0xFBFFFBFF, 0xFBFFFBFF, 0xFBFFFBFF, 0xFBFFFBFF);
    }
    DEVICE Piece larger(Piece a, Piece b) {
        return make_uint4(larger_f16x2(a.x, b.x), larger_f16x2(a.y, b.y), larger_f16x2(a.z, b.z),
                          larger_f16x2(a.w, b.w));
    }
};

/* levels[j] is that of the j-th key. */
template <class Access>
DEVICE void exponentials(const Scaling<typename Access::Element> &scaling,
                         typename Access::Piece piece, const float (&levels)[Access::WIDTH],
                         float (&to)[Access::WIDTH]) {
    Access::spread(piece, to);
#pragma unroll
    for (int j = 0; j < Access::WIDTH; j++)
        to[j] = scaling.exponential(to[j], levels[j]);
}

/* Another lane's piece. */
DEVICE uint4 of_lane(uint4 piece, int step) {
    return make_uint4(
        __shfl_xor_sync(0xFFFFFFFF, piece.x, step), __shfl_xor_sync(0xFFFFFFFF, piece.y, step),
        __shfl_xor_sync(0xFFFFFFFF, piece.z, step), __shfl_xor_sync(0xFFFFFFFF, piece.w, step));
}

DEVICE float4 of_lane(float4 piece, int step) {
    return make_float4(
        __shfl_xor_sync(0xFFFFFFFF, piece.x, step), __shfl_xor_sync(0xFFFFFFFF, piece.y, step),
        __shfl_xor_sync(0xFFFFFFFF, piece.z, step), __shfl_xor_sync(0xFFFFFFFF, piece.w, step));
}

struct Peak {
    float level; /* of the largest key */
    float sum;   /* of exponentials relative to it */
};

template <class Element> DEVICE Peak no_peak(const Scaling<Element> &scaling) {
    Peak peak = {scaling.level(scaling.lowest()), 0};
    return peak;
}

/* The sum, relative to another level. */
template <class Element>
DEVICE float lowered(const Scaling<Element> &scaling, const Peak &peak, float level) {
    return peak.sum == 0 || peak.level == level ? peak.sum
                                                : peak.sum * scaling.ratio(peak.level, level);
}

template <class Element>
DEVICE Peak joined(const Scaling<Element> &scaling, const Peak &a, const Peak &b) {
    float level = fmaxf(a.level, b.level);
    Peak peak = {level, lowered(scaling, a, level) + lowered(scaling, b, level)};
    return peak;
}

template <class Element> struct JoinPeaks {
    Scaling<Element> scaling;
    __device__ Peak none() const {
        return no_peak(scaling);
    }
    template <int N> __device__ __forceinline__ Peak lanes(const Peak &part) const {
        float level = max_of_lanes<N>(part.level);
        Peak peak = {level, sum_of_lanes<N>(lowered(scaling, part, level))};
        return peak;
    }
};

/* Add N accesses of W keys, those that exist. */
template <int N, int W, class Element>
DEVICE void absorb(const Scaling<Element> &scaling, Peak *peak, const float (&keys)[N * W],
                   const bool (&is_there)[N]) {
    float top = scaling.lowest(), sum = 0;
#pragma unroll
    for (int i = 0; i < N * W; i++)
        top = is_there[i / W] ? fmaxf(top, keys[i]) : top;
    float level = fmaxf(peak->level, scaling.level(top));
#pragma unroll
    for (int i = 0; i < N * W; i++)
        sum += is_there[i / W] ? scaling.exponential(keys[i], level) : 0;
    peak->sum = lowered(scaling, *peak, level) + sum;
    peak->level = level;
}

/* The factor for exponentials that are relative to `level`. */
template <class Element>
DEVICE float share(const Scaling<Element> &scaling, float level, const Peak &row) {
    return (level == row.level ? 1 : scaling.ratio(level, row.level)) / row.sum;
}

#endif
