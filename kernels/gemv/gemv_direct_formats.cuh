/*
 * What a lane of gemv_direct.cuh fetches of a step of quantised weights, and gives to the matrix
 * units: each format's words as they lie in memory, and its scales.
 */
#ifndef CUSHIM_KERNELS_GEMV_DIRECT_FORMATS_CUH
#define CUSHIM_KERNELS_GEMV_DIRECT_FORMATS_CUH

#include "kernels/device/arch/mma.cuh"
#include "kernels/device/math/q4k.cuh"
#include "kernels/gemv/gemv_formats.cuh"
#include "kernels/gemv/gemv_kernels.h"

enum { DIRECT_ROWS = GEMV_DIRECT_ROWS, DIRECT_STEP = GEMV_DIRECT_STEP, DIRECT_STEP_BLOCKS = 8 };

struct DirectShape {
    int64_t m, k;
    int most_tiles;  /* of a block */
    int early_bytes; /* of its weights, asked for while the kernel ahead still runs */
};

/* A lane's rows: where the tile's weights start, scales that are apart, and bytes to the row. */
struct DirectRows {
    const uint8_t *values, *scales;
    unsigned offset[2];
};

/* Of two rows and two blocks: the scale, and what is subtracted for each value. */
struct DirectScales {
    float scale[2][2], minimum[2][2];
};

/* ---- columns as digits ---- */

/* Four digits of a place, one of each number: byte `place` of a, b, c and d. */
DEVICE uint32_t bytes_of(uint32_t a, uint32_t b, uint32_t c, uint32_t d, int place) {
    uint32_t selector = (uint32_t)(place | (4 + place) << 4);
    return __byte_perm(__byte_perm(a, b, selector), __byte_perm(c, d, selector), 0x5410);
}

/* Added to a float of up to 2^22, it rounds to an integer and leaves that in the lowest bits:
 * conversions have a quarter of the rate of sums.  And what makes signed digits of those bits. */
static constexpr float INTEGERS = 0x1.8p23f;
static constexpr uint32_t DIGITS_OF_INTEGERS = 0x808080u - 0x4B400000u;

enum { DIRECT_SETS = 3, DIRECT_GROUP_BYTES = 768 };

struct DirectDigits {
    enum { STEP_BYTES = 2 * DIRECT_GROUP_BYTES };
    static_assert(STEP_BYTES == GEMV_DIRECT_DIGITS, "launch");

    /* Sums of two digits of two rows, in the lanes of their block. */
    typedef int Sums[DIRECT_SETS][4];

    /* Of a block whose largest and least magnitude but 0 have these bits: what its values are
     * multiplied with, and 1 by that, times what the upper digits stand for. */
    struct Scale {
        bool is_plain;
        float value;
        uint32_t factor_bits;

        MEMBER Scale(uint32_t most, uint32_t least) {
            /* The largest becomes less than 2^22; subnormal values among tiny ones are exact, too.
             */
            enum { LEAST = 22, SPREAD = 22, LOG2_UPPER = 8 };
            int exponent = most >> 23, least_exponent = least >> 23;
            uint32_t scale_exponent = 253;
            is_plain = exponent == 255;
            if (exponent > LEAST) {
                scale_exponent = (uint32_t)(275 - exponent);
                is_plain = is_plain || exponent - least_exponent > SPREAD || least_exponent == 0;
            }
            value = __uint_as_float(scale_exponent << 23);
            factor_bits = (254 + LOG2_UPPER - scale_exponent) << 23;
        }
    };

    DEVICE float product(const Sums &d, int i) {
        float upper = (float)(d[0][2 * i] * 256 + d[0][2 * i + 1]);
        float middle = (float)(d[1][2 * i] * 128 + d[1][2 * i + 1]);
        float lower = (float)(d[2][2 * i] * 256 + d[2][2 * i + 1]);
        return fmaf(fmaf(lower, 0x1p-16f, middle), 0x1p-15f, upper);
    }

