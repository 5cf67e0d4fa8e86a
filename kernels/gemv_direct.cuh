/*
 * Quantised weights times one column or two on the matrix units, straight from global memory
 * (sm_80 and later): no weight waits for another warp.
 *
 * A warp has 16 rows and steps of 256 values.  Lane 4 g + t fetches blocks 2t and 2t + 1 of rows g
 * and g + 8 whole, and gives them to the units as they are: in the slots that are lane t's, every
 * product has values of block 2t (or 2t + 1) and nothing else.  So the columns of the other side
 * are zeros but for the slots of one block: columns 2t and 2t + 1 are the upper and the lower terms
 * (gemv_mma.cuh) of block t of four, and what comes out is apart for each block, in the lanes that
 * have its scale.  A block's values take eight products in two chains.
 *
 * The terms are formed once, for all of k, by a block that stays for many rows; its warps share k.
 */
#ifndef CUSHIM_KERNELS_GEMV_DIRECT_CUH
#define CUSHIM_KERNELS_GEMV_DIRECT_CUH

#include <float.h>

#include "kernels/device/async_copy.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/order.cuh"
#include "kernels/device/q4k.cuh"
#include "kernels/gemv_fragments.cuh"
#include "kernels/gemv_kernels.h"

enum { DIRECT_ROWS = 16, DIRECT_STEP = 256, DIRECT_STEP_BLOCKS = 8, DIRECT_MOST_WARPS = 16 };

struct DirectShape {
    int64_t m, k, n;
};

/* A lane's place: the shape, its block of each four, its rows. */
struct DirectLane {
    int g, t;
};

/* The scale of a block and what is subtracted for each of its values. */
struct DirectScale {
    float scale, minimum;
};

/* ---- the formats: what a lane fetches of a step, and gives to the units ---- */

template <class Format> struct Direct;

/* Upper and lower rows of a product. */
DEVICE void product_of(float (&d)[4], const uint32_t (&upper)[2], const uint32_t (&lower)[2],
                       uint32_t b0, uint32_t b1) {
    const uint32_t a[4] = {upper[0], lower[0], upper[1], lower[1]}, b[2] = {b0, b1};
    mma_f16(d, a, b);
}

template <> struct Direct<Q4_0> {
    enum { HAS_MINIMA = 0, IS_STAGED = 0, STAGE_BYTES = 0 };
    struct Fetched {
        uint4 words[2][2];    /* [row][block] */
        uint16_t scale[2][2]; /* 0 where there is no such block */
    };

    DEVICE void fetch(Fetched &to, uint8_t *, const Weights &w, const int64_t (&row)[2],
                      int64_t n_blocks, int64_t block0) {
        int t = threadIdx.x % 4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int64_t block = block0 + 2 * t + half;
            bool is_there = block < n_blocks;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int64_t at = row[i] * n_blocks + (is_there ? block : 0);
                to.words[i][half] =
                    load_streamed(reinterpret_cast<const uint4 *>(w.values) + at);
                uint16_t scale = __ldg(reinterpret_cast<const uint16_t *>(w.scales) + at);
                to.scale[i][half] = is_there ? scale : 0;
            }
        }
    }

    template <int COLS>
    DEVICE void multiply(float (&d)[2][COLS][2][4], const Fetched &of, const uint8_t *,
                         const uint8_t *terms) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t up[4] = {of.words[0][half].x, of.words[0][half].y, of.words[0][half].z,
                                    of.words[0][half].w};
            const uint32_t down[4] = {of.words[1][half].x, of.words[1][half].y,
                                      of.words[1][half].z, of.words[1][half].w};
