/*
 * What a lane of gemv_direct.cuh fetches of a step of quantised weights, and gives to the matrix
 * units: each format's words as they lie in memory, and its scales.
 */
#ifndef CUSHIM_KERNELS_GEMV_DIRECT_FORMATS_CUH
#define CUSHIM_KERNELS_GEMV_DIRECT_FORMATS_CUH

#include "kernels/device/arch/async_copy.cuh"
#include "kernels/device/arch/mma.cuh"
#include "kernels/device/math/q4k.cuh"
#include "kernels/gemv/gemv_formats.cuh"
#include "kernels/gemv/gemv_kernels.h"

enum { DIRECT_ROWS = 16, DIRECT_STEP = 256, DIRECT_STEP_BLOCKS = 8 };
enum { DIRECT_SETS = 3, DIRECT_GROUP_BYTES = 768, DIRECT_STEP_BYTES = 2 * DIRECT_GROUP_BYTES };

struct DirectShape {
    int64_t m, k, n;
    int most_tiles; /* of a block */
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

/* Sums of two digits of two rows, in the lanes of their block. */
typedef int DirectSums[DIRECT_SETS][4];

/* A step's products of four words of two rows: two words each. */
template <bool IS_SIGNED, int COLS>
DEVICE void direct_products(DirectSums (&d)[COLS], const uint32_t (&first)[4],
                            const uint32_t (&second)[4], const uint8_t *digits) {
#pragma unroll
    for (int col = 0; col < COLS; col++) {
#pragma unroll
        for (int set = 0; set < DIRECT_SETS; set++) {
            uint4 x =
                *reinterpret_cast<const uint4 *>(digits + col * DIRECT_STEP_BYTES + set * 256);
            const uint32_t b[2][2] = {{x.x, x.y}, {x.z, x.w}};
            mma_bytes<IS_SIGNED>(d[col][set], first, b[0]);
            mma_bytes<IS_SIGNED>(d[col][set], second, b[1]);
        }
    }
}

template <class Format> struct Direct;

template <> struct Direct<Q4_0> {
    enum { IS_STAGED = 0, STAGE_BYTES = 0, HAS_MINIMA = 0, IS_HALVED = 1 };
    enum { IS_EARLY = 1 };                    /* what is prefetched pays */
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

    template <int COLS>
    DEVICE void multiply(DirectSums (&first)[COLS], DirectSums (&second)[COLS], const Fetched &of,
                         const uint8_t *, const uint8_t *digits) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint4 up = of.words[0][half], down = of.words[1][half];
            const uint32_t a[4][4] = {{low(up.x), low(down.x), high(up.x), high(down.x)},
                                      {low(up.y), low(down.y), high(up.y), high(down.y)},
                                      {low(up.z), low(down.z), high(up.z), high(down.z)},
                                      {low(up.w), low(down.w), high(up.w), high(down.w)}};
            const uint8_t *from = digits + half * DIRECT_GROUP_BYTES;
            direct_products<true>(half ? second : first, a[0], a[1], from);
            direct_products<true>(half ? second : first, a[2], a[3], from + 128);
        }
    }

    DEVICE void scales(DirectScales &to, const Fetched &of, const uint8_t *, int left) {
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

/* Super-blocks, of which a lane has a group: two blocks of 32, low and high nibbles. */
struct Q4k {
    enum { BYTES = Q4K_BYTES / 8 };
};

template <> struct Direct<Q4k> {
    enum { IS_STAGED = 0, STAGE_BYTES = 0, HAS_MINIMA = 1, IS_HALVED = 0 };
    enum { IS_EARLY = 0, LOG2_FIRST = 0, LOG2_SECOND = 4 };
    struct Fetched {
        uint4 head[2], words[2][2];
    };

    DEVICE void fetch(Fetched &to, const DirectRows &rows, int step, int) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint4 *from = reinterpret_cast<const uint4 *>(
                rows.values + (rows.offset[i] + (unsigned)step * Q4K_BYTES));
            to.head[i] = __ldg(from);
            to.words[i][0] = __ldg(from + 1 + 2 * (threadIdx.x % 4)); /* kept in L1, too */
            to.words[i][1] = __ldg(from + 2 + 2 * (threadIdx.x % 4));
        }
    }

    template <int COLS>
    DEVICE void multiply(DirectSums (&first)[COLS], DirectSums (&second)[COLS], const Fetched &of,
                         const uint8_t *, const uint8_t *digits) {
        const uint32_t low = 0x0F0F0F0F, high = 0xF0F0F0F0;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint4 up = of.words[0][half], down = of.words[1][half];
            const uint8_t *from = digits + half * 128;
            const uint32_t a[2][4] = {{up.x & low, down.x & low, up.y & low, down.y & low},
                                      {up.z & low, down.z & low, up.w & low, down.w & low}};
            direct_products<false>(first, a[0], a[1], from);
            const uint32_t b[2][4] = {{up.x & high, down.x & high, up.y & high, down.y & high},
                                      {up.z & high, down.z & high, up.w & high, down.w & high}};
            direct_products<false>(second, b[0], b[1], from + DIRECT_GROUP_BYTES);
        }
    }

    /* q4k_scale() of both blocks at once, a byte each. */
    DEVICE void scales(DirectScales &to, const Fetched &of, const uint8_t *, int) {
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

/* Blocks of bytes: a warp copies its rows' bytes in order to shared memory, and meets nobody. */
template <class Format, int PITCH> struct DirectBytes {
    enum { IS_STAGED = 1, STAGE_BYTES = DIRECT_ROWS * PITCH, HAS_MINIMA = 0, IS_HALVED = 0 };
    enum { IS_EARLY = 0, LOG2_FIRST = 0, LOG2_SECOND = 0 };
    enum { ROW_CHUNKS = DIRECT_STEP_BLOCKS * Format::BYTES / 16 };
    enum { CHUNKS = (DIRECT_ROWS * ROW_CHUNKS + 31) / 32 };
    struct Fetched {};

    /* from: the first row of the tile; beyond the last row is the last again */
    DEVICE void copy(uint8_t *stage, const uint8_t *from, unsigned row_bytes, int last, int left) {
        int lane = threadIdx.x % 32, n_chunks = left * Format::BYTES / 16;
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int at = i * 32 + lane, row = at / ROW_CHUNKS, chunk = at % ROW_CHUNKS;
            if (row < DIRECT_ROWS && chunk < n_chunks)
                copy_async_16(stage + row * PITCH + chunk * 16,
                              from + (unsigned)(row < last ? row : last) * row_bytes + chunk * 16);
        }
    }

    template <int COLS>
    DEVICE void multiply(DirectSums (&first)[COLS], DirectSums (&second)[COLS], const Fetched &,
                         const uint8_t *stage, const uint8_t *digits) {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const uint32_t *from =
            reinterpret_cast<const uint32_t *>(stage + g * PITCH + 2 * t * Format::BYTES);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t up[8], down[8];
            Direct<Format>::words(up, from, half);
            Direct<Format>::words(down, from + 8 * PITCH / 4, half);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint32_t a[2][4] = {
                    {up[4 * i], down[4 * i], up[4 * i + 1], down[4 * i + 1]},
                    {up[4 * i + 2], down[4 * i + 2], up[4 * i + 3], down[4 * i + 3]}};
                direct_products<true>(half ? second : first, a[0], a[1],
                                      digits + half * DIRECT_GROUP_BYTES + i * 128);
            }
        }
    }

    DEVICE void scales(DirectScales &to, const Fetched &, const uint8_t *stage, int left) {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
        for (int i = 0; i < 4; i++)
            to.scale[i / 2][i % 2] =
                2 * t + i % 2 < left ? Direct<Format>::scale_at(stage + (g + i / 2 * 8) * PITCH +
                                                                (2 * t + i % 2) * Format::BYTES)
                                     : 0;
    }

    DEVICE float value(const Weights &w, int64_t block, int i) {
        const uint8_t *from = w.values + block * Format::BYTES;
        return Direct<Format>::scale_at(from) * (float)(int8_t)from[Format::SCALE_BYTES + i];
    }
};

template <> struct Direct<Q8_0> : DirectBytes<Q8_0, GEMV_DIRECT_PITCH_Q8_0> {
    /* Two blocks are 17 words: the first's values start in the middle of one, the second's not. */
    DEVICE void words(uint32_t (&to)[8], const uint32_t *from, int half) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            to[i] = half ? from[9 + i] : __byte_perm(from[i], from[i + 1], 0x5432);
    }
    DEVICE float scale_at(const uint8_t *block) {
        return f32_of_f16(*reinterpret_cast<const uint16_t *>(block));
    }
};

template <> struct Direct<Q8f> : DirectBytes<Q8f, GEMV_DIRECT_PITCH_Q8F> {
    DEVICE void words(uint32_t (&to)[8], const uint32_t *from, int half) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            to[i] = from[9 * half + 1 + i];
    }
    DEVICE float scale_at(const uint8_t *block) {
        return *reinterpret_cast<const float *>(block);
    }
};

#endif