    /* A part of a block of a step, [half][set][pair / 2][block / 2][digit][pair % 2]. */
    DEVICE void store(uint8_t *step, int block, int part, const float (&x)[8], float scale) {
        uint32_t high[8], low[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float value = scale == 0 ? 0 : x[j] * scale, whole = value + INTEGERS;
            float rest = fmaf(value - (whole - INTEGERS), 0x1p23f, INTEGERS);
            high[j] = (__float_as_uint(whole) + DIGITS_OF_INTEGERS) ^ 0x808080;
            low[j] = (__float_as_uint(rest) + DIGITS_OF_INTEGERS) ^ 0x808080;
        }
        uint8_t *at =
            step + block % 2 * DIRECT_GROUP_BYTES + part / 2 * 128 + block / 2 * 32 + part % 2 * 8;
#pragma unroll
        for (int place = 0; place < 3; place++) {
            /* Digits 5 .. 3 are of the upper number, 2 .. 0 of the lower; 5 is the first here. */
            int upper = 2 - place, lower = 5 - place;
            *reinterpret_cast<uint2 *>(at + upper / 2 * 256 + upper % 2 * 16) =
                make_uint2(bytes_of(high[0], high[1], high[2], high[3], place),
                           bytes_of(high[4], high[5], high[6], high[7], place));
            *reinterpret_cast<uint2 *>(at + lower / 2 * 256 + lower % 2 * 16) =
                make_uint2(bytes_of(low[0], low[1], low[2], low[3], place),
                           bytes_of(low[4], low[5], low[6], low[7], place));
        }
    }

    /* A step's products of four words of two rows: two words each. */
    DEVICE void products(Sums &d, const uint32_t (&first)[4], const uint32_t (&second)[4],
                         const uint8_t *digits) {
#pragma unroll
        for (int set = 0; set < DIRECT_SETS; set++) {
            uint4 x = *reinterpret_cast<const uint4 *>(digits + set * 256);
            const uint32_t b[2][2] = {{x.x, x.y}, {x.z, x.w}};
            mma_bytes<true>(d[set], first, b[0]);
            mma_bytes<true>(d[set], second, b[1]);
        }
    }
};

/* ---- columns as two binary16 terms ---- */

enum { DIRECT_TERMS_BYTES = 512 };

/*
 * Integers below 16 in bits 4 to 7 are subnormal halves, 2^20 times smaller.  The units line up
 * products by the exponents of their factors, which for these are the least of a normal half: lower
 * bits would lose what is cut off.
 */
struct DirectTerms {
    enum { STEP_BYTES = 2 * DIRECT_TERMS_BYTES };
    static_assert(STEP_BYTES == GEMV_DIRECT_TERMS, "launch");

    /* Sums of the two terms of two rows, in the lanes of their block; two of each. */
    typedef float Sums[2][4];

    struct Scale {
        bool is_plain;
        float value;
        uint32_t factor_bits;

        MEMBER Scale(uint32_t most, uint32_t least) {
            /* The largest is in [2^14, 2^15). */
            enum { LEAST = 15, MOST = 230, SPREAD = 26, LOG2_INTEGERS = 20 };
            int exponent = most >> 23, least_exponent = least >> 23;
            uint32_t scale_exponent = 253;
            is_plain = exponent > MOST;
            if (exponent > LEAST) {
                scale_exponent = (uint32_t)(127 + 141 - exponent);
                is_plain = is_plain || exponent - least_exponent > SPREAD || least_exponent == 0;
            }
            value = __uint_as_float(scale_exponent << 23);
            factor_bits = (254 + LOG2_INTEGERS - scale_exponent) << 23;
        }
    };

    DEVICE float product(const Sums &d, int i) {
        return fmaf(d[0][2 * i + 1] + d[1][2 * i + 1], 0x1p-11f, d[0][2 * i] + d[1][2 * i]);
    }