#pragma unroll
            for (int pair = 0; pair < 2; pair++) {
                Fragment a0 = fragment_of_nibbles(up[2 * pair]);
                Fragment a1 = fragment_of_nibbles(up[2 * pair + 1]);
                Fragment b0 = fragment_of_nibbles(down[2 * pair]);
                Fragment b1 = fragment_of_nibbles(down[2 * pair + 1]);
#pragma unroll
                for (int col = 0; col < COLS; col++) {
                    const uint4 *from = reinterpret_cast<const uint4 *>(
                        terms + (half * COLS + col) * 512 + pair * 128);
                    uint4 low = from[0], high = from[16];
                    product_of(d[half][col][0], a0.of[0], b0.of[0], low.x, low.y);
                    product_of(d[half][col][1], a0.of[1], b0.of[1], high.x, high.y);
                    product_of(d[half][col][0], a1.of[0], b1.of[0], low.z, low.w);
                    product_of(d[half][col][1], a1.of[1], b1.of[1], high.z, high.w);
                }
            }
        }
    }

    DEVICE void scales(DirectScale (&to)[2][2], const Fetched &of, const uint8_t *, int) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[i / 2][i % 2].scale = f32_of_f16(of.scale[i / 2][i % 2]);
    }

    DEVICE float value(const Weights &w, int64_t block, int i) {
        int byte = __ldg(w.values + block * Q4_0::BYTES + i % 16);
        return f32_of_f16(__ldg(reinterpret_cast<const uint16_t *>(w.scales) + block)) *
               (float)((i < 16 ? byte & 15 : byte >> 4) - 8);
    }
};

/* Integers of 16 bits below the exponent are subnormal: exact, and a power of two too small. */
struct Q4k {
    enum { BYTES = 18 }; /* of 32 values */
};

