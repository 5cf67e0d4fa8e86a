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

#include "kernels/device/group.cuh"

struct Scaling {
    float part, factor; /* part * factor = |scale| */
    uint32_t flip;      /* of the sign bit */
};

DEVICE Scaling scaling_of(float scale) {
    float size = fabsf(scale);
    Scaling scaling = {size <= 1 ? 0.5f : 1.0f, size <= 1 ? 2 * size : size,
                       scale < 0 ? 0x80000000 : 0};
    return scaling;
}

DEVICE float key_of(const Scaling &scaling, float x) {
    return __uint_as_float(__float_as_uint(x) ^ scaling.flip);
}

DEVICE float exponential(const Scaling &scaling, float key, float top) {
    return expf(fmaf(key, scaling.part, -scaling.part * top) * scaling.factor);
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