    /* A part of a block of a step, [half][part][block / 2][term]. */
    DEVICE void store(uint8_t *step, int block, int part, const float (&x)[8], float scale) {
        uint32_t high[4], low[4];
#pragma unroll
        for (int word = 0; word < 4; word++) {
            int at = word / 2 * 4 + word % 2;
            float x0 = scale == 0 ? 0 : x[at] * scale, x1 = scale == 0 ? 0 : x[at + 2] * scale;
            high[word] = f16x2_of_f32x2(x0, x1);
            float2 rest = f32x2_of_f16x2(high[word]);
            low[word] = f16x2_of_f32x2((x0 - rest.x) * 2048, (x1 - rest.y) * 2048);
        }
        uint4 *at = reinterpret_cast<uint4 *>(step + block % 2 * DIRECT_TERMS_BYTES + part * 128 +
                                              block / 2 * 32);
        at[0] = make_uint4(high[0], high[1], high[2], high[3]);
        at[1] = make_uint4(low[0], low[1], low[2], low[3]);
    }

    /* A step's products of a word of two rows: its low nibbles, or its high ones. */
    template <bool IS_HIGH>
    DEVICE void products(float (&d)[4], uint32_t up, uint32_t down, uint32_t b0, uint32_t b1) {
        const uint32_t mask = 0x00F000F0;
        const uint32_t a[4] = {(IS_HIGH ? up : up << 4) & mask, (IS_HIGH ? down : down << 4) & mask,
                               up >> (IS_HIGH ? 8 : 4) & mask, down >> (IS_HIGH ? 8 : 4) & mask};
        const uint32_t b[2] = {b0, b1};
        mma_f16(d, a, b);
    }
};

template <class Format> struct Direct;

template <> struct Direct<Q4_0> : DirectDigits {
    enum { HAS_MINIMA = 0, IS_HALVED = 1 };
    enum { SCALES_APART = 1 };
    enum { LOG2_FIRST = 4, LOG2_SECOND = 4 }; /* integers are 2^4 times the weights' */
    struct Fetched {
        uint4 words[2][2]; /* [row][block] */
        uint32_t scales[2];
    };

    DEVICE void fetch(Fetched &to, const DirectRows &rows, int step, int left) {
        unsigned pair = threadIdx.x % 4,
                 at = (unsigned)step * 4 + (2 * (int)pair < left ? pair : 0);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint4 *from =
                reinterpret_cast<const uint4 *>(rows.values + (rows.offset[i] + at * 32));
            to.words[i][0] = __ldg(from); /* kept in L1: half of a sector, the next has the other */
            to.words[i][1] = __ldg(from + 1);
            to.scales[i] = __ldg(
                reinterpret_cast<const uint32_t *>(rows.scales + (rows.offset[i] / 8 + at * 4)));
        }
    }

    /* A nibble in the upper half of a byte is sixteen times itself, and less 8 with its top bit
     * flipped. */
    DEVICE uint32_t low(uint32_t word) {
        return masked_xor(word << 4, 0xF0F0F0F0, 0x80808080);
    }
    DEVICE uint32_t high(uint32_t word) {
        return masked_xor(word, 0xF0F0F0F0, 0x80808080);
    }

    DEVICE void multiply(Sums &first, Sums &second, const Fetched &of, const uint8_t *digits) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint4 up = of.words[0][half], down = of.words[1][half];
            const uint32_t a[4][4] = {{low(up.x), low(down.x), high(up.x), high(down.x)},
                                      {low(up.y), low(down.y), high(up.y), high(down.y)},
                                      {low(up.z), low(down.z), high(up.z), high(down.z)},
                                      {low(up.w), low(down.w), high(up.w), high(down.w)}};
            const uint8_t *from = digits + half * DIRECT_GROUP_BYTES;
            products(half ? second : first, a[0], a[1], from);
            products(half ? second : first, a[2], a[3], from + 128);
        }
    }

    DEVICE void scales(DirectScales &to, const Fetched &of, int left) {
        bool is_there = 2 * (int)(threadIdx.x % 4) < left;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float2 pair = f32x2_of_f16x2(is_there ? of.scales[i] : 0);
            to.scale[i][0] = pair.x;
            to.scale[i][1] = pair.y;
        }
    }

    DEVICE float value(const Weights &w, int64_t block, int i) {
        int byte = __ldg(w.values + block * Q4_0::BYTES + i % 16);
        return f32_of_f16(__ldg(reinterpret_cast<const uint16_t *>(w.scales) + block)) *
               (float)((i < 16 ? byte & 15 : byte >> 4) - 8);
    }
};

