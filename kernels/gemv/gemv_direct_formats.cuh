/*
 * What a lane of gemv_direct.cuh fetches of a step of quantised weights and gives to the matrix
 * units: each format's words as they lie in memory, and its scales.
 */
#ifndef CUSHIM_KERNELS_GEMV_DIRECT_FORMATS_CUH
#define CUSHIM_KERNELS_GEMV_DIRECT_FORMATS_CUH

#include "kernels/device/arch/async_copy.cuh"
#include "kernels/device/arch/mma.cuh"
#include "kernels/device/math/bits.cuh"
#include "kernels/gemv/gemv_groups.cuh"
#include "kernels/gemv/gemv_kernels.h"

enum { DIRECT_ROWS = GEMV_DIRECT_ROWS, DIRECT_STEP = GEMV_DIRECT_STEP, DIRECT_STEP_BLOCKS = 8 };

struct DirectShape {
    int64_t m, k;    /* of the block, if blocks of a cluster share k */
    int n_blocks;    /* of a row */
    int most_tiles;  /* of a block */
    int early_bytes; /* of its weights, asked for while the kernel ahead still runs */
};

/* A tile's rows: the start of its weights, separate scales, and the bytes to what a lane loads. */
template <int N> struct DirectRows {
    const uint8_t *values, *scales;
    unsigned offset[N];
};

/* ---- columns as digits ---- */

/*
 * Added to a float of up to 2^22, it rounds that to an integer in the lowest bits, because
 * conversions have a quarter of the rate of sums.  The other makes signed digits of those bits.
 */
static constexpr float INTEGERS = 0x1.8p23f;
static constexpr uint32_t DIGITS_OF_INTEGERS = 0x808080u - 0x4B400000u;

/*
 * The factor for values whose largest and least magnitude other than 0 have these bits, and 1 / the
 * factor, times 2^8, because products are in units of the second digit.
 */
struct DirectScale {
    bool is_plain;
    float value;
    uint32_t factor_bits;

    MEMBER DirectScale(uint32_t most, uint32_t least, int spread) {
        /* The largest becomes less than 2^22; subnormal values among tiny ones are exact too. */
        enum { LEAST = 22, LOG2_UNIT = 8 };
        int exponent = most >> 23, least_exponent = least >> 23;
        uint32_t scale_exponent = 253;
        is_plain = exponent == 255;
        if (exponent > LEAST) {
            scale_exponent = (uint32_t)(275 - exponent);
            is_plain = is_plain || exponent - least_exponent > spread || least_exponent == 0;
        }
        value = __uint_as_float(scale_exponent << 23);
        factor_bits = (254 + LOG2_UNIT - scale_exponent) << 23;
    }
};

/*
 * Eight values as digits, from the first to the last, four values a word: three signed digits of an
 * upper integer, which is whole, three of a lower one, 2^23 times the rest, and one more, 2^7 times
 * what that leaves.
 */
struct DirectIntegers {
    uint32_t digits[7][2];

    MEMBER DirectIntegers(const float (&x)[8], float scale) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t upper[4], lower[4], last[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float of = x[4 * half + j], whole = fmaf(of, scale, INTEGERS);
                float behind = fmaf(of, scale, INTEGERS - whole);
                float rest = fmaf(behind, 0x1p23f, INTEGERS);
                float left = fmaf(behind, 0x1p23f, INTEGERS - rest);
                upper[j] = __float_as_uint(whole) + DIGITS_OF_INTEGERS;
                lower[j] = __float_as_uint(rest) + DIGITS_OF_INTEGERS;
                last[j] = __float_as_uint(fmaf(left, 0x1p7f, INTEGERS));
            }
            take_apart(upper, half, 0);
            take_apart(lower, half, 3);
            digits[6][half] = __byte_perm(__byte_perm(last[0], last[1], 0x0040),
                                          __byte_perm(last[2], last[3], 0x0040), 0x5410);
        }
    }

    /* The three digits of four integers, from digit `first` on. */
    MEMBER void take_apart(const uint32_t (&of)[4], int half, int first) {
        uint32_t low[2], high[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            low[i] = __byte_perm(of[2 * i], of[2 * i + 1], 0x5140);
            high[i] = __byte_perm(of[2 * i], of[2 * i + 1], 0x0062);
        }
        digits[first][half] = __byte_perm(high[0], high[1], 0x5410) ^ 0x80808080;
        digits[first + 1][half] = __byte_perm(low[0], low[1], 0x7632) ^ 0x80808080;
        digits[first + 2][half] = __byte_perm(low[0], low[1], 0x5410) ^ 0x80808080;
    }

    MEMBER uint2 digit(int number) const {
        return make_uint2(digits[number][0], digits[number][1]);
    }
};

enum { DIRECT_SETS = 3 };

template <class Format> struct Direct;
/* q4k and q5k by way of stages */
template <class Format, bool KEEPS_LINES = false> struct InStages;
template <class Format> struct BlockByBlock; /* q8_0 and q5_0 times two columns */

/* ---- what a lane loads of a step of 16 rows ---- */

