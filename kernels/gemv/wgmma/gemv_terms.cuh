/*
 * Columns as terms of products on the matrix units.
 *
 * A unit is 32 columns of a block of 32 values, or 8 columns of a group of four blocks.  They share
 * a power of two that brings the largest to [2^14, 2^15), and become two binary16 terms, the lower
 * one scaled by 2^11: 22 bits of each value.  A column is odd if its values are not finite, very
 * large or very small, or more than 2^26 below the largest of the unit.  Its terms are 0, and it
 * takes plain fp32 products.
 *
 * For a tile of columns a block's terms are four tiles of products, high ones and low ones of each
 * half of the block, as in wgmma.cuh.  Of each 32 columns place 8 i + j has column 4 j + i: a lane
 * that makes them has four neighbours, and one that multiplies has eight.  Behind those of a group
 * is a tile of the sums of its blocks.
 */
#ifndef CUSHIM_KERNELS_GEMV_TERMS_CUH
#define CUSHIM_KERNELS_GEMV_TERMS_CUH

#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/math/maximum.cuh"
#include "kernels/gemv/gemv_groups.cuh"
#include "kernels/gemv/gemv_kernels.h"

/* The larger of a magnitude and that of a value, or NaN. */
DEVICE float max_magnitude(float most, float value) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 800
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(most) : "f"(fabsf(value)));
    return most;
#else
    return fabsf(value) <= most ? most : fabsf(value);
#endif
}

/*
 * A lane's values of a unit: of four columns those of an octet, which are eight slots of a product.
 * Octets 0 and 1 are the even and the odd values of the first half of a block, 2 and 3 those of
 * the second.
 */
template <int GROUP> struct TermUnit {
    enum { COLS = 32 / GROUP, LANES = COLS / 4 }; /* side by side, each with four columns */
    enum { ALL_LANES = (1 << LANES) - 1 };
    float of[8][4];

    /* Of the lane: its block, and its octet there. */
    MEMBER static int block_of() {
        return threadIdx.x % 32 / LANES / 4;
    }
    MEMBER static int octet_of() {
        return threadIdx.x / LANES % 4;
    }
    /* In a tile, the place of the first column, and of the one of a bit of the odd ones. */
    MEMBER static int place_of(int unit) {
        return unit / GROUP * 32 + unit % GROUP * LANES;
    }
    MEMBER static int place_of_bit(int unit, int bit) {
        return place_of(unit) + bit / LANES * 8 + bit % LANES;
    }

    /* Load those of blocks, from b's row 32 block on, and of the unit's columns, from `col` on;
     * columns beyond the last are 0.  IS_WIDE: by 16 bytes. */
    template <bool IS_WIDE>
    MEMBER void fetch(const float *b, int64_t block, int64_t col, int64_t n) {
        int octet = octet_of();
        col += threadIdx.x % LANES * 4;
        int n_more = (int)(n - col < 4 ? n - col : 4);
        const float *from = b +
                            ((block + block_of()) * BLOCK_VALUES + octet / 2 * 16 + octet % 2) * n +
                            (n_more > 0 ? col : 0);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float4 four = {};
            if (IS_WIDE) {
                if (n_more > 0)
                    four = __ldg(reinterpret_cast<const float4 *>(from));
            } else {
                four.x = n_more > 0 ? __ldg(from) : 0;
                four.y = n_more > 1 ? __ldg(from + 1) : 0;
                four.z = n_more > 2 ? __ldg(from + 2) : 0;
                four.w = n_more > 3 ? __ldg(from + 3) : 0;
            }
            of[i][0] = four.x;
            of[i][1] = four.y;
            of[i][2] = four.z;
            of[i][3] = four.w;
            from += 2 * n;
        }
    }

    /* For the largest of a column; a scale times a power of two in this range is a normal float. */
    enum { LEAST_EXPONENT = 127 - 70, MOST_EXPONENT = 127 + 90, APART = 26 };

    /* Set columns that may have no terms to 0.  Returns a bit for each of them, and the exponent
     * of the others. */
    MEMBER uint32_t take_odd(int &top) {
        uint32_t most[4] = {}, least[4], odd = 0;
        bool is_odd[4];
        unsigned of_others = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            least[j] = 0xFFFFFFFF; /* of bits - 1, so that 0 is beyond all */
#pragma unroll
            for (int i = 0; i < 8; i++) {
                uint32_t bits = __float_as_uint(of[i][j]) & 0x7FFFFFFF;
                most[j] = max(most[j], bits);
                least[j] = min(least[j], bits - 1);
            }
#pragma unroll
            for (int flips = LANES; flips < 32; flips *= 2) { /* the column's octets */
                most[j] = max(most[j], __shfl_xor_sync(0xFFFFFFFF, most[j], flips));
                least[j] = min(least[j], __shfl_xor_sync(0xFFFFFFFF, least[j], flips));
            }
            unsigned exponent = most[j] >> 23;
            is_odd[j] = most[j] && (exponent < LEAST_EXPONENT || exponent > MOST_EXPONENT);
            of_others = max(of_others, is_odd[j] ? 0u : exponent);
        }
        top = (int)max_of_warp(of_others);
        top = top ? top : 127;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            is_odd[j] |= most[j] && (int)((least[j] + 1) >> 23) < top - APART;
            odd |= (__ballot_sync(0xFFFFFFFF, is_odd[j]) & ALL_LANES) << LANES * j;