/* 16 bytes, of which memory gives L2 all 128 at once: super-blocks begin and end within sectors,
 * and another warp has the rest of them. */
DEVICE uint4 load_kept_line(const uint4 *from) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 900
    uint4 four;
    asm volatile("ld.global.nc.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
                 : "l"(__cvta_generic_to_global(from)));
    return four;
#else
    return __ldg(from);
#endif
}

/* Super-blocks, of which a lane has a group: two blocks of 32, low and high nibbles. */
struct Q4k {
    enum { BYTES = Q4K_BYTES / 8 };
};

template <> struct Direct<Q4k> : DirectTerms {
    enum { HAS_MINIMA = 1, IS_HALVED = 0 };
    enum { SCALES_APART = 0, LOG2_FIRST = 0, LOG2_SECOND = 0 };
    struct Fetched {
        uint4 head[2], words[2][2];
    };

    DEVICE void fetch(Fetched &to, const DirectRows &rows, int step, int) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint4 *from = reinterpret_cast<const uint4 *>(
                rows.values + (rows.offset[i] + (unsigned)step * Q4K_BYTES));
            to.head[i] = load_kept_line(from); /* kept in L1, too */
            to.words[i][0] = load_kept_line(from + 1 + 2 * (threadIdx.x % 4));
            to.words[i][1] = load_kept_line(from + 2 + 2 * (threadIdx.x % 4));
        }
    }

    DEVICE void multiply(Sums &first, Sums &second, const Fetched &of, const uint8_t *digits) {
#pragma unroll
        for (int part = 0; part < 4; part++) {
            uint4 four_up = of.words[0][part / 2], four_down = of.words[1][part / 2];
            uint32_t up[2] = {part % 2 ? four_up.z : four_up.x, part % 2 ? four_up.w : four_up.y};
            uint32_t down[2] = {part % 2 ? four_down.z : four_down.x,
                                part % 2 ? four_down.w : four_down.y};
            uint4 x = *reinterpret_cast<const uint4 *>(digits + part * 128);
            products<false>(first[0], up[0], down[0], x.x, x.y);
            products<false>(first[1], up[1], down[1], x.z, x.w);
            x = *reinterpret_cast<const uint4 *>(digits + DIRECT_TERMS_BYTES + part * 128);
            products<true>(second[0], up[0], down[0], x.x, x.y);
            products<true>(second[1], up[1], down[1], x.z, x.w);
        }
    }

    /* q4k_scale() of both blocks at once, a byte each. */
    DEVICE void scales(DirectScales &to, const Fetched &of, int) {
        int t = threadIdx.x % 4;
        uint32_t selector = t & 1 ? 0x4432 : 0x4410;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t low = __byte_perm(of.head[i].y, 0, selector);
            uint32_t mid = __byte_perm(of.head[i].z, 0, selector);
            uint32_t high = __byte_perm(of.head[i].w, 0, selector);
            uint32_t scale = t < 2 ? low & 0x3F3F : (high & 0x0F0F) | (low >> 2 & 0x3030);
            uint32_t minimum = t < 2 ? mid & 0x3F3F : (high >> 4 & 0x0F0F) | (mid >> 2 & 0x3030);
            float d = f32_of_f16((uint16_t)of.head[i].x);
            float dmin = f32_of_f16((uint16_t)(of.head[i].x >> 16));
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float s = __uint_as_float(__byte_perm(scale, 0x4B000000, 0x7440 | half));
                float m = __uint_as_float(__byte_perm(minimum, 0x4B000000, 0x7440 | half));
                to.scale[i][half] = d * (s - 0x1p23f);
                to.minimum[i][half] = dmin * (m - 0x1p23f);
            }
        }
    }

    DEVICE float value(const Weights &w, int64_t block, int i) {
        const uint8_t *from = w.values + block / 8 * Q4K_BYTES;
        int j = (int)(block % 8), byte = __ldg(from + Q4K_HEAD_BYTES + j / 2 * 32 + i);
        Q4kScale scale = q4k_scale(__ldg(reinterpret_cast<const uint4 *>(from)), j);
        return fmaf(scale.scale, (float)(j % 2 ? byte >> 4 : byte & 15), -scale.minimum);
    }
};

#endif
