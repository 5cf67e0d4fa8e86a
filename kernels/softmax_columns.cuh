/*
 * Softmax down columns (inner > 1): tiles of neighbouring columns of one outer index, so that
 * neighbouring threads read neighbours.
 *
 * softmax_tile: the whole of its columns in registers, 8 accesses across, 32 rows at once.
 * softmax_columns: any axis and inner, read twice, one element an access.
 */
#ifndef CUSHIM_KERNELS_SOFTMAX_COLUMNS_CUH
#define CUSHIM_KERNELS_SOFTMAX_COLUMNS_CUH

#include "kernels/device/access.cuh"
#include "kernels/device/order.cuh"
#include "kernels/softmax_args.h"
#include "kernels/softmax_peak.cuh"

/* In a warp lie 32 / ACROSS rows of each column; over them, then over the warps. */
struct MostOfColumn {
    DEVICE float of(float a, float b) {
        return fmaxf(a, b);
    }
};

struct SumOfColumn {
    DEVICE float of(float a, float b) {
        return a + b;
    }
};

enum {
    TILE_WARPS = SOFTMAX_TILE_THREADS / WARP_LANES,
    TILE_DOWN = SOFTMAX_TILE_THREADS / SOFTMAX_TILE_ACROSS /* threads down a column */
};

template <class Op, int W>
DEVICE void over_columns(float (*of_warps)[SOFTMAX_TILE_ACROSS * W], float (&values)[W]) {
    int lane = (int)threadIdx.x % WARP_LANES, across = (int)threadIdx.x % SOFTMAX_TILE_ACROSS * W;
#pragma unroll
    for (int j = 0; j < W; j++) {
#pragma unroll
        for (int step = SOFTMAX_TILE_ACROSS; step < WARP_LANES; step *= 2)
            values[j] = Op::of(values[j], __shfl_xor_sync(0xFFFFFFFF, values[j], step));
        if (lane < SOFTMAX_TILE_ACROSS)
            of_warps[threadIdx.x / WARP_LANES][across + j] = values[j];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < W; j++) {
        values[j] = of_warps[0][across + j];
#pragma unroll
        for (int warp = 1; warp < TILE_WARPS; warp++)
            values[j] = Op::of(values[j], of_warps[warp][across + j]);
    }
}

/* Up to TILE_DOWN * E / W rows; inner is a multiple of W. */
template <class Access, int E> DEVICE void softmax_tile(const struct softmax_args &args) {
    typedef typename Access::Element Element;
    enum { W = Access::WIDTH, N = E / W, COLUMNS = SOFTMAX_TILE_ACROSS * W };
    /* two, so that one barrier each is enough: the other's lies between */
    __shared__ float tops_of_warps[TILE_WARPS][COLUMNS], sums_of_warps[TILE_WARPS][COLUMNS];
    wait_for_earlier();
    let_next_start();
    Scaling scaling = scaling_of(args.scale);
    int64_t n_tiles = (args.inner - 1) / COLUMNS + 1;
    int down = (int)threadIdx.x / SOFTMAX_TILE_ACROSS;
    for (int64_t tile = blockIdx.x; tile < args.outer * n_tiles; tile += gridDim.x) {
        int64_t column =
            tile % n_tiles * COLUMNS + (int64_t)(threadIdx.x % SOFTMAX_TILE_ACROSS) * W;
        int64_t place = tile / n_tiles * args.axis * args.inner + column;
        int n_rows = column < args.inner ? (int)args.axis : 0;
        float values[E], tops[W], sums[W];
#pragma unroll
        for (int k = 0; k < N; k++) {
            int row = down + k * TILE_DOWN;
            if (row < n_rows)
                Access::load((const Element *)args.x + place + row * args.inner, values + k * W);
        }
#pragma unroll
        for (int j = 0; j < W; j++)
            tops[j] = -INFINITY, sums[j] = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (down + k * TILE_DOWN < n_rows) {
#pragma unroll
                for (int j = 0; j < W; j++) {
                    values[k * W + j] = key_of(scaling, values[k * W + j]);
                    tops[j] = fmaxf(tops[j], values[k * W + j]);
                }
            }
        }
        over_columns<MostOfColumn>(tops_of_warps, tops);
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (down + k * TILE_DOWN < n_rows) {
#pragma unroll
                for (int j = 0; j < W; j++) {
                    values[k * W + j] = exponential(scaling, values[k * W + j], tops[j]);
                    sums[j] += values[k * W + j];
                }
            }
        }
        over_columns<SumOfColumn>(sums_of_warps, sums);
#pragma unroll
        for (int j = 0; j < W; j++)
            sums[j] = 1 / sums[j];
#pragma unroll
        for (int k = 0; k < N; k++) {
            int row = down + k * TILE_DOWN;
            if (row < n_rows) {
#pragma unroll
                for (int j = 0; j < W; j++)
                    values[k * W + j] *= sums[j];
                Access::store((Element *)args.y + place + row * args.inner, values + k * W);
            }
        }
    }
}

/* The peaks of a column's threads, to each of them: a tree over `down`, the same order each time.
 */
DEVICE Peak peak_of_column(const Scaling &scaling, Peak *peaks, int across, const Peak &own) {
    int n_down = SOFTMAX_TILE_THREADS / across, thread = (int)threadIdx.x;
    peaks[thread] = own;
    __syncthreads();
    for (int step = n_down / 2; step > 0; step /= 2) {
        if (thread < step * across)
            peaks[thread] = joined(scaling, peaks[thread], peaks[thread + step * across]);
        __syncthreads();
    }
    Peak all = peaks[thread % across];
    __syncthreads(); /* before the next tile's are put there */
    return all;
}

template <class Access> DEVICE void softmax_columns(const struct softmax_args &args) {
    typedef typename Access::Element Element;
    enum { N = 8 }; /* rows in flight a thread */
    __shared__ Peak peaks[SOFTMAX_TILE_THREADS];
    wait_for_earlier();
    let_next_start();
    Scaling scaling = scaling_of(args.scale);
    int64_t n_tiles = (args.inner - 1) / args.across + 1;
    int down = (int)threadIdx.x / args.across, n_down = SOFTMAX_TILE_THREADS / args.across;
    for (int64_t tile = blockIdx.x; tile < args.outer * n_tiles; tile += gridDim.x) {
        int64_t column = tile % n_tiles * args.across + (int)threadIdx.x % args.across;
        int64_t place = tile / n_tiles * args.axis * args.inner + column;
        int64_t n_rows = column < args.inner ? args.axis : 0;
        Peak peak = no_peak();
        for (int64_t row = down; row < n_rows; row += (int64_t)N * n_down) {
            float keys[N] = {};
            bool is_there[N];
#pragma unroll
            for (int k = 0; k < N; k++) {
                is_there[k] = row + k * n_down < n_rows;
                if (is_there[k])
                    Access::load((const Element *)args.x + place + (row + k * n_down) * args.inner,
                                 keys + k);
            }
#pragma unroll
            for (int k = 0; k < N; k++)
                keys[k] = key_of(scaling, keys[k]);
            absorb<N, 1>(scaling, &peak, keys, is_there);
        }
        peak = peak_of_column(scaling, peaks, args.across, peak);
        float part = 1 / peak.sum;
        for (int64_t row = down; row < n_rows; row += n_down) {
            float value;
            Access::load((const Element *)args.x + place + row * args.inner, &value);
            value = exponential(scaling, key_of(scaling, value), peak.top) * part;
            Access::store((Element *)args.y + place + row * args.inner, &value);
        }
    }
}

#endif
