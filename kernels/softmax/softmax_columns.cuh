/*
 * Softmax down columns (inner > 1): tiles of neighbouring columns of one outer index, so that
 * neighbouring threads read neighbours.
 *
 * softmax_tile: the whole of its columns in registers, 4 accesses across, 64 rows at once.  It is
 * narrow, because two long tiles then have room on a multiprocessor, and one loads while the other
 * computes.  Each warp's exponentials are relative to its own level, and warps meet once.
 * softmax_columns: any axis and inner, read twice, one element per access.
 */
#ifndef CUSHIM_KERNELS_SOFTMAX_COLUMNS_CUH
#define CUSHIM_KERNELS_SOFTMAX_COLUMNS_CUH

#include "kernels/device/access.cuh"
#include "kernels/device/math/divide.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/softmax/softmax_args.h"
#include "kernels/softmax/softmax_peak.cuh"

enum {
    TILE_WARPS = SOFTMAX_TILE_THREADS / WARP_LANES,
    TILE_DOWN = SOFTMAX_TILE_THREADS / SOFTMAX_TILE_ACROSS /* threads down a column */
};

/* The level to which a column's exponentials are finally relative, and the factor for a warp's. */
struct Share {
    float level, part;
};

/* For each warp of a tile and each column. */
template <class Access> struct Columns {
    enum { W = Access::WIDTH, N = SOFTMAX_TILE_ACROSS * W };
    typedef ::Scaling<typename Access::Element> Scaling;
    Peak peaks[TILE_WARPS][N];
    Share shares[TILE_WARPS][N];

    /* From the peaks of W columns of a warp, in each of its lanes; one thread per warp and
     * column works out the share. */
    __device__ void meet(const Scaling &scaling, const Peak (&own)[W], Share (&to)[W]) {
        int thread = (int)threadIdx.x, warp = thread / WARP_LANES;
        int first = thread % SOFTMAX_TILE_ACROSS * W;
        if (thread % WARP_LANES < SOFTMAX_TILE_ACROSS) {
#pragma unroll
            for (int j = 0; j < W; j++)
                peaks[warp][first + j] = own[j];
        }
        __syncthreads();
        if (thread < TILE_WARPS * N) { /* whole warps */
            JoinPeaks<typename Access::Element> join = {scaling};
            Peak peak = peaks[thread % TILE_WARPS][thread / TILE_WARPS];
            Peak all = join.template lanes<TILE_WARPS>(peak);
            Share share = {all.level, Keys<Access>::ARE_KEPT ? 1 / all.sum
                                                             : ::share(scaling, peak.level, all)};
            shares[thread % TILE_WARPS][thread / TILE_WARPS] = share;
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < W; j++)
            to[j] = shares[warp][first + j];
    }
};

/* From, to: the thread's first of n accesses, `step` to the next. */
template <class Access, int N>
DEVICE void softmax_part(const Scaling<typename Access::Element> &scaling, Columns<Access> *columns,
                         const typename Access::Element *from, typename Access::Element *to,
                         int64_t step, int n) {
    typedef typename Access::Piece Piece;
    typedef ::Keys<Access> Keys;
    enum { W = Access::WIDTH };
    Piece pieces[N], top = Keys::lowest();
    float levels[W];
    Peak own[W] = {};
    Share shares[W];
#pragma unroll
    for (int k = 0; k < N; k++)
        pieces[k] = k < n ? load_line(reinterpret_cast<const Piece *>(from + k * step)) : Piece();
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (k < n) {
            pieces[k] = Keys::of(scaling, pieces[k]);
            top = Keys::larger(top, pieces[k]);
        }
    }
#pragma unroll
    for (int lanes = SOFTMAX_TILE_ACROSS; lanes < WARP_LANES; lanes *= 2)
        top = Keys::larger(top, of_lane(top, lanes));
    Access::spread(top, levels);
#pragma unroll
    for (int j = 0; j < W; j++)
        own[j].level = levels[j] = scaling.level(levels[j]);
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (k < n) {
            float values[W];
            exponentials<Access>(scaling, pieces[k], levels, values);
#pragma unroll
            for (int j = 0; j < W; j++)
                own[j].sum += values[j];
            if constexpr (!Keys::ARE_KEPT)
                pieces[k] = Access::pack(values);
        }
    }
