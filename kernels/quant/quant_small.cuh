/*
 * q5_0, q5k, q6k: products, and dequantising; q4k: products with many columns.
 *
 * A lane has eight neighbouring values of each 256, so a warp reads what belongs to 256 values at
 * a time.  A product with a column has a warp per row; with more it goes through tiles of fp32.
 */
#ifndef CUSHIM_KERNELS_QUANT_SMALL_CUH
#define CUSHIM_KERNELS_QUANT_SMALL_CUH

#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/math/half.cuh"
#include "kernels/device/product_tile.cuh"
#include "kernels/shared/quant_parts.h"

namespace {

enum { AT_ONCE = 8 };

/* AT_ONCE values: scale * q[i] - minimum. */
struct Values {
    float q[AT_ONCE], scale, minimum;
};

DEVICE float half_at(const uint8_t *from) {
    return f32_of_f16((uint16_t)(from[0] | from[1] << 8));
}

DEVICE void read_nibbles(const uint8_t *from, bool is_high, int (&q)[AT_ONCE]) {
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        q[i] = is_high ? from[i] >> 4 : from[i] & 15;
}

/* The values from `at` in a block on. */
struct Q5_0 {
    enum { BLOCK = 32 };
    DEVICE Values read(const struct quant_parts &parts, int64_t block, int at) {
        const uint8_t *high = parts.high + block * parts.high_step;
        int q[AT_ONCE];
        Values values = {{}, half_at(parts.head + block * parts.head_step), 0};
        read_nibbles(parts.low + block * parts.low_step + at % 16, at >= 16, q);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            values.q[i] = (float)((q[i] | (high[at / 8] >> i & 1) << 4) - 16);
        return values;
    }
};

template <bool HAS_HIGH> struct Q4KOr5K {
    enum { BLOCK = 256 };
    DEVICE Values read(const struct quant_parts &parts, int64_t block, int at) {
        const uint8_t *head = parts.head + block * parts.head_step, *s = head + 4;
        const uint8_t *high = parts.high + block * parts.high_step + at % 32; /* of q5k */
        int q[AT_ONCE], j = at / 32;
        int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        int minimum = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
        Values values = {{},
                         __fmul_rn(half_at(head), (float)scale),
                         __fmul_rn(half_at(head + 2), (float)minimum)};
        read_nibbles(parts.low + block * parts.low_step + 32 * (at / 64) + at % 32, j & 1, q);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            values.q[i] = (float)(q[i] | (HAS_HIGH ? (high[i] >> j & 1) << 4 : 0));
        return values;
    }
};
typedef Q4KOr5K<false> Q4K;
typedef Q4KOr5K<true> Q5K;

struct Q6K {
    enum { BLOCK = 256 };
    DEVICE Values read(const struct quant_parts &parts, int64_t block, int at) {
        const uint8_t *head = parts.head + block * parts.head_step;
        int half = at / 128, quarter = at % 128 / 32, l = at % 32, q[AT_ONCE];
        const uint8_t *high = parts.high + block * parts.high_step + 32 * half + l;
        float scale = (float)(int8_t)head[8 * half + 2 * quarter + l / 16];
        Values values = {{}, __fmul_rn(half_at(head + 16), scale), 0};
        read_nibbles(parts.low + block * parts.low_step + 64 * half + 32 * (quarter & 1) + l,
                     quarter >= 2, q);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            values.q[i] = (float)((q[i] | (high[i] >> 2 * quarter & 3) << 4) - 32);
        return values;
    }
};

/* A block of the tile: 32 values with their scales, which are those of 16 or 32 of them. */
template <class Format> struct Dequantised {
    struct Block {
        float values[TILE_DEPTH], scale;
    };
    template <bool IS_WIDE> DEVICE Block load(const struct quant_parts &parts, int64_t i) {
        int64_t first = i * TILE_DEPTH;
        Block block;
        block.scale = 1;
#pragma unroll
        for (int at = 0; at < TILE_DEPTH; at += AT_ONCE) {
            Values values =
                Format::read(parts, first / Format::BLOCK, (int)(first % Format::BLOCK) + at);
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                block.values[at + j] = fmaf(values.scale, values.q[j], -values.minimum);
        }
        return block;
    }
    DEVICE float4 four(const Block &block, int i) {
        return make_float4(block.values[4 * i], block.values[4 * i + 1], block.values[4 * i + 2],
                           block.values[4 * i + 3]);
    }
};

/* y[m] = w[m][k] * x[k]. */
template <class Format>
DEVICE void gemv(const struct quant_parts &parts, const float *x, float *y, int64_t m, int64_t k) {
    int64_t row = thread_of_grid() / WARP_LANES, first = row * (k / Format::BLOCK);
    int lane = (int)threadIdx.x % WARP_LANES;
    double total = 0;
    wait_for_earlier();
    let_next_start();
    if (row >= m)
        return;
    for (int64_t at = lane * AT_ONCE; at < k; at += WARP_LANES * AT_ONCE) {
        Values values = Format::read(parts, first + at / Format::BLOCK, (int)(at % Format::BLOCK));
        float dot = 0, sum = 0;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            dot = fmaf(values.q[i], x[at + i], dot);
            sum += x[at + i];
        }
        total += fmaf(values.scale, dot, -values.minimum * sum);
    }
    float result = sum_of_lanes<WARP_LANES>((float)total);
    if (lane == 0)
        y[row] = result;
}