#pragma unroll
            for (int i = 0; i < 8; i++)
                of[i][j] = is_odd[j] ? 0 : of[i][j];
        }
        return odd;
    }

    /* The sums of the lane's columns, scaled too, to the tile behind those of the group. */
    MEMBER void store_totals(uint8_t *tiles, int unit, int tile_bytes, float scale) const {
        int block = block_of();
        uint8_t *to = tiles + GROUP * 4 * tile_bytes + block / 2 * (tile_bytes / 2) +
                      (place_of(unit) + threadIdx.x % LANES) * 16 + block % 2 * 8;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float total = 0;
#pragma unroll
            for (int i = 0; i < 8; i++)
                total += of[i][j];
            total += __shfl_xor_sync(0xFFFFFFFF, total, LANES);
            total += __shfl_xor_sync(0xFFFFFFFF, total, 2 * LANES);
            if (octet_of() == 0)
                *reinterpret_cast<uint2 *>(to + 128 * j) = slots_of_sum(total * scale);
        }
    }

    /* Split to a unit's place in tiles, of this many bytes each; four of a block come before those
     * of the next one.  Returns the factor for its terms, and a bit for each odd column. */
    MEMBER uint2 split(uint8_t *tiles, int unit, int tile_bytes) {
        int octet = octet_of();
        float largest[4] = {};
        uint32_t of_least[4]; /* bits * 2 - 1, so that 0 is beyond all */
#pragma unroll
        for (int j = 0; j < 4; j++) {
            of_least[j] = 0xFFFFFFFF;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                largest[j] = max_magnitude(largest[j], of[i][j]);
                of_least[j] = min(of_least[j], __float_as_uint(of[i][j]) * 2 - 1);
            }
        }
        float most = max_magnitude(max_magnitude(largest[0], largest[1]),
                                   max_magnitude(largest[2], largest[3]));
        uint32_t bits = max_of_warp(__float_as_uint(most));
        uint32_t least =
            min_of_warp(min(min(of_least[0], of_least[1]), min(of_least[2], of_least[3])));
        int top = bits ? (int)(bits >> 23) : 127;
        uint32_t odd = 0;
        if (bits &&
            (top < LEAST_EXPONENT || top > MOST_EXPONENT || (int)((least + 1) >> 24) < top - APART))
            odd = take_odd(top);
        float scale = __uint_as_float((uint32_t)(127 + 141 - top) << 23), scale_low = scale * 2048;
        uint4 *to =
            reinterpret_cast<uint4 *>(tiles + (block_of() * 4 + octet / 2 * 2) * tile_bytes +
                                      octet % 2 * (tile_bytes / 2)) +
            place_of(unit) + threadIdx.x % LANES;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t high[4], low[4];