/* Its bytes of rows g and g + 8, into registers. */
struct DirectOfTwoRows {
    enum { LOADS = 2, STAGE_BYTES = 0 };
    typedef DirectRows<LOADS> Rows;

    DEVICE int row_of(int load) {
        return threadIdx.x % 32 / 4 + 8 * load;
    }
    DEVICE unsigned begin_of(int) {
        return 0;
    }
};

/*
 * Pieces of 16 bytes, copied to a stage of the warp, for products with an end and for formats whose
 * words do not lie at multiples of their size.  A row is copied from the multiple at or before the
 * step on, and its bytes lie skew_of() bytes behind the start of the stage's row; those of rows 8
 * apart are alike.  L1 may keep the lines, whose rest another warp of the block copies.
 */
template <class Format, int STEP, bool KEEPS_LINES = false> struct DirectStage {
    enum { PIECES = (STEP + 15) / 16, PITCH = PIECES * 16 | 16, STAGE_BYTES = DIRECT_ROWS * PITCH };
    static_assert(STAGE_BYTES == GEMV_SLICE_STAGE_BYTES(STEP), "as launched");

    /* Lanes take piece after piece if there is no gap between rows, or else whole rows. */
    enum { IS_DENSE = (int)PITCH == 16 * PIECES };
    enum { LANES = IS_DENSE ? (int)PIECES : (int)PIECES > 16 ? 32 : 16 };
    enum { LOADS = (DIRECT_ROWS * LANES + 31) / 32 };
    typedef DirectRows<LOADS> Rows;
    struct Fetched {
        uint8_t *stage;
        unsigned row_bytes;
    };

    DEVICE int number_of(int load) {
        return threadIdx.x % 32 + 32 * load;
    }
    DEVICE int row_of(int load) {
        return number_of(load) / LANES;
    }
    DEVICE unsigned begin_of(int load) {
        return number_of(load) % LANES * 16;
    }

    enum { HAS_SKEW = STEP % 16 != 0 };
    DEVICE unsigned skew_of(const Fetched &fetched, int row, int step) {
        return ((unsigned)row * fetched.row_bytes + (unsigned)step * STEP) % 16;
    }

    DEVICE void fetch(Fetched &fetched, const Rows &rows, int step, int) {
        unsigned before = (unsigned)step * STEP;
        const uint8_t *values = HAS_SKEW ? rows.values : rows.values + before;
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int place = IS_DENSE ? number_of(i) * 16 : row_of(i) * PITCH + (int)begin_of(i);
            if (IS_DENSE ? place >= STAGE_BYTES : begin_of(i) >= 16 * PIECES)
                continue;
            const uint8_t *from =
                values + (HAS_SKEW ? (rows.offset[i] + before) / 16 * 16 : rows.offset[i]);
            if (KEEPS_LINES)
                copy_async_16_of_kept_line(fetched.stage + place, from);
            else
                copy_async_16_of_line(fetched.stage + place, from);
        }
    }

    /* Row g of a stage whose copies the warp has waited for. */
    DEVICE const uint8_t *row(const uint8_t *stage, int row) {
        return stage + row * PITCH;
    }
};

/* ---- blocks of 32 values ---- */

/*
 * A product has four blocks, with the words of a lane of each, and two digits; the scales of blocks
 * are floats.
 */
struct DirectBlocks {
    enum { HAS_MINIMA = 0, IS_HALVED = 1, SCALE_LANES = 4, SPREAD = 22 };
    enum { STEP_BYTES = GEMV_DIRECT_DIGITS, GROUP_BYTES = STEP_BYTES / 2, DIGITS = 6 };

    /* The place of a lane's digits of step 0.  Lanes whose column belongs to another block read
     * the zeros before them, in all steps.  All of the block make one. */
    template <int COLS> struct Lane {
        static_assert(COLS == 1, "more columns go block by block");
        const uint8_t *digits;
        int step_bytes;

        MEMBER explicit Lane(uint8_t *all) {
            int lane = threadIdx.x % 32, g = lane / 4;
            bool is_own = g / 2 == lane % 4;
            digits = is_own ? all + g * 16 : all - STEP_BYTES;
            step_bytes = is_own ? (int)STEP_BYTES : 0;
            for (int i = threadIdx.x; i < STEP_BYTES / 4; i += blockDim.x)
                reinterpret_cast<uint32_t *>(all - STEP_BYTES)[i] = 0;
            __syncthreads();
        }
    };

    /* For two blocks: sums of two digits of two rows, in the lanes of their block, and scales. */
    template <int COLS> struct Products {
        int d[2][DIRECT_SETS][4];
        float scale[2][2]; /* [row][block] */
    };

    /* Store a part of a block of a step, [half][set][pair / 2][block / 2][digit][pair % 2]. */
    DEVICE void store(uint8_t *step, int block, int part, const float (&x)[8], float scale) {
        DirectIntegers of(x, scale);
        uint8_t *at =
            step + block % 2 * GROUP_BYTES + part / 2 * 128 + block / 2 * 32 + part % 2 * 8;
#pragma unroll
        for (int i = 0; i < DIGITS; i++)
            *reinterpret_cast<uint2 *>(at + i / 2 * 256 + i % 2 * 16) = of.digit(i);
    }

