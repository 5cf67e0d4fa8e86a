/*
 * Floats as two halves each: a tile is scaled by a power of two so that its largest magnitude lies
 * in [2^14, 2^15), and x = high + low.
 *
 * Values below 2^-17 of the largest lose digits to the smallest step of halves, 2^-40 of the
 * largest.  That is harmless for a few elements but not for many, so these are counted.  A tile is
 * `hard` if it has many of them, an infinity or NaN, or is beyond the powers that scale and
 * unscale; fp32 units compute its products.
 *
 * In shared memory rows are DIM halves long.  Their chunks of 16 bytes are permuted by row, so that
 * the same chunk of 8 neighbouring rows meets no bank twice.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_HALVES_CUH
#define CUSHIM_KERNELS_ATTENTION_HALVES_CUH

#include <string.h>

#include "kernels/device/device.cuh"
#include "kernels/device/math/maximum.cuh"

namespace {

enum {
    FLOAT_BITS = 23,     /* below the exponent */
    LEAST_EXPONENT = 15, /* biased; of a tile that can be scaled */
    MOST_EXPONENT = 254, /* above it are infinities and NaN */
    HARD_SHARE = 128,    /* more than one small element in this many makes a tile hard */
    /* a count of small elements that makes a tile of any size hard, and fits an int if 8 lanes
     * count it for each of 128 rows */
    HARD_COUNT = 1 << 16
};

/* The bits of a magnitude, which order like it; infinity and NaN are above all. */
DEVICE unsigned magnitude_of(float value) {
    return __float_as_uint(value) & 0x7FFFFFFFu;
}

/* The larger magnitude; NaN if either is. */
DEVICE float max_magnitude(float a, float b) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 800
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(fabsf(a)), "f"(fabsf(b)));
    return most;
#else
    return __uint_as_float(max(magnitude_of(a), magnitude_of(b)));
#endif
}

DEVICE float max_magnitude(float so_far, float4 value) {
    return max_magnitude(max_magnitude(so_far, max_magnitude(value.x, value.y)),
                         max_magnitude(value.z, value.w));
}

DEVICE int sum_of_warp(int value) {
#if defined(CUSHIM_EMULATED) || __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xFFFFFFFF, value);
#else
    for (int step = 1; step < 32; step *= 2)
        value += __shfl_xor_sync(0xFFFFFFFF, value, step);
    return value;
#endif
}

struct Scale {
    float times, inverse;
    bool is_hard;
};

/* The scale for a tile with these bits as its largest magnitude. */
DEVICE Scale scale_of(unsigned most) {
    unsigned exponent = most >> FLOAT_BITS;
    bool is_in_range = exponent >= LEAST_EXPONENT && exponent <= MOST_EXPONENT;
    if (!is_in_range)
        return {1.0f, 1.0f, most != 0};
    return {__uint_as_float((127 + 127 + 14 - exponent) << FLOAT_BITS),
            __uint_as_float((exponent - 14) << FLOAT_BITS), false};
}

DEVICE bool is_small_or_0(float scaled) {
    return fabsf(scaled) < 0.125f;
}

DEVICE bool is_small(float scaled) {
    return is_small_or_0(scaled) && scaled != 0;
}

DEVICE int n_small_of(float4 scaled) {
    return is_small(scaled.x) + is_small(scaled.y) + is_small(scaled.z) + is_small(scaled.w);
}

DEVICE uint32_t bits_of_halves(__half2 pair) {
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

/* Two floats as two pairs of halves. */
DEVICE void split_pair(float x, float y, uint32_t *high, uint32_t *low) {
    __half2 first = __floats2half2_rn(x, y);
    float2 back = __half22float2(first);
    *high = bits_of_halves(first);
    *low = bits_of_halves(__floats2half2_rn(x - back.x, y - back.y));
}

/* The permutation of a row's chunks; it repeats every 8 rows. */
template <int DIM> DEVICE int turn_of(int row) {
    return DIM % 64 == 0 ? row & 7 : row >> 1 & 3;
}

/* The place of columns `column` to `column` + 7 of a row; column is a multiple of 8. */
template <int DIM> DEVICE int place_of(int row, int column) {
    return row * DIM + (((column >> 3) ^ turn_of<DIM>(row)) << 3);
}

/* Store four scaled columns, from a multiple of 4 on. */
template <int DIM>
DEVICE void store_split(uint16_t *high, uint16_t *low, int row, int column, float4 scaled) {
    int place = place_of<DIM>(row, column & ~7) + (column & 4);
    uint2 of_high, of_low;
    split_pair(scaled.x, scaled.y, &of_high.x, &of_low.x);
    split_pair(scaled.z, scaled.w, &of_high.y, &of_low.y);
    *reinterpret_cast<uint2 *>(high + place) = of_high;
    *reinterpret_cast<uint2 *>(low + place) = of_low;
}

DEVICE float4 times(float4 value, float by) {
    return make_float4(value.x * by, value.y * by, value.z * by, value.w * by);
}

} // namespace

#endif
