/*
 * Products of formats by the parts of their blocks, without matrix units: a warp per row with one
 * column, tiles of fp32 with more.  A lane has eight neighbouring values of each 256, so a warp
 * reads what belongs to 256 values at a time.
 */
#ifndef CUSHIM_KERNELS_GEMV_PARTS_CUH
#define CUSHIM_KERNELS_GEMV_PARTS_CUH

#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/product_tile.cuh"
#include "kernels/device/quant_values.cuh"

namespace {

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
DEVICE void run_row(const struct quant_parts &parts, const float *x, float *y, int64_t m,
                    int64_t k) {
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

} // namespace

#endif