    /* Four words of two rows: two words each. */
    DEVICE void multiply_words(int (&d)[DIRECT_SETS][4], const uint32_t (&first)[4],
                               const uint32_t (&second)[4], const uint8_t *digits) {
#pragma unroll
        for (int set = 0; set < DIRECT_SETS; set++) {
            uint4 x = *reinterpret_cast<const uint4 *>(digits + set * 256);
            const uint32_t b[2][2] = {{x.x, x.y}, {x.z, x.w}};
            mma_bytes<true>(d[set], first, b[0]);
            mma_bytes<true>(d[set], second, b[1]);
        }
    }

    DEVICE float product(const int (&d)[DIRECT_SETS][4], int i) {
        float upper = (float)(d[0][2 * i] * 256 + d[0][2 * i + 1]);
        float middle = (float)(d[1][2 * i] * 128 + d[1][2 * i + 1]);
        float lower = (float)(d[2][2 * i] * 256 + d[2][2 * i + 1]);
        return fmaf(fmaf(lower, 0x1p-16f, middle), 0x1p-15f, upper);
    }

    /* Factors of the two blocks, each with its sum; that of a plain block is negative, and its
     * product 0. */
    template <int COLS>
    DEVICE void add(float (&sums)[2], const Products<COLS> &of, int, const Lane<COLS> &,
                    float4 both) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float factor = half ? both.z : both.x;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float with = __float_as_uint(factor) >> 31 ? 0 : of.scale[i][half];
                sums[i] = fmaf(with, product(of.d[half], i) * factor, sums[i]);
            }
        }
    }
};

template <> struct Direct<Q4_0> : DirectBlocks, DirectOfTwoRows {
    enum { SCALES_APART = 1, WEIGHT_BYTES = 8 * Q4_0::BYTES }; /* of a step of a row */
    enum { LOG2_INTEGERS = 4 };                                /* they are 2^4 times the weights' */
    struct Fetched {
        uint4 words[2][2]; /* [row][block] */
        uint32_t scales[2];
    };

    DEVICE void fetch(Fetched &to, const Rows &rows, int step, int left) {
        unsigned pair = threadIdx.x % 4,
                 at = (unsigned)step * 4 + (2 * (int)pair < left ? pair : 0);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint4 *from =
                reinterpret_cast<const uint4 *>(rows.values + (rows.offset[i] + at * 32));
            to.words[i][0] = __ldg(from); /* kept in L1: half of a sector, and the next step has
                                             the other half */
            to.words[i][1] = __ldg(from + 1);
            to.scales[i] = __ldg(
                reinterpret_cast<const uint32_t *>(rows.scales + (rows.offset[i] / 8 + at * 4)));
        }
    }

    /* A nibble in the upper half of a byte is sixteen times itself; with its top bit flipped it
     * is less 8. */
    DEVICE uint32_t low(uint32_t word) {
        return masked_xor(word << 4, 0xF0F0F0F0, 0x80808080);
    }
    DEVICE uint32_t high(uint32_t word) {
        return masked_xor(word, 0xF0F0F0F0, 0x80808080);
    }

    template <int COLS>
    DEVICE void multiply(Products<COLS> &to, const Fetched &of, const Lane<COLS> &lane, int step,
                         int left) {
        const uint8_t *digits = lane.digits + step * lane.step_bytes;
        bool is_there = 2 * (int)(threadIdx.x % 4) < left;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint4 up = of.words[0][half], down = of.words[1][half];
            const uint32_t a[4][4] = {{low(up.x), low(down.x), high(up.x), high(down.x)},
                                      {low(up.y), low(down.y), high(up.y), high(down.y)},
                                      {low(up.z), low(down.z), high(up.z), high(down.z)},
                                      {low(up.w), low(down.w), high(up.w), high(down.w)}};
            const uint8_t *from = digits + half * GROUP_BYTES;
            multiply_words(to.d[half], a[0], a[1], from);
            multiply_words(to.d[half], a[2], a[3], from + 128);
        }
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

/*
 * 16 bytes, and L2 gets the whole line of 128.  Super-blocks begin and end within sectors, and
 * another warp has the rest of them.
 */
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

/* The same of 8 bytes. */
DEVICE uint2 load_kept_line(const uint2 *from) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 900
    uint2 two;
    asm volatile("ld.global.nc.L2::128B.v2.u32 {%0, %1}, [%2];"
                 : "=r"(two.x), "=r"(two.y)
                 : "l"(__cvta_generic_to_global(from)));
    return two;
#else
    return __ldg(from);
#endif
}

/*
 * Computed here and not behind the loads that replace what it is computed from, which would have to
 * be copied.
 */
DEVICE void settle([[maybe_unused]] float &value) {
#ifndef CUSHIM_EMULATED
    asm volatile("" : "+f"(value));
#endif
}

DEVICE void settle([[maybe_unused]] unsigned &value) {
#ifndef CUSHIM_EMULATED
    asm volatile("" : "+r"(value));
#endif
}

/* ---- super-blocks ---- */

