/*
 * A row in the registers of T threads, each with N accesses: read once, written once.
 *
 * Thread t has accesses t, t + T, t + 2 T, ... of the row, so neighbouring threads read
 * neighbouring memory.  Up to 32 threads per row are aligned lanes of a warp, and a block of
 * ROW_BLOCK_THREADS has several rows; with more threads a block has one row.  A row in a cluster is
 * cut into slices, one per block.
 */
#ifndef CUSHIM_KERNELS_ROW_CUH
#define CUSHIM_KERNELS_ROW_CUH

#include "kernels/device/access.cuh"
#include "kernels/device/group.cuh"
#include "kernels/shared/row.h"

template <class Access, int T, int E> struct Row {
    typedef typename Access::Element Element;
    typedef typename Access::Piece Piece;
    enum {
        W = Access::WIDTH,
        N = W == 1 ? E : E / 4, /* accesses per thread; a wide one has the bytes of 4 floats */
        LANES = T < WARP_LANES ? T : WARP_LANES,
        N_ROWS = T <= WARP_LANES ? CUSHIM_ROW_BLOCK_THREADS / T : 1 /* per block */
    };

    /* Where access k begins in the row. */
    DEVICE int at(int k) {
        return ((int)(threadIdx.x % T) + k * T) * W;
    }

    /* Elements from n on are not read; they become 0. */
    DEVICE void read(const Element *row, int n, Piece (&pieces)[N]) {
#pragma unroll
        for (int k = 0; k < N; k++)
            pieces[k] = at(k) < n ? Access::read(row + at(k)) : Piece();
    }
};

/* The rows of the block, and the part of them that it has. */
struct RowWalk {
    int64_t first, step; /* rows */
    int64_t begin;       /* of the part */
    int64_t n;           /* elements of it */
};

template <bool IS_CLUSTERED> DEVICE RowWalk walk_rows(int n_rows, int64_t axis, int64_t slice) {
    RowWalk walk = {(int64_t)blockIdx.x * n_rows, (int64_t)gridDim.x * n_rows, 0, axis};
    if constexpr (IS_CLUSTERED) {
        walk.first = blockIdx.x / cluster_size();
        walk.step = gridDim.x / cluster_size();
        walk.begin = cluster_rank() * slice;
        walk.n = axis - walk.begin < slice ? axis - walk.begin : slice;
        if (walk.n < 0)
            walk.n = 0;
    }
    return walk;
}

#endif
