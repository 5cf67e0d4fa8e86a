/*
 * The arithmetic of softmax: exp(scale * (x - top)) and sums of it that refer to different tops.
 *
 * A key is x, or -x where the scale is negative, so the top is always a maximum of keys and
 * x * scale is never formed; it could overflow.  Nor can a difference of keys where the scale is
 * small: halves are subtracted then, and the factor is doubled.  A Peak with sum 0 has nothing in
 * it, or keys of -Inf alone; then the sum of a whole row is 0, and 0 / 0 makes the row NaN.
 */
#ifndef CUSHIM_KERNELS_SOFTMAX_PEAK_CUH
#define CUSHIM_KERNELS_SOFTMAX_PEAK_CUH

#include <float.h>

#include "kernels/device/access.cuh"
#include "kernels/device/math/exp2.cuh"
#include "kernels/device/group.cuh"

struct Scaling {
    float part, factor; /* part * factor = |scale| */
    float octaves;      /* |scale| log2(e), finite where scale is */
    uint32_t flip;      /* of the sign bit */
};

DEVICE Scaling scaling_of(float scale) {
    float size = fabsf(scale), octaves = size * 1.44269504f;
    Scaling scaling = {size <= 1 ? 0.5f : 1.0f, size <= 1 ? 2 * size : size,
                       size <= FLT_MAX && octaves > FLT_MAX ? FLT_MAX : octaves,
                       scale < 0 ? 0x80000000 : 0};
    return scaling;
}

DEVICE float key_of(const Scaling &scaling, float x) {
    return __uint_as_float(__float_as_uint(x) ^ scaling.flip);
}

DEVICE float exponential(const Scaling &scaling, float key, float top) {
    return expf(fmaf(key, scaling.part, -scaling.part * top) * scaling.factor);
}

/*
 * The keys of an access and their exponentials.  Floats become exponentials in place.  Halves stay
 * what they are and are gone through twice, which takes half of the registers: a difference of two
 * is exact or far below what a half of the result shows, and so is the error of quick_exp2().
 */
template <class Access> struct Keys {
    typedef typename Access::Piece Piece;
    enum { W = Access::WIDTH, ARE_KEPT = false };
    DEVICE Piece of(const Scaling &scaling, Piece piece) {
        float keys[W];
        Access::spread(piece, keys);
#pragma unroll
        for (int j = 0; j < W; j++)
            keys[j] = key_of(scaling, keys[j]);
        return Access::pack(keys);
    }
    DEVICE Piece lowest() {
        float keys[W];
#pragma unroll
        for (int j = 0; j < W; j++)
            keys[j] = -INFINITY;
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
    /* tops[j] is the j-th key's */
    DEVICE void exponentials(const Scaling &scaling, Piece piece, const float (&tops)[W],
                             float (&to)[W]) {
        Access::spread(piece, to);
#pragma unroll
        for (int j = 0; j < W; j++)
            to[j] = exponential(scaling, to[j], tops[j]);
    }
};

template <> struct Keys<Access<uint16_t, 1>> {
    typedef uint16_t Piece;
    enum { W = 1, ARE_KEPT = true };
    DEVICE Piece of(const Scaling &scaling, Piece piece) {
        return (uint16_t)(piece ^ scaling.flip >> 16);
    }
    DEVICE Piece lowest() {
        return 0xFC00;
    }
    DEVICE Piece larger(Piece a, Piece b) {
        return (uint16_t)larger_f16x2(a, b);
    }
    DEVICE void exponentials(const Scaling &scaling, Piece piece, const float (&tops)[1],
                             float (&to)[1]) {
        to[0] = quick_exp2((f32_of_f16(piece) - tops[0]) * scaling.octaves);
    }
};

template <> struct Keys<Access<uint16_t, 8>> {
    typedef uint4 Piece;
    enum { W = 8, ARE_KEPT = true };
    DEVICE Piece of(const Scaling &scaling, Piece piece) {
        uint32_t flip = scaling.flip | scaling.flip >> 16;
        return make_uint4(piece.x ^ flip, piece.y ^ flip, piece.z ^ flip, piece.w ^ flip);
    }
    DEVICE Piece lowest() {
        return make_uint4(0xFC00FC00, 0xFC00FC00, 0xFC00FC00, 0xFC00FC00);
    }
    DEVICE Piece larger(Piece a, Piece b) {
        return make_uint4(larger_f16x2(a.x, b.x), larger_f16x2(a.y, b.y), larger_f16x2(a.z, b.z),
                          larger_f16x2(a.w, b.w));
    }
    DEVICE void exponentials(const Scaling &scaling, Piece piece, const float (&tops)[W],
                             float (&to)[W]) {
        spread(piece, to);
#pragma unroll
        for (int j = 0; j < W; j++)
            to[j] = quick_exp2((to[j] - tops[j]) * scaling.octaves);
    }
};

/* Another lane's. */
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
    float top; /* the largest key; -Inf: none */
    float sum; /* of exponentials that refer to it */
};

DEVICE Peak no_peak() {
    Peak peak = {-INFINITY, 0};
    return peak;
}

/* What exponentials of keys up to `top` refer to while the row's top is not known. */
DEVICE float anchor_of(float top) {
    return top == -INFINITY ? 0 : top;
}

/* The sum, referred to another top. */
DEVICE float lowered(const Scaling &scaling, const Peak &peak, float top) {
    return peak.sum == 0 || peak.top == top ? peak.sum
                                            : peak.sum * exponential(scaling, peak.top, top);
}

DEVICE Peak joined(const Scaling &scaling, const Peak &a, const Peak &b) {
    float top = fmaxf(a.top, b.top);
    Peak peak = {top, lowered(scaling, a, top) + lowered(scaling, b, top)};
    return peak;
}

struct JoinPeaks {
    Scaling scaling;
    DEVICE Peak none() {
        return no_peak();
    }
    template <int N> __device__ __forceinline__ Peak lanes(const Peak &part) const {
        float top = most_of_lanes<N>(part.top);
        Peak peak = {top, sum_of_lanes<N>(lowered(scaling, part, top))};
        return peak;
    }
};

/* Add N accesses of W keys, those that are there. */
template <int N, int W>
DEVICE void absorb(const Scaling &scaling, Peak *peak, const float (&keys)[N * W],
                   const bool (&is_there)[N]) {
    float top = peak->top, sum = 0;
#pragma unroll
    for (int i = 0; i < N * W; i++)
        top = is_there[i / W] ? fmaxf(top, keys[i]) : top;
    float anchor = anchor_of(top);
#pragma unroll
    for (int i = 0; i < N * W; i++)
        sum += is_there[i / W] ? exponential(scaling, keys[i], anchor) : 0;
    peak->sum = lowered(scaling, *peak, top) + sum;
    peak->top = top;
}

/* What exponentials that refer to `top` are multiplied with. */
DEVICE float share(const Scaling &scaling, float top, const Peak &row) {
    return (top == row.top ? 1 : exponential(scaling, top, row.top)) / row.sum;
}

#endif