template <> struct Direct<Q4k> {
    enum { HAS_MINIMA = 1, IS_STAGED = 0, STAGE_BYTES = 0 };
    struct Fetched {
        uint4 head[2], words[2][2];
    };

    DEVICE void fetch(Fetched &to, uint8_t *, const Weights &w, const int64_t (&row)[2],
                      int64_t n_blocks, int64_t block0) {
        int t = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint4 *from = reinterpret_cast<const uint4 *>(
                w.values + (row[i] * n_blocks + block0) / 8 * Q4K_BYTES);
            to.head[i] = __ldg(from);
            to.words[i][0] = load_streamed(from + 1 + 2 * t);
            to.words[i][1] = load_streamed(from + 2 + 2 * t);
        }
    }

    template <int COLS>
    DEVICE void multiply(float (&d)[2][COLS][2][4], const Fetched &of, const uint8_t *,
                         const uint8_t *terms) {
#pragma unroll
        for (int pair = 0; pair < 4; pair++) {
            const uint32_t up[2] = {pair % 2 ? of.words[0][pair / 2].z : of.words[0][pair / 2].x,
                                    pair % 2 ? of.words[0][pair / 2].w : of.words[0][pair / 2].y};
            const uint32_t down[2] = {pair % 2 ? of.words[1][pair / 2].z : of.words[1][pair / 2].x,
                                      pair % 2 ? of.words[1][pair / 2].w : of.words[1][pair / 2].y};
#pragma unroll
            for (int word = 0; word < 2; word++) {
                uint32_t a = up[word], a8 = a >> 8, b = down[word], b8 = b >> 8;
                const uint32_t low_up[2] = {a & 0x000F000F, a8 & 0x000F000F};
                const uint32_t low_down[2] = {b & 0x000F000F, b8 & 0x000F000F};
                const uint32_t high_up[2] = {a & 0x00F000F0, a8 & 0x00F000F0};
                const uint32_t high_down[2] = {b & 0x00F000F0, b8 & 0x00F000F0};
#pragma unroll
                for (int col = 0; col < COLS; col++) {
                    const uint2 *from = reinterpret_cast<const uint2 *>(terms + col * 512 +
                                                                        pair * 128 + word * 8);
                    uint2 low = from[0], high = from[COLS * 512 / 8];
                    product_of(d[0][col][word], low_up, low_down, low.x, low.y);
                    product_of(d[1][col][word], high_up, high_down, high.x, high.y);
                }
            }
        }
    }

    /* Of blocks 2t and 2t + 1: q4k_scale() of both at once, a byte each. */
    DEVICE void scales(DirectScale (&to)[2][2], const Fetched &of, const uint8_t *, int) {
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
                to[i][half].scale = d * (s - 0x1p23f);
                to[i][half].minimum = dmin * (m - 0x1p23f);
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
    enum { HAS_MINIMA = 0, IS_STAGED = 1, STAGE_BYTES = DIRECT_ROWS * PITCH };
    enum { ROW_CHUNKS = DIRECT_STEP_BLOCKS * Format::BYTES / 16 };
    enum { CHUNKS = (DIRECT_ROWS * ROW_CHUNKS + 31) / 32 };
    struct Fetched {};

    DEVICE void fetch_rows(uint8_t *stage, const Weights &w, int64_t row0, int64_t m,
                           int64_t n_blocks, int64_t block0) {
        int lane = threadIdx.x % 32;
        int n = DIRECT_STEP_BLOCKS;
        if (n_blocks - block0 < n)
            n = (int)(n_blocks - block0);
        int n_chunks = n * Format::BYTES / 16, last = (int)(m - 1 - row0 < 15 ? m - 1 - row0 : 15);
        const uint8_t *from = w.values + (row0 * n_blocks + block0) * Format::BYTES;
        unsigned row_bytes = (unsigned)(n_blocks * Format::BYTES);
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            int at = i * 32 + lane, row = at / ROW_CHUNKS, chunk = at % ROW_CHUNKS;
            if (row < DIRECT_ROWS && chunk < n_chunks)
                copy_async_16(stage + row * PITCH + chunk * 16,
                              from + (row < last ? row : last) * row_bytes + chunk * 16);
        }
        commit_copies();
    }

    template <int COLS>
    DEVICE void multiply(float (&d)[2][COLS][2][4], const Fetched &, const uint8_t *stage,
                         const uint8_t *terms) {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const uint32_t *from = reinterpret_cast<const uint32_t *>(
            stage + g * PITCH + 2 * t * Format::BYTES);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t up[8], down[8];
            Direct<Format>::words(up, from, half);
            Direct<Format>::words(down, from + 8 * PITCH / 4, half);
#pragma unroll
            for (int pair = 0; pair < 4; pair++) {
                Fragment a = fragment_of_bytes(up[2 * pair], up[2 * pair + 1]);
                Fragment b = fragment_of_bytes(down[2 * pair], down[2 * pair + 1]);
#pragma unroll
                for (int col = 0; col < COLS; col++) {
                    uint4 x = *reinterpret_cast<const uint4 *>(terms + (half * COLS + col) * 512 +
                                                               pair * 128);
                    product_of(d[half][col][0], a.of[0], b.of[0], x.x, x.y);
                    product_of(d[half][col][1], a.of[1], b.of[1], x.z, x.w);
                }
            }
        }
    }

    DEVICE void scales(DirectScale (&to)[2][2], const Fetched &, const uint8_t *stage, int n) {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
        for (int i = 0; i < 2; i++) {
#pragma unroll
            for (int half = 0; half < 2; half++)
                to[i][half].scale =
                    2 * t + half < n
                        ? Direct<Format>::scale_at(stage + (g + 8 * i) * PITCH +
                                                   (2 * t + half) * Format::BYTES)
                        : 0;
        }
    }

    DEVICE float value(const Weights &w, int64_t block, int i) {
        const uint8_t *from = w.values + block * Format::BYTES;
        return Direct<Format>::scale_at(from) * (float)(int8_t)from[Format::SCALE_BYTES + i];
    }
};

template <> struct Direct<Q8_0> : DirectBytes<Q8_0, 272> {
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

template <> struct Direct<Q8f> : DirectBytes<Q8f, 304> {
    DEVICE void words(uint32_t (&to)[8], const uint32_t *from, int half) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            to[i] = from[9 * half + 1 + i];
    }
    DEVICE float scale_at(const uint8_t *block) {
        return *reinterpret_cast<const float *>(block);
    }
};