/* The same for values of two bits, less 1; 3 is 0.  A lane has a byte of each 32. */
DEVICE void gemv_ternary(const uint8_t *w, const float *x, float *y, int64_t m, int64_t k) {
    int64_t row = thread_of_grid() / WARP_LANES, n_bytes = (k + 3) / 4;
    int lane = (int)threadIdx.x % WARP_LANES;
    double total = 0;
    wait_for_earlier();
    let_next_start();
    if (row >= m)
        return;
    for (int64_t at = lane; at < n_bytes; at += WARP_LANES) {
        int byte = w[row * n_bytes + at], n = (int)(k - 4 * at < 4 ? k - 4 * at : 4);
        float sum = 0;
        for (int i = 0; i < n; i++) {
            int q = byte >> 2 * i & 3;
            if (q % 2 == 0)
                sum += q ? x[4 * at + i] : -x[4 * at + i];
        }
        total += sum;
    }
    float result = sum_of_lanes<WARP_LANES>((float)total);
    if (lane == 0)
        y[row] = result;
}

/*
 * The same for codes of e2m1 and halves.  The bits of a code are those of a half times 2^-14, so
 * the scale makes up for it.
 */
DEVICE void gemv_e2m1(const uint8_t *w, const uint16_t *scales, const uint16_t *x, float *y,
                      int64_t m, int64_t k) {
    int64_t row = thread_of_grid() / WARP_LANES;
    int lane = (int)threadIdx.x % WARP_LANES;
    double total = 0;
    wait_for_earlier();
    let_next_start();
    if (row >= m)
        return;
    for (int64_t at = lane * AT_ONCE; at < k; at += WARP_LANES * AT_ONCE) {
        int64_t first = row * k + at;
        float dot = 0;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int code = w[(first + i) / 2] >> 4 * (i % 2);
            float value = f32_of_f16((uint16_t)((code & 7) << 9 | (code & 8) << 12));
            dot = fmaf(value, f32_of_f16(x[at + i]), dot);
        }
        total += f32_of_f16(scales[first / 16]) * 0x1p14f * dot;
    }
    float result = sum_of_lanes<WARP_LANES>((float)total);
    if (lane == 0)
        y[row] = result;
}

template <class Format> DEVICE void dequant(const struct quant_parts &parts, float *y, int64_t n) {
    int64_t at = thread_of_grid() * AT_ONCE;
    wait_for_earlier();
    let_next_start();
    if (at >= n)
        return;
    Values values = Format::read(parts, at / Format::BLOCK, (int)(at % Format::BLOCK));
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        y[at + i] = __fsub_rn(__fmul_rn(values.scale, values.q[i]), values.minimum);
}

} // namespace

#define TILED(name, Format)                                                                        \
    KERNEL_OF(256, 2, quant_gemm_##name##_f32)                                                     \
    (const struct quant_parts parts, const float *b, float *c, int64_t m, int64_t k, int64_t n) {  \
        run_tile<Dequantised<Format>>(parts, b, c, m, k, n);                                       \
    }

#define FORMAT(name, Format)                                                                       \
    KERNEL(quant_gemv_##name##_f32)                                                                \
    (const struct quant_parts parts, const float *x, float *y, int64_t m, int64_t k) {             \
        gemv<Format>(parts, x, y, m, k);                                                           \
    }                                                                                              \
    KERNEL(quant_dequant_##name##_f32)                                                             \
    (const struct quant_parts parts, float *y, int64_t n) {                                        \
        dequant<Format>(parts, y, n);                                                              \
    }                                                                                              \
    TILED(name, Format)

KERNEL(quant_gemv_ternary_f32)
(const uint8_t *w, const float *x, float *y, int64_t m, int64_t k) {
    gemv_ternary(w, x, y, m, k);
}

KERNEL(quant_gemv_e2m1_f16_f32)
(const uint8_t *w, const uint16_t *scales, const uint16_t *x, float *y, int64_t m, int64_t k) {
    gemv_e2m1(w, scales, x, y, m, k);
}

FORMAT(q5_0, Q5_0)
FORMAT(q5k, Q5K)
FORMAT(q6k, Q6K)
TILED(q4k, Q4K)

#endif