/*
 * The columns of a product are digits of its values: lane t ends up with digits 2t and 2t + 1 of
 * rows g and g + 8.  Scales of blocks are integers too, and the values of a super-block have one
 * factor, so its sums are integers.
 */
struct DirectSuper {
    enum { IS_HALVED = 0, SCALES_APART = 0 };
    enum { STEP_BYTES = GEMV_DIRECT_DIGITS_OF_SUPER, DIGITS = 7, DIGIT_BYTES = 64 };
    enum { PAIR_BYTES = DIGITS * DIGIT_BYTES }; /* two blocks */
    enum { SCALE_LANES = 32, SPREAD = 30 };
    static_assert(STEP_BYTES == 4 * PAIR_BYTES, "launch");

    /* The place of the lane's digits of step 0, and the weight of those digits in its sums.
     * Digit 7 repeats another one and counts for nothing. */
    template <int COLS> struct Lane {
        const uint8_t *digits;
        float upper, lower;

        MEMBER explicit Lane(const uint8_t *all) {
            int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
            digits = all + (g < DIGITS ? g : g - 2) * DIGIT_BYTES + t * 16;
            upper = t == 0 ? 0x1p8f : t == 1 ? 0x1p-8f : t == 2 ? 0x1p-23f : 0x1p-38f;
            lower = t == 0 ? 1 : t == 1 ? 0x1p-15f : t == 2 ? 0x1p-31f : 0;
        }
    };

    /* Store a part of a block of a step, [block / 2][digit][part][block % 2]. */
    DEVICE void store(uint8_t *step, int block, int part, const float (&x)[8], float scale) {
        DirectIntegers of(x, scale);
        uint8_t *at = step + block / 2 * PAIR_BYTES + part * 16 + block % 2 * 8;
#pragma unroll
        for (int i = 0; i < DIGITS; i++)
            *reinterpret_cast<uint2 *>(at + i * DIGIT_BYTES) = of.digit(i);
    }

    template <int COLS> DEVICE float product(const int (&sums)[2], const Lane<COLS> &lane) {
        return fmaf((float)sums[0], lane.upper, (float)sums[1] * lane.lower);
    }
};

/* q4k and q5k, of which a lane has 8 bytes of each group: low and high nibbles, of two blocks. */
template <class Format> struct DirectOf5k : DirectSuper {
    enum { HAS_MINIMA = 1, HAS_HIGH = Format::HAS_HIGH, WEIGHT_BYTES = Format::SUPER_BYTES };
    enum { LOG2_INTEGERS = HAS_HIGH ? 0 : 4 }; /* low nibbles of q4k are taken 2^4 times */
    struct Words {
        uint4 head[2];
        uint2 high[2];
        uint2 words[2][4]; /* [row][group] */

        /* Load those of row g + 8 i, which begins here. */
        template <class Load> MEMBER void take(int i, const uint8_t *row, Load load) {
            Parts parts = Format::whole(row, 0);
            const uint2 *of_lane = reinterpret_cast<const uint2 *>(parts.low) + threadIdx.x % 4;
            head[i] = load(reinterpret_cast<const uint4 *>(row));
            high[i] = make_uint2(0, 0);
            if (HAS_HIGH)
                high[i] = load(reinterpret_cast<const uint2 *>(parts.high) + threadIdx.x % 4);
#pragma unroll
            for (int group = 0; group < 4; group++)
                words[i][group] = load(of_lane + 4 * group);
        }
    };

    /* For a super-block of two rows: sums of the lane's two digits of each column of x, d, and
     * minima of the blocks 2t and 2t + 1. */
    template <int COLS> struct Products {
        int sums[COLS][2][2];
        float scale[2], minimum[2][2];
    };

    /* Bits i and i + 4 of bytes, for i from 0 on. */
    struct High {
        uint32_t bits[4];

        MEMBER explicit High(uint32_t word) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                bits[i] = word >> i & 0x11111111;
        }
    };

    /* Four integers of a block: of q4k as they lie in the word. */
    DEVICE uint32_t integers(uint32_t word, const High &high, int block) {
        if (!HAS_HIGH)
            return word & (block % 2 ? 0xF0F0F0F0 : 0x0F0F0F0F);
        uint32_t bits = block < 4 ? high.bits[block] << 4 : high.bits[block - 4];
        uint32_t low = block % 2 ? word >> 4 : word;
        return select_bits(0x0F0F0F0F, low, bits);
    }

    template <int COLS>
    DEVICE void multiply(Products<COLS> &to, const Words &of, const Lane<COLS> &lane, int step,
                         int) {
        const uint8_t *digits = lane.digits + step * (COLS * STEP_BYTES);
        uint32_t scales[2][2];        /* [row][half of the blocks], a byte each */
        int sums[2][COLS][2][2] = {}; /* [unit][column][row][digit] */
#pragma unroll
        for (int i = 0; i < 2; i++) {
            scales[i][0] = of.head[i].y & 0x3F3F3F3F;
            scales[i][1] = (of.head[i].w & 0x0F0F0F0F) | (of.head[i].y >> 2 & 0x30303030);
        }
        const High up_high[2] = {High(of.high[0].x), High(of.high[0].y)};
        const High down_high[2] = {High(of.high[1].x), High(of.high[1].y)};
#pragma unroll
        for (int block = 0; block < DIRECT_STEP_BLOCKS; block++) {
            int group = block / 2, is_odd = block % 2, unit = HAS_HIGH ? 0 : is_odd;
            uint2 up = of.words[0][group], down = of.words[1][group];
            const uint32_t a[4] = {
                integers(up.x, up_high[0], block), integers(down.x, down_high[0], block),
                integers(up.y, up_high[1], block), integers(down.y, down_high[1], block)};
#pragma unroll
            for (int col = 0; col < COLS; col++) {
                uint4 x = *reinterpret_cast<const uint4 *>(digits + col * STEP_BYTES +
                                                           group * PAIR_BYTES);
                const uint32_t b[2] = {is_odd ? x.z : x.x, is_odd ? x.w : x.y};
                int d[4] = {};
                mma_bytes<false>(d, a, b);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    int scale = (int)__byte_perm(scales[i][block / 4], 0, 0x4440 | block % 4);
                    sums[unit][col][i][0] += scale * d[2 * i];
                    sums[unit][col][i][1] += scale * d[2 * i + 1];
                }
            }
        }
