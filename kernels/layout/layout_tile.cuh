/*
 * A strided copy by square tiles through shared memory, for an output that is dense along another
 * axis than the source: transposition, with any number of other axes.
 *
 * A tile has rows along a and columns along b (struct layout_tile).  Warps read its rows along b
 * and write its columns along a, so that both sides see whole lines.  The divisions for an axis of
 * several coordinates are done once per row of a warp.
 */
#ifndef CUSHIM_KERNELS_LAYOUT_TILE_CUH
#define CUSHIM_KERNELS_LAYOUT_TILE_CUH

#include "kernels/device/math/divide.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/layout/layout_plan.h"

namespace {

constexpr int TILE_THREADS = 256, TILE_WARPS = TILE_THREADS / 32;

/*
 * The start of a tile: along a and b, and the place of the other axes in source and output.  Number
 * is the type of coordinates: uint32_t if all are below 2^31, else uint64_t.
 */
template <class Number> struct Corner {
    Number a, b;
    int64_t from, to;
};

/* The place of coordinate `at` of n axes, from the innermost out, in the source or the output. */
template <class Number>
DEVICE int64_t place_of(Number at, const struct layout_tile &tile, int first, int n,
                        bool is_source) {
    const struct layout_axis *axis = &tile.axes[first];
    int64_t place = 0;
#pragma unroll 1
    for (; n > 1; n--, axis++) {
        Number next = divide(at, axis->size);
        place += (int64_t)(at - next * (Number)axis->size.by) * (is_source ? axis->from : axis->to);
        at = next;
    }
    return n > 0 ? place + (int64_t)at * (is_source ? axis->from : axis->to) : 0;
}

template <class Number> DEVICE int64_t source_of_a(Number a, const struct layout_tile &tile) {
    return place_of(a, tile, 0, tile.n_a_axes, true);
}

template <class Number> DEVICE int64_t output_of_b(Number b, const struct layout_tile &tile) {
    return place_of(b, tile, tile.n_a_axes, tile.n_b_axes, false);
}

/*
 * Neighbours along b come one after the other, because they share lines of the output's rows in L2.
 */
template <class Number>
DEVICE Corner<Number> corner_of(Number number, const struct layout_tile &tile, int side_a,
                                int side_b) {
    Number rest = divide(number, tile.tiles_b), others = divide(rest, tile.tiles_a);
    Corner<Number> corner;
    corner.b = (number - rest * (Number)tile.tiles_b.by) * side_b;
    corner.a = (rest - others * (Number)tile.tiles_a.by) * side_a;
    int first = tile.n_a_axes + tile.n_b_axes;
    corner.from = place_of(others, tile, first, tile.n_other_axes, true);
    corner.to = place_of(others, tile, first, tile.n_other_axes, false);
    return corner;
}

/* Row, column of a tile; with this PITCH neither rows nor columns conflict in the banks. */
template <class Unit, int SIDE, int PITCH>
DEVICE void read_rows(Unit (*shared)[PITCH], const Unit *src, const Corner<uint64_t> &corner,
                      const struct layout_tile &tile) {
    constexpr int N_ROWS = SIDE / TILE_WARPS, N_PARTS = SIDE / 32;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    Unit units[N_ROWS][N_PARTS]; /* all in flight */
#pragma unroll
    for (int k = 0; k < N_ROWS; k++) {
        uint64_t a = corner.a + warp + k * TILE_WARPS;
        const Unit *row = src + corner.from + source_of_a(a, tile) + corner.b;
#pragma unroll
        for (int p = 0; p < N_PARTS; p++) {
            if (a < (uint64_t)tile.n_a && corner.b + lane + p * 32 < (uint64_t)tile.n_b)
                units[k][p] = __ldg(row + lane + p * 32);
        }
    }
#pragma unroll
    for (int k = 0; k < N_ROWS; k++) {
#pragma unroll
        for (int p = 0; p < N_PARTS; p++)
            shared[warp + k * TILE_WARPS][lane + p * 32] = units[k][p];
    }
}

template <class Unit, int SIDE, int PITCH>
DEVICE void write_units(Unit *dst, Unit (*shared)[PITCH], const Corner<uint64_t> &corner,
                        const struct layout_tile &tile) {
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
#pragma unroll 4
    for (int k = warp; k < SIDE; k += TILE_WARPS) {
        if (corner.b + k >= (uint64_t)tile.n_b)
            break;
        Unit *column = dst + corner.to + output_of_b(corner.b + k, tile) + corner.a;
#pragma unroll
        for (int p = 0; p < SIDE; p += 32) {
            if (corner.a + lane + p < (uint64_t)tile.n_a)
                column[lane + p] = shared[lane + p][k];
        }
    }
}

template <class Unit, int SIDE, int PITCH>
DEVICE void copy_tiles(Unit (*shared)[PITCH], const Unit *src, Unit *dst,
                       const struct layout_tile &tile) {
    for (uint64_t number = blockIdx.x; number < (uint64_t)tile.n_tiles; number += gridDim.x) {
        Corner<uint64_t> corner = corner_of(number, tile, SIDE, SIDE);
        read_rows<Unit, SIDE, PITCH>(shared, src, corner, tile);
        __syncthreads();
        write_units<Unit, SIDE, PITCH>(dst, shared, corner, tile);
        __syncthreads();
    }
}

} // namespace

#define TILE(bytes, Unit, side, pitch)                                                             \
    KERNEL(layout_tile_##bytes)(const Unit *src, Unit *dst, struct layout_tile tile) {             \
        __shared__ Unit shared[side][pitch];                                                       \
        copy_tiles<Unit, side, pitch>(shared, src, dst, tile);                                     \
    }

TILE(1, uint8_t, 64, 68)
TILE(2, uint16_t, 64, 66)
TILE(4, uint32_t, 64, 65)
TILE(8, uint2, 32, 33)
TILE(16, uint4, 32, 33)

/*
 * Older multiprocessors have no place for eight such blocks, and ptxas warns.  It warns for 12.0
 * too, which is compiled from the same PTX as 9.0.
 */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr int SMALL_TILE_BLOCKS = 8;
#else
constexpr int SMALL_TILE_BLOCKS = 4;
#endif

/*
 * For a copy with few tiles and no axes to divide by: tiles of a quarter, one per block. x of the
 * grid goes along b, y along a, z along the other axis, if there is one.
 */
KERNEL_OF(TILE_THREADS, SMALL_TILE_BLOCKS, layout_tile_4_small)
(const uint32_t *src, uint32_t *dst, struct layout_small small) {
    constexpr uint32_t SIDE = 32, N = SIDE / TILE_WARPS;
    __shared__ uint32_t shared[SIDE][SIDE + 1];
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, units[N];
    uint32_t first_a = blockIdx.y * SIDE, first_b = blockIdx.x * SIDE;
    src += blockIdx.z * small.other_from;
    dst += blockIdx.z * small.other_to;
#pragma unroll
    for (uint32_t k = 0; k < N; k++) {
        uint32_t a = first_a + warp + k * TILE_WARPS, b = first_b + lane;
        if (a < small.n_a && b < small.n_b)
            units[k] = __ldg(src + a * small.a_from + b);
    }
#pragma unroll
    for (uint32_t k = 0; k < N; k++)
        shared[warp + k * TILE_WARPS][lane] = units[k];
    __syncthreads();
#pragma unroll
    for (uint32_t k = 0; k < N; k++) {
        uint32_t column = warp + k * TILE_WARPS, a = first_a + lane, b = first_b + column;
        if (a < small.n_a && b < small.n_b)
            dst[b * small.b_to + a] = shared[lane][column];
    }
}

#endif
