/*
 * Softmax down columns (inner > 1): tiles of neighbouring columns of one outer index, so that
 * neighbouring threads read neighbours.
 *
 * softmax_tile: the whole of its columns in registers, 4 accesses across, 64 rows at once; narrow,
 * since two long tiles have room on a multiprocessor, and one loads while the other computes.
 * softmax_columns: any axis and inner, read twice, one element an access.
 */
#ifndef CUSHIM_KERNELS_SOFTMAX_COLUMNS_CUH
#define CUSHIM_KERNELS_SOFTMAX_COLUMNS_CUH

#include "kernels/device/access.cuh"
#include "kernels/device/order.cuh"
#include "kernels/softmax_args.h"
#include "kernels/softmax_peak.cuh"

enum {
    TILE_WARPS = SOFTMAX_TILE_THREADS / WARP_LANES,
    TILE_DOWN = SOFTMAX_TILE_THREADS / SOFTMAX_TILE_ACROSS /* threads down a column */
};

/* Of each column, what a warp's threads have, then what its warps left: tops as pieces, sums. */
template <class Access> struct Columns {
    typedef typename Access::Piece Piece;
    typedef ::Keys<Access> Keys;
    enum { W = Access::WIDTH };
    Piece tops[TILE_WARPS][SOFTMAX_TILE_ACROSS];
    float4 sums[TILE_WARPS][SOFTMAX_TILE_ACROSS][W / 4];

    __device__ Piece top(Piece own) {
        int lane = (int)threadIdx.x % WARP_LANES, across = (int)threadIdx.x % SOFTMAX_TILE_ACROSS;
#pragma unroll
        for (int step = SOFTMAX_TILE_ACROSS; step < WARP_LANES; step *= 2)
            own = Keys::larger(own, of_lane(own, step));
        if (lane < SOFTMAX_TILE_ACROSS)
            tops[threadIdx.x / WARP_LANES][across] = own;
        __syncthreads();
        own = tops[0][across];
#pragma unroll
        for (int warp = 1; warp < TILE_WARPS; warp++)
            own = Keys::larger(own, tops[warp][across]);
        return own;
    }

    __device__ void add_up(float (&values)[W]) {
        int lane = (int)threadIdx.x % WARP_LANES, across = (int)threadIdx.x % SOFTMAX_TILE_ACROSS;
#pragma unroll
        for (int step = SOFTMAX_TILE_ACROSS; step < WARP_LANES; step *= 2) {
#pragma unroll
            for (int j = 0; j < W; j++)
                values[j] += __shfl_xor_sync(0xFFFFFFFF, values[j], step);
        }
        if (lane < SOFTMAX_TILE_ACROSS) {
#pragma unroll
            for (int i = 0; i < W / 4; i++)
                sums[threadIdx.x / WARP_LANES][across][i] = make_float4(
                    values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]);
        }
        __syncthreads();
#pragma unroll
        for (int warp = 0; warp < TILE_WARPS; warp++) {
#pragma unroll
            for (int i = 0; i < W / 4; i++) {
                float part[4];
                spread(sums[warp][across][i], part);
#pragma unroll
                for (int j = 0; j < 4; j++)
                    values[4 * i + j] = warp == 0 ? part[j] : values[4 * i + j] + part[j];
            }
        }
    }
};

/* Up to TILE_DOWN * N rows; inner is a multiple of W. */
template <class Access, int N> DEVICE void softmax_tile(const struct softmax_args &args) {
    typedef typename Access::Element Element;
    typedef typename Access::Piece Piece;
    typedef ::Keys<Access> Keys;
    enum { W = Access::WIDTH, COLUMNS = SOFTMAX_TILE_ACROSS * W };
    __shared__ Columns<Access> columns;
    wait_for_earlier();
    let_next_start();
    Scaling scaling = scaling_of(args.scale);
    int64_t n_tiles = (args.inner - 1) / COLUMNS + 1;
    int down = (int)threadIdx.x / SOFTMAX_TILE_ACROSS;
    for (int64_t tile = blockIdx.x; tile < args.outer * n_tiles; tile += gridDim.x) {
        int64_t column =
            tile % n_tiles * COLUMNS + (int64_t)(threadIdx.x % SOFTMAX_TILE_ACROSS) * W;
        int64_t place = tile / n_tiles * args.axis * args.inner + column + down * args.inner;
        int64_t step = TILE_DOWN * args.inner;
        int n = column < args.inner ? ((int)args.axis - down + TILE_DOWN - 1) / TILE_DOWN : 0;
        const Element *from = (const Element *)args.x + place;
        Element *to = (Element *)args.y + place;
        Piece pieces[N], top = Keys::lowest();
        float sums[W] = {}, tops[W];
#pragma unroll
        for (int k = 0; k < N; k++) {
            pieces[k] = k < n ? Access::read(from + k * step) : Piece();
        }
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (k < n) {
                pieces[k] = Keys::of(scaling, pieces[k]);
                top = Keys::larger(top, pieces[k]);
            }
        }
        Access::spread(columns.top(top), tops);
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (k < n) {
                float values[W];
                Keys::exponentials(scaling, pieces[k], tops, values);
#pragma unroll
                for (int j = 0; j < W; j++)
                    sums[j] += values[j];
                if constexpr (!Keys::ARE_KEPT)
                    pieces[k] = Access::pack(values);
            }
        }
        columns.add_up(sums);
#pragma unroll
        for (int j = 0; j < W; j++)
            sums[j] = 1 / sums[j];
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (k < n) {
                float values[W];
                if constexpr (Keys::ARE_KEPT)
                    Keys::exponentials(scaling, pieces[k], tops, values);
                else
                    Access::spread(pieces[k], values);
#pragma unroll
                for (int j = 0; j < W; j++)
                    values[j] *= sums[j];
                Access::store(to + k * step, values);
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