#pragma unroll
        for (int i = 0; i < COLS * 4; i++) {
            int col = i / 4, row = i / 2 % 2, digit = i % 2, sum = sums[0][col][row][digit];
            to.sums[col][row][digit] = HAS_HIGH ? sum : sum * 16 + sums[1][col][row][digit];
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            to.scale[i] = f32_of_f16((uint16_t)of.head[i].x);
            minima(to.minimum[i], of.head[i]);
            settle(to.scale[i]), settle(to.minimum[i][0]), settle(to.minimum[i][1]);
        }
    }

    /* The minima of both blocks at once, a byte each. */
    DEVICE void minima(float (&to)[2], uint4 head) {
        int t = threadIdx.x % 4;
        uint32_t selector = t & 1 ? 0x4432 : 0x4410;
        uint32_t mid = __byte_perm(head.z, 0, selector), high = __byte_perm(head.w, 0, selector);
        uint32_t minimum = t < 2 ? mid & 0x3F3F : (high >> 4 & 0x0F0F) | (mid >> 2 & 0x3030);
        float dmin = f32_of_f16((uint16_t)(head.x >> 16));
#pragma unroll
        for (int half = 0; half < 2; half++)
            to[half] = dmin * f32_of_byte(minimum, half);
    }

    /* Factors of a column, which are equal, each with the sum of its block; that of a plain block
     * is negative. */
    template <int COLS>
    DEVICE void add(float (&sums)[2], const Products<COLS> &of, int col, const Lane<COLS> &lane,
                    float4 both) {
        bool is_plain = __float_as_uint(both.x) >> 31;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float with = is_plain ? 0 : of.scale[i];
            sums[i] = fmaf(-of.minimum[i][0], both.y, sums[i]);
            sums[i] = fmaf(-of.minimum[i][1], both.w, sums[i]);
            sums[i] = fmaf(with, product(of.sums[col][i], lane) * both.x, sums[i]);
        }
    }

    DEVICE float value(const Weights &w, int64_t block, int i) {
        return Staged<Format>::weight(w, block, i);
    }
};

template <class Format> struct DirectOf5kInRegisters : DirectOf5k<Format>, DirectOfTwoRows {
    typedef typename DirectOf5k<Format>::Words Fetched;

    DEVICE void fetch(Fetched &to, const Rows &rows, int step, int) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            to.take(i, rows.values + (rows.offset[i] + (unsigned)step * Format::SUPER_BYTES),
                    [](const auto *from) { return load_kept_line(from); });
    }
};
template <> struct Direct<Q4kHalf> : DirectOf5kInRegisters<Q4kHalf> {};
template <> struct Direct<Q5kHalf> : DirectOf5kInRegisters<Q5kHalf> {};

template <class Format, bool KEEPS_LINES>
struct Direct<InStages<Format, KEEPS_LINES>>
    : DirectOf5k<Format>, DirectStage<Format, Format::SUPER_BYTES, KEEPS_LINES> {
    typedef DirectStage<Format, Format::SUPER_BYTES, KEEPS_LINES> Stage;
    typedef typename Stage::Fetched Fetched;

    template <class Products, class Lane>
    DEVICE void multiply(Products &to, const Fetched &of, const Lane &lane, int step, int left) {
        typename DirectOf5k<Format>::Words words;
#pragma unroll
        for (int i = 0; i < 2; i++)
            words.take(i, Stage::row(of.stage, threadIdx.x % 32 / 4 + 8 * i),
                       [](const auto *from) { return *from; });
        DirectOf5k<Format>::multiply(to, words, lane, step, left);
    }
};

/*
 * q6k, which has a scale for 16 values.  Its integers are at the top of bytes: four times
 * themselves, less 32 if the top bit is flipped.
 */