#pragma unroll
            for (int t = 0; t < 4; t++) {
                float x0 = of[2 * t][j], x1 = of[2 * t + 1][j];
                high[t] = f16x2_of_f32x2(x0 * scale, x1 * scale);
                float2 rest = f32x2_of_f16x2(high[t]);
                low[t] = f16x2_of_f32x2(fmaf(rest.x, -2048, x0 * scale_low),
                                        fmaf(rest.y, -2048, x1 * scale_low));
            }
            to[8 * j] = make_uint4(high[0], high[1], high[2], high[3]);
            to[8 * j + tile_bytes / 16] = make_uint4(low[0], low[1], low[2], low[3]);
        }
        if constexpr (GROUP > 1)
            store_totals(tiles, unit, tile_bytes, scale);
        return make_uint2((uint32_t)(top - 14) << 23, odd);
    }
};

/* The bytes of terms of blocks of a tile; besides there is a factor for each unit. */
template <int GROUP> MEMBER int64_t term_bytes_of(int64_t n_blocks, int cols) {
    return n_blocks * cols * BLOCK_VALUES * 4 + (GROUP > 1 ? n_blocks / GROUP * cols * 32 : 0);
}

/* The place of a tile's terms in scratch; behind those of all tiles are the factors. */
template <int GROUP>
MEMBER uint8_t *terms_of_tile(uint8_t *scratch, int64_t tile, int64_t n_blocks, int cols) {
    return scratch + tile * term_bytes_of<GROUP>(n_blocks, cols);
}
template <int GROUP>
MEMBER uint2 *factors_of_tile(uint8_t *scratch, int64_t tile, int64_t n_tiles, int64_t n_blocks,
                              int cols) {
    return reinterpret_cast<uint2 *>(terms_of_tile<GROUP>(scratch, n_tiles, n_blocks, cols)) +
           tile * GEMV_TERM_FACTORS(n_blocks, cols);
}

/* For all columns, in tiles of `cols`; one warp per unit. */
template <int GROUP>
DEVICE void run_terms(const float *b, int64_t k, int64_t n, int cols, bool is_wide,
                      uint8_t *scratch) {
    typedef TermUnit<GROUP> Unit;
    int64_t n_blocks = k / BLOCK_VALUES, n_tiles = (n - 1) / cols + 1;
    int units = cols / Unit::COLS; /* side by side in a tile */
    int64_t i = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32,
            group = i / (n_tiles * units);
    int64_t tile = i % (n_tiles * units) / units;
    int at = (int)(i % units);
    wait_for_earlier();
    let_next_start();
    if (group * GROUP >= n_blocks)
        return;
    Unit unit;
    int64_t col = tile * cols + at * Unit::COLS;
    if (is_wide)
        unit.template fetch<true>(b, group * GROUP, col, n);
    else
        unit.template fetch<false>(b, group * GROUP, col, n);
    uint8_t *of_group = terms_of_tile<GROUP>(scratch, tile, n_blocks, cols) +
                        term_bytes_of<GROUP>(group * GROUP, cols);
    uint2 factor = unit.split(of_group, at, cols * 32);
    uint2 *factors = factors_of_tile<GROUP>(scratch, tile, n_tiles, n_blocks, cols);
    int64_t place = group * units + at, n_factors = n_blocks / GROUP * units;
    if (threadIdx.x % 32 == 0) {
        factors[place] = factor;
        if (place + 1 == n_factors && n_factors % 2) /* which is copied too, and not used */
            factors[place + 1] = factor;
    }
}

#endif