#pragma unroll
    for (int lanes = SOFTMAX_TILE_ACROSS; lanes < WARP_LANES; lanes *= 2) {
#pragma unroll
        for (int j = 0; j < W; j++)
            own[j].sum += __shfl_xor_sync(0xFFFFFFFF, own[j].sum, lanes);
    }
    columns->meet(scaling, own, shares);
#pragma unroll
    for (int j = 0; j < W; j++)
        levels[j] = shares[j].level;
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (k < n) {
            float values[W];
            if constexpr (Keys::ARE_KEPT)
                exponentials<Access>(scaling, pieces[k], levels, values);
            else
                Access::spread(pieces[k], values);
#pragma unroll
            for (int j = 0; j < W; j++)
                values[j] *= shares[j].part;
            Access::store(to + k * step, values);
        }
    }
}

/* Up to TILE_DOWN * N rows; inner is a multiple of W. */
template <class Access, int N> DEVICE void softmax_tile(const struct softmax_args &args) {
    typedef typename Access::Element Element;
    enum { W = Access::WIDTH, COLUMNS = SOFTMAX_TILE_ACROSS * W };
    __shared__ Columns<Access> columns;
    wait_for_earlier();
    let_next_start();
    Scaling<Element> scaling(args.scale);
    int64_t n_tiles = args.by_tiles.by, step = TILE_DOWN * args.inner;
    int across = (int)threadIdx.x % SOFTMAX_TILE_ACROSS * W;
    int down = (int)threadIdx.x / SOFTMAX_TILE_ACROSS;
    bool is_whole = args.axis == TILE_DOWN * N && args.inner % COLUMNS == 0;
    for (int64_t tile = blockIdx.x; tile < args.outer * n_tiles; tile += gridDim.x) {
        int64_t outer = divide(tile, args.by_tiles);
        int64_t column = (tile - outer * n_tiles) * COLUMNS + across;
        int64_t place = (outer * args.axis + down) * args.inner + column;
        const Element *from = (const Element *)args.x + place;
        Element *to = (Element *)args.y + place;
        int n = column < args.inner ? ((int)args.axis - down + TILE_DOWN - 1) / TILE_DOWN : 0;
        if (is_whole) /* no branches */
            softmax_part<Access, N>(scaling, &columns, from, to, step, N);
        else
            softmax_part<Access, N>(scaling, &columns, from, to, step, n);
    }
}

/*
 * The peaks of a column's threads, to each of them: a tree over `down`, in the same order each
 * time.
 */
template <class Element>
DEVICE Peak peak_of_column(const Scaling<Element> &scaling, Peak *peaks, int across,
                           const Peak &own) {
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
    enum { N = 8 }; /* rows in flight per thread */
    __shared__ Peak peaks[SOFTMAX_TILE_THREADS];
    wait_for_earlier();
    let_next_start();
    Scaling<Element> scaling(args.scale);
    int64_t n_tiles = args.by_tiles.by;
    int down = (int)threadIdx.x / args.across, n_down = SOFTMAX_TILE_THREADS / args.across;
    for (int64_t tile = blockIdx.x; tile < args.outer * n_tiles; tile += gridDim.x) {
        int64_t outer = divide(tile, args.by_tiles);
        int64_t column = (tile - outer * n_tiles) * args.across + (int)threadIdx.x % args.across;
        int64_t place = outer * args.axis * args.inner + column;
        int64_t n_rows = column < args.inner ? args.axis : 0;
        Peak peak = no_peak(scaling);
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
                keys[k] = scaling.key(keys[k]);
            absorb<N, 1>(scaling, &peak, keys, is_there);
        }
        peak = peak_of_column(scaling, peaks, args.across, peak);
        float part = 1 / peak.sum;
        for (int64_t row = down; row < n_rows; row += n_down) {
            float value;
            Access::load((const Element *)args.x + place + row * args.inner, &value);
            value = scaling.exponential(scaling.key(value), peak.level) * part;
            Access::store((Element *)args.y + place + row * args.inner, &value);
        }
    }
}

#endif