template <> struct Direct<Q6kHalf> : DirectSuper, DirectStage<Q6kHalf, Q6kHalf::SUPER_BYTES> {
    enum { HAS_MINIMA = 0, LOG2_INTEGERS = 2, WEIGHT_BYTES = Q6kHalf::SUPER_BYTES };
    template <int COLS> struct Products {
        int sums[COLS][2][2]; /* [column][row][digit] */
        float scale[2];
    };

    /* Store a part of a block of a step, [block / 2][digit][four of 16][16 of four]. */
    DEVICE void store(uint8_t *step, int block, int part, const float (&x)[8], float scale) {
        DirectIntegers of(x, scale);
        uint8_t *at =
            step + block / 2 * PAIR_BYTES + part % 2 * 32 + (block % 2 * 2 + part / 2) * 4;
#pragma unroll
        for (int i = 0; i < DIGITS; i++) {
            uint2 digits = of.digit(i);
            *reinterpret_cast<uint32_t *>(at + i * DIGIT_BYTES) = digits.x;
            *reinterpret_cast<uint32_t *>(at + i * DIGIT_BYTES + 16) = digits.y;
        }
    }

    /* Words of a row that begin at a multiple of 2 bytes. */
    struct Words {
        const uint32_t *from;
        uint32_t selector;

        MEMBER Words(const uint8_t *row, unsigned skew)
            : from(reinterpret_cast<const uint32_t *>(row + (skew - skew % 4))),
              selector(skew % 4 ? 0x5432 : 0x3210) {
        }
        MEMBER uint32_t at(int byte) const {
            return __byte_perm(from[byte / 4], from[byte / 4 + 1], selector);
        }
    };

    template <int COLS>
    DEVICE void multiply(Products<COLS> &to, const Fetched &of, const Lane<COLS> &lane, int step,
                         int) {
        enum { HIGH = 128, SCALES = 192, D = 208 };
        const uint8_t *digits = lane.digits + step * (COLS * STEP_BYTES);
        int g = threadIdx.x % 32 / 4, t4 = threadIdx.x % 4 * 4;
        unsigned skew = skew_of(of, g, step);
        const uint8_t *rows[2] = {row(of.stage, g), row(of.stage, g + 8)};
        const Words heads[2] = {Words(rows[0], skew), Words(rows[1], skew)};
        const Words words[2] = {Words(rows[0] + t4, skew), Words(rows[1] + t4, skew)};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t low[2][4], high[2][2][2], scales[2][2]; /* by row; by 16; of blocks 2, 2 */
#pragma unroll
            for (int i = 0; i < 2; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    low[i][j] = words[i].at(64 * half + 16 * j);
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    uint32_t bits = words[i].at(HIGH + 32 * half + 16 * j);
                    high[i][0][j] = masked_xor(bits, 0x33333333, 0x22222222) << 2;
                    high[i][1][j] = masked_xor(bits, 0xCCCCCCCC, 0x88888888);
                    scales[i][j] = heads[i].at(SCALES + 8 * half + 4 * j);
                }
            }
#pragma unroll
            for (int block = 0; block < 4; block++) {
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    uint32_t a[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        uint32_t word = low[i][block % 2 * 2 + j], bits = high[i][block % 2][j];
                        word = block < 2 ? word << 2 : word >> 2;
                        bits = block < 2 ? bits << 4 : bits;
                        a[i] = select_bits(0x3C3C3C3C, word, bits);
                    }
#pragma unroll
                    for (int col = 0; col < COLS; col++) {
                        uint4 x = *reinterpret_cast<const uint4 *>(
                            digits + col * STEP_BYTES + (half * 2 + block / 2) * PAIR_BYTES);
                        uint32_t of_16 = block % 2 ? (j ? x.w : x.z) : (j ? x.y : x.x);
                        int d[4] = {};
                        mma_bytes_k16(d, a, of_16);
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            int scale = (int)bytes_or_signs(scales[i][block / 2], 0,
                                                            0x8880 + (block % 2 * 2 + j) * 0x1111);
                            to.sums[col][i][0] += scale * d[2 * i];
                            to.sums[col][i][1] += scale * d[2 * i + 1];
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
            to.scale[i] = f32_of_f16(*reinterpret_cast<const uint16_t *>(rows[i] + skew + D));
    }

    template <int COLS>
    DEVICE void add(float (&sums)[2], const Products<COLS> &of, int col, const Lane<COLS> &lane,
                    float4 both) {
        bool is_plain = __float_as_uint(both.x) >> 31;
#pragma unroll
        for (int i = 0; i < 2; i++)
            sums[i] =
                fmaf(is_plain ? 0 : of.scale[i], product(of.sums[col][i], lane) * both.x, sums[i]);
    }

    DEVICE float value(const Weights &w, int64_t block, int i) {
        return Staged<Q6kHalf>::weight(w, block, i);
    }
};

/* ---- blocks of bytes ---- */

/* As q4_0: lane t has blocks 2t and 2t + 1. */
template <class Format>
struct DirectOfBytes : DirectBlocks, DirectStage<Format, 8 * Format::BYTES> {
    enum { SCALES_APART = 0, LOG2_INTEGERS = 0, WEIGHT_BYTES = 8 * Format::BYTES };
    typedef DirectStage<Format, WEIGHT_BYTES> Stage;
    typedef typename Stage::Fetched Fetched;

    /* Values 4 i to 4 i + 3 of a lane's block. */
    DEVICE uint32_t integers(const uint8_t *block, int half, int i) {
        if (half * Format::BYTES % 4 == Format::SCALE_BYTES % 4)
            return reinterpret_cast<const uint32_t *>(block + Format::SCALE_BYTES)[i];
        const uint32_t *from = reinterpret_cast<const uint32_t *>(block) + i;
        return __byte_perm(from[0], from[1], 0x5432);
    }

    template <int COLS>
    DEVICE void multiply(Products<COLS> &to, const Fetched &of, const Lane<COLS> &lane, int step,
                         int) {
        const uint8_t *digits = lane.digits + step * lane.step_bytes;
        int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint8_t *up = Stage::row(of.stage, g) + (2 * t + half) * Format::BYTES;
            const uint8_t *down = Stage::row(of.stage, g + 8) + (2 * t + half) * Format::BYTES;
#pragma unroll
            for (int part = 0; part < 2; part++) {
                uint32_t a[2][4];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    a[i][0] = integers(up, half, 2 * part + i);
                    a[i][1] = integers(down, half, 2 * part + i);
                    a[i][2] = integers(up, half, 2 * part + i + 4);
                    a[i][3] = integers(down, half, 2 * part + i + 4);
                }
                multiply_words(to.d[half], a[0], a[1], digits + half * GROUP_BYTES + part * 128);
            }
            to.scale[0][half] = Staged<Format>::scale(up, nullptr);
            to.scale[1][half] = Staged<Format>::scale(down, nullptr);
        }
    }

    DEVICE float value(const Weights &w, int64_t block, int i) {
        return Staged<Format>::weight(w, block, i);
    }
};
template <> struct Direct<Q8_0> : DirectOfBytes<Q8_0> {};
template <> struct Direct<Q8f> : DirectOfBytes<Q8f> {};