/* ---- the columns ---- */

/* Shared memory of a block: zeros, terms of a step, factors and sums, the warps' sums, stages. */
struct DirectShared {
    uint8_t *zeros, *terms, *stages;
    float *factors, *parts;
};

template <class Work, int COLS> DEVICE int64_t direct_terms_bytes(int64_t n_steps) {
    return n_steps * (int64_t)COLS * (1024 + DIRECT_STEP_BLOCKS * 8);
}

template <class Work, int COLS>
DEVICE void prepare_columns(const DirectShared &to, const float *b, const DirectShape &shape,
                            int n_steps) {
    int n = n_steps * (DIRECT_STEP / 4); /* fours of values */
    for (int i = threadIdx.x; i < COLS * 1024 / 4; i += blockDim.x)
        reinterpret_cast<uint32_t *>(to.zeros)[i] = 0;
    bool is_wide = shape.n == 1 && reinterpret_cast<uintptr_t>(b) % 16 == 0;
    for (int all = threadIdx.x; all < n * COLS; all += blockDim.x) {
        int col = COLS == 1 ? 0 : all / n, i = COLS == 1 ? all : all - col * n;
        float x[4] = {};
        if (4 * (int64_t)i < shape.k && col < shape.n) {
            if (is_wide) {
                float4 four = __ldg(reinterpret_cast<const float4 *>(b) + i);
                x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    x[j] = __ldg(b + (4 * (int64_t)i + j) * shape.n + col);
            }
        }
        uint32_t most = 0, least = 0x7FFFFFFF;
        float sum = (x[0] + x[1]) + (x[2] + x[3]);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t bits = __float_as_uint(x[j]) & 0x7FFFFFFF;
            most = max(most, bits);
            least = min(least, bits ? bits : least);
        }
#pragma unroll
        for (int flips = 4; flips; flips /= 2) {
            most = max(most, __shfl_xor_sync(0xFFFFFFFF, most, flips));
            least = min(least, __shfl_xor_sync(0xFFFFFFFF, least, flips));
            if (Work::HAS_MINIMA)
                sum += __shfl_xor_sync(0xFFFFFFFF, sum, flips);
        }
        int exponent = most >> 23, least_exponent = least >> 23, block = i / 8;
        float scale = exponent <= 15 ? 0x1p126f
                                     : __uint_as_float((uint32_t)(127 + 141 - exponent) << 23);
        /* What subnormal integers lack is a factor of the columns: no result is subnormal for it. */
        int lacks = !Work::HAS_MINIMA ? 0 : block % 2 ? 20 : 24;
        if (exponent >= 255 - lacks || (Work::HAS_MINIMA && !(fabsf(sum) <= FLT_MAX)) ||
            (exponent > 15 && (exponent - least_exponent > 26 || least_exponent == 0)))
            scale = 0;
        int four = i % 8, group = block / 8 * 2 + block % 2, t = block / 2 % 4;
        uint8_t *at = to.terms + ((int64_t)group * COLS + col) * 512 + four / 2 * 128 + t * 32 +
                      four % 2 * 8;
        uint2 high, low;
        float x0 = x[0] * scale, x1 = x[1] * scale, x2 = x[2] * scale, x3 = x[3] * scale;
        high.x = f16x2_of_f32x2(x0, x2);
        high.y = f16x2_of_f32x2(x1, x3);
        float2 rest0 = f32x2_of_f16x2(high.x), rest1 = f32x2_of_f16x2(high.y);
        low.x = f16x2_of_f32x2((x0 - rest0.x) * 2048, (x2 - rest0.y) * 2048);
        low.y = f16x2_of_f32x2((x1 - rest1.x) * 2048, (x3 - rest1.y) * 2048);
        *reinterpret_cast<uint2 *>(at) = high;
        *reinterpret_cast<uint2 *>(at + 16) = low;
        if (four == 0) {
            float factor = scale == 0 ? -1 : __uint_as_float(0x7F000000 + (lacks << 23) - __float_as_uint(scale));
            int place = (block / 8 * COLS + col) * 8 + block % 8;
            if (Work::HAS_MINIMA)
                reinterpret_cast<float2 *>(to.factors)[place] = make_float2(factor, sum);
            else
                to.factors[place] = factor;
        }
    }
}