/* ---- q5_0 ---- */

/* Four neighbours, less 16: the four bits above a nibble are 0 if its high bit is set. */
DEVICE uint32_t integers_of_q5_0(uint32_t low, uint32_t bits, bool is_second) {
    uint32_t unset = bytes_or_signs((~bits & 15) * 0x10204080, 0, 0xBA98);
    return select_bits(0x0F0F0F0F, is_second ? low >> 4 : low, unset);
}

/* As q4_0: lane t has blocks 2t and 2t + 1, which are 44 bytes of the stage. */
template <> struct Direct<Q5_0Block> : DirectBlocks, DirectStage<Q5_0Block, 8 * Q5_0Block::BYTES> {
    enum { SCALES_APART = 0, LOG2_INTEGERS = 0, WEIGHT_BYTES = 8 * Q5_0Block::BYTES };

    /* A lane's block of a row: scale, high bits, nibbles. */
    struct Block {
        uint32_t head, high, low[4];

        MEMBER Block(const uint8_t *row, int half) {
            const uint32_t *from =
                reinterpret_cast<const uint32_t *>(row + threadIdx.x % 4 * 44) + half * 5;
            if (half) {
                head = from[0] >> 16;
                high = from[1];
            } else {
                head = from[0];
                high = __byte_perm(from[0], from[1], 0x5432);
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
                low[i] = half ? from[2 + i] : __byte_perm(from[1 + i], from[2 + i], 0x5432);
        }

        MEMBER uint32_t integers(int i, bool is_second) const {
            return integers_of_q5_0(low[i], high >> (4 * i + 16 * is_second), is_second);
        }
    };

    template <int COLS>
    DEVICE void multiply(Products<COLS> &to, const Fetched &of, const Lane<COLS> &lane, int step,
                         int) {
        const uint8_t *digits = lane.digits + step * lane.step_bytes;
        int g = threadIdx.x % 32 / 4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const Block up(row(of.stage, g), half), down(row(of.stage, g + 8), half);
#pragma unroll
            for (int part = 0; part < 2; part++) {
                uint32_t a[2][4];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    a[i][0] = up.integers(2 * part + i, false);
                    a[i][1] = down.integers(2 * part + i, false);
                    a[i][2] = up.integers(2 * part + i, true);
                    a[i][3] = down.integers(2 * part + i, true);
                }
                multiply_words(to.d[half], a[0], a[1], digits + half * GROUP_BYTES + part * 128);
            }
            to.scale[0][half] = f32_of_f16((uint16_t)up.head);
            to.scale[1][half] = f32_of_f16((uint16_t)down.head);
        }
    }

    DEVICE float value(const Weights &w, int64_t block, int i) {
        return Staged<Q5_0Block>::weight(w, block, i);
    }
};

/* ---- block by block ---- */

/*
 * Of two columns.  As of a super-block, a product has one block, and its columns are digits: lane t
 * ends up with the digits 2t and 2t + 1.  Their sums meet the scale block by block.  That is a
 * third of the products that DirectBlocks needs, but each lane needs all scales of its rows.
 */
struct DirectSingles : DirectSuper {
    enum { HAS_MINIMA = 0, IS_HALVED = 1, LOG2_INTEGERS = 0 };

    /* As DirectSuper's; a pair of digits is one integer, and digit 6 is there twice. */
    template <int COLS> struct Lane {
        const uint8_t *digits;
        int upper;
        float unit;

        MEMBER explicit Lane(const uint8_t *all) {
            int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
            digits = all + (g < DIGITS ? g : g - 1) * DIGIT_BYTES + t * 16;
            upper = t == 1 ? 128 : t == 3 ? 1 : 256;
            unit = t == 0 ? 1 : t == 1 ? 0x1p-15f : t == 2 ? 0x1p-31f : 0x1p-39f;
        }
    };

    template <int COLS> struct Products { float sums[COLS][2]; /* [column][row] */ };

    /* A block of two rows, as fragments and scales. */
    template <int COLS>
    DEVICE void multiply_block(Products<COLS> &to, int block, const uint32_t (&a)[4],
                               const float (&scale)[2], const Lane<COLS> &lane, int step) {
        const uint8_t *digits = lane.digits + step * (COLS * STEP_BYTES) + block / 2 * PAIR_BYTES;
#pragma unroll
        for (int col = 0; col < COLS; col++) {
            uint4 x = *reinterpret_cast<const uint4 *>(digits + col * STEP_BYTES);
            const uint32_t b[2] = {block % 2 ? x.z : x.x, block % 2 ? x.w : x.y};
            int d[4] = {};
            mma_bytes<true>(d, a, b);
#pragma unroll
            for (int i = 0; i < 2; i++)
                to.sums[col][i] =
                    fmaf(scale[i], (float)(d[2 * i] * lane.upper + d[2 * i + 1]), to.sums[col][i]);
        }
    }

    template <int COLS>
    DEVICE void add(float (&sums)[2], const Products<COLS> &of, int col, const Lane<COLS> &lane,
                    float4 both) {
        bool is_plain = __float_as_uint(both.x) >> 31;
#pragma unroll
        for (int i = 0; i < 2; i++)
            sums[i] = fmaf(is_plain ? 0 : of.sums[col][i] * lane.unit, both.x, sums[i]);
    }
};

/* A lane's part of a block of a row: values from 4t and from 16 + 4t on, and the scale.  Blocks
 * have an odd number of halves, so that only odd ones have their values in whole words. */
template <class Format> struct DirectSingle;

template <> struct DirectSingle<Q8_0> {
    uint32_t first, second;
    float scale;

    MEMBER DirectSingle(const uint8_t *row, int block) {
        const uint32_t *from = reinterpret_cast<const uint32_t *>(row) + block / 2 * 17;
        const uint32_t *of_lane = from + block % 2 * 9 + threadIdx.x % 4;
        scale = f32_of_f16((uint16_t)(block % 2 ? from[8] >> 16 : from[0]));
        first = of_lane[0], second = of_lane[4];
        if (block % 2 == 0) {
            first = __byte_perm(first, of_lane[1], 0x5432);
            second = __byte_perm(second, of_lane[5], 0x5432);
        }
    }
};

template <> struct DirectSingle<Q5_0Block> {
    uint32_t first, second;
    float scale;

    MEMBER DirectSingle(const uint8_t *row, int block) {
        int t = threadIdx.x % 4;
        const uint32_t *from = reinterpret_cast<const uint32_t *>(row) + block / 2 * 11;
        const uint32_t *of_lane = from + (block % 2 ? 7 : 1) + t;
        uint32_t head = from[block % 2 * 5], high = from[block % 2 * 5 + 1], low = of_lane[0];
        scale = f32_of_f16((uint16_t)(block % 2 ? head >> 16 : head));
        if (block % 2 == 0) {
            high = __byte_perm(head, high, 0x5432);
            low = __byte_perm(low, of_lane[1], 0x5432);
        }
        first = integers_of_q5_0(low, high >> 4 * t, false);
        second = integers_of_q5_0(low, high >> (16 + 4 * t), true);
    }
};

template <class Format>
struct Direct<BlockByBlock<Format>> : DirectSingles, DirectStage<Format, 8 * Format::BYTES> {
    enum { WEIGHT_BYTES = 8 * Format::BYTES };
    typedef DirectStage<Format, WEIGHT_BYTES> Stage;
    typedef typename Stage::Fetched Fetched;

    template <int COLS>
    DEVICE void multiply(Products<COLS> &to, const Fetched &of, const Lane<COLS> &lane, int step,
                         int) {
        int g = threadIdx.x % 32 / 4;
        const uint8_t *up = Stage::row(of.stage, g), *down = Stage::row(of.stage, g + 8);
#pragma unroll
        for (int block = 0; block < DIRECT_STEP_BLOCKS; block++) {
            const DirectSingle<Format> of_up(up, block), of_down(down, block);
            const uint32_t a[4] = {of_up.first, of_down.first, of_up.second, of_down.second};
            const float scale[2] = {of_up.scale, of_down.scale};
            multiply_block(to, block, a, scale, lane, step);
        }
    }

    DEVICE float value(const Weights &w, int64_t block, int i) {
        return Staged<Format>::weight(w, block, i);
    }
};

#endif