/* ---- the rows ---- */

/* Plain products of a block that terms cannot hold, read again. */
template <class Work>
DEVICE float plain_block(const Weights &w, int64_t block, const float *b, int64_t pitch) {
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < BLOCK_VALUES; i++)
        sum = fmaf(Work::value(w, block, i), __ldg(b + i * pitch), sum);
    return sum;
}

template <class Format, int COLS, int DEPTH>
DEVICE void run_direct(const DirectShape &shape, const Weights &w, const float *b, float *c,
                       uint8_t *shared, int prefetch, int ahead) {
    typedef Direct<Format> Work;
    enum { PER_BLOCK = Work::HAS_MINIMA ? 2 : 1 };
    int n_warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int g = lane / 4, t = lane % 4;
    int64_t n_blocks = shape.k / BLOCK_VALUES;
    int n_steps = (int)((n_blocks + DIRECT_STEP_BLOCKS - 1) / DIRECT_STEP_BLOCKS);
    int64_t n_tiles = (shape.m + DIRECT_ROWS - 1) / DIRECT_ROWS;

    DirectShared in;
    in.zeros = shared;
    in.terms = in.zeros + COLS * 1024;
    in.factors = reinterpret_cast<float *>(in.terms + (int64_t)n_steps * COLS * 1024);
    in.parts = in.factors + n_steps * COLS * DIRECT_STEP_BLOCKS * PER_BLOCK;
    in.stages = reinterpret_cast<uint8_t *>(in.parts + 2 * n_warps * DIRECT_ROWS * COLS) +
                warp * (DEPTH * Work::STAGE_BYTES);

    int64_t tile = blockIdx.x, fetch_tile = tile;
    int step = warp, fetch_step = warp;
    /* The rows of a tile lie one behind the other. */
    auto prefetch_tile = [&](int64_t which) {
        int64_t row0 = which * DIRECT_ROWS, row_bytes = n_blocks * Format::BYTES;
        int rows = shape.m - row0 < DIRECT_ROWS ? (int)(shape.m - row0) : (int)DIRECT_ROWS;
        if (threadIdx.x == 0 && rows > 0)
            prefetch_to_l2(w.values + row0 * row_bytes, (unsigned)(rows * row_bytes));
    };
    for (int i = 0; i < prefetch; i++)
        prefetch_tile(tile + i * gridDim.x);
    wait_for_earlier();
    let_next_start();

    typename Work::Fetched fetched[DEPTH];
    auto fetch = [&](int slot) {
        if (fetch_tile < n_tiles) {
            int64_t row0 = fetch_tile * DIRECT_ROWS;
            if constexpr (Work::IS_STAGED) {
                Work::fetch_rows(in.stages + slot * Work::STAGE_BYTES, w, row0, shape.m, n_blocks,
                                 (int64_t)fetch_step * DIRECT_STEP_BLOCKS);
            } else {
                const int64_t rows[2] = {row0 + g < shape.m ? row0 + g : shape.m - 1,
                                         row0 + g + 8 < shape.m ? row0 + g + 8 : shape.m - 1};
                Work::fetch(fetched[slot], nullptr, w, rows, n_blocks,
                            (int64_t)fetch_step * DIRECT_STEP_BLOCKS);
            }
            fetch_step += n_warps;
            if (fetch_step >= n_steps) {
                fetch_step = warp;
                fetch_tile += gridDim.x;
            }
        } else if (Work::IS_STAGED) {
            commit_copies();
        }
    };
#pragma unroll
    for (int slot = 0; slot < DEPTH; slot++)
        fetch(slot);
    prepare_columns<Work, COLS>(in, b, shape, n_steps);
    __syncthreads();

    bool is_own = g / 2 == t;
    const uint8_t *terms0 = is_own ? in.terms + g * 16 : in.zeros;
    unsigned terms_step = is_own ? COLS * 1024 : 0;
    float sums[2][COLS] = {};
    int turn = 0;
    while (tile < n_tiles) {
#pragma unroll
        for (int slot = 0; slot < DEPTH; slot++) {
            if (tile >= n_tiles)
                break;
            const uint8_t *stage = in.stages + slot * Work::STAGE_BYTES;
            if (Work::IS_STAGED) {
                wait_copies<DEPTH - 1>();
                __syncwarp();
            }
            float d[2][COLS][2][4] = {};
            DirectScale scale[2][2];
            Work::template multiply<COLS>(d, fetched[slot], stage, terms0 + step * terms_step);
            Work::scales(scale, fetched[slot], stage, (int)(n_blocks - step * DIRECT_STEP_BLOCKS));
            if (Work::IS_STAGED)
                __syncwarp();
            fetch(slot);
#pragma unroll
            for (int col = 0; col < COLS; col++) {
                const float *from =
                    in.factors + (step * COLS + col) * DIRECT_STEP_BLOCKS * PER_BLOCK +
                    2 * t * PER_BLOCK;
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    float factor = from[half * PER_BLOCK];
                    int64_t block = (int64_t)step * DIRECT_STEP_BLOCKS + 2 * t + half;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        if (factor < 0) {
                            int64_t row = tile * DIRECT_ROWS + g + 8 * i;
                            sums[i][col] += plain_block<Work>(
                                w, (row < shape.m ? row : shape.m - 1) * n_blocks + block,
                                b + block * BLOCK_VALUES * shape.n +
                                    (col < shape.n ? col : shape.n - 1),
                                shape.n);
                            continue;
                        }
                        float upper = d[half][col][0][2 * i] + d[half][col][1][2 * i];
                        float lower = d[half][col][0][2 * i + 1] + d[half][col][1][2 * i + 1];
                        float product = fmaf(lower, 0x1p-11f, upper) * factor;
                        if (Work::HAS_MINIMA)
                            sums[i][col] -= scale[i][half].minimum * from[half * PER_BLOCK + 1];
                        sums[i][col] = fmaf(scale[i][half].scale, product, sums[i][col]);
                    }
                }
            }
            step += n_warps;
            if (step >= n_steps) {
                float *parts = in.parts + turn % 2 * (n_warps * DIRECT_ROWS * COLS);
#pragma unroll
                for (int i = 0; i < 2; i++) {
#pragma unroll
                    for (int col = 0; col < COLS; col++) {
                        float sum = sums[i][col];
                        sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
                        sum += __shfl_xor_sync(0xFFFFFFFF, sum, 2);
                        if (t == 0)
                            parts[(warp * DIRECT_ROWS + g + 8 * i) * COLS + col] = sum;
                        sums[i][col] = 0;
                    }
                }
                __syncthreads();
                if (warp == turn % n_warps) {
                    for (int at = lane; at < DIRECT_ROWS * COLS; at += 32) {
                        int64_t row = tile * DIRECT_ROWS + at / COLS;
                        float sum = parts[at];
                        for (int other = 1; other < n_warps; other++)
                            sum += parts[other * DIRECT_ROWS * COLS + at];
                        if (row < shape.m && at % COLS < shape.n)
                            c[row * shape.n + at % COLS] = sum;
                    }
                }
                turn++;
                step = warp;
                tile += gridDim.x;
                if (ahead)
                    prefetch_tile(tile + (ahead - 1) * gridDim.x);
            }
        }
    }
}

#endif
