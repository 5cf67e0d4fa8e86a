/*
 * Sums down columns (inner > 1).  A thread has a column of units.  Or a tile of threads has
 * neighbouring columns, with rows of threads that share the axis.  Or a cluster of such tiles
 * shares it.
 *
 * Neighbouring threads read neighbouring columns.  A block has as many tiles as fit.
 */
#ifndef CUSHIM_KERNELS_REDUCE_COLUMNS_CUH
#define CUSHIM_KERNELS_REDUCE_COLUMNS_CUH

#include "kernels/device/math/divide.cuh"
#include "kernels/reduce/reduce_fold.cuh"
#include "kernels/reduce/reduce_cascade.cuh"
#include "kernels/reduce/reduce_plan.h"

namespace {

template <class Unit> DEVICE void sum_each(const float *x, float *y, const struct reduce_sum &sum) {
    for (int64_t item = thread_of_grid(); item < sum.n_items; item += threads_of_grid()) {
        int64_t outer = divide(item, sum.by_columns), column = item - outer * sum.columns;
        const float *from = x + outer * sum.axis * sum.stride + column * Unit::WIDTH;
        Unit::store(y + item * Unit::WIDTH, sum_units<Unit>(from, 0, sum.axis, 1, sum.stride));
    }
}

/* Which column of units a thread has, and which row of its tile it is in. */
struct Seat {
    int64_t outer, part, column; /* of the whole tensor; the part is of the axis */
    int row, place;              /* of the tile; of the block's sums */
    bool is_taken;
};

/* The threads of a block from the first tile of `item` on. */
DEVICE Seat seat_of(int64_t item, const struct reduce_sum &sum) {
    int n_threads = sum.tile_columns * sum.tile_rows; /* of a tile */
    int tile = (int)threadIdx.x / n_threads, thread = (int)threadIdx.x % n_threads;
    Seat seat;
    int64_t group = divide(item + tile, sum.by_columns);
    seat.row = thread / sum.tile_columns;
    seat.column =
        (item + tile - group * sum.by_columns.by) * sum.tile_columns + thread % sum.tile_columns;
    seat.outer = divide(group, sum.by_parts);
    seat.part = group - seat.outer * sum.n_parts;
    seat.place = (int)threadIdx.x;
    seat.is_taken =
        tile < sum.n_tiles_per_block && item + tile < sum.n_items && seat.column < sum.columns;
    return seat;
}

/*
 * Add up the sums of a tile's rows of threads in its first row; every thread of the block takes
 * part.
 */
template <class Sum>
DEVICE void fold_rows(Sum *sums, const Seat &seat, const struct reduce_sum &sum) {
    int half = 1;
    while (half < sum.tile_rows)
        half *= 2;
    for (half /= 2; half > 0; half /= 2) {
        __syncthreads();
        if (seat.is_taken && seat.row < half && seat.row + half < sum.tile_rows)
            sums[seat.place] = sums[seat.place] + sums[seat.place + half * sum.tile_columns];
    }
    __syncthreads();
}

/* The sum that a seat has of n_units of the axis from part * n_units on. */
template <class Unit>
DEVICE typename Unit::Sum sum_seat(const float *x, const Seat &seat, const struct reduce_sum &sum,
                                   int64_t n_units) {
    int64_t begin = seat.part * n_units,
            n = sum.axis - begin < n_units ? sum.axis - begin : n_units;
    const float *from =
        x + (seat.outer * sum.axis + begin) * sum.stride + seat.column * Unit::WIDTH;
    return sum_units<Unit>(from, seat.row, n, sum.tile_rows, sum.stride);
}

template <class Unit>
DEVICE void sum_tiles(typename Unit::Sum *sums, const float *x, float *y,
                      const struct reduce_sum &sum) {
    int64_t step = (int64_t)gridDim.x * sum.n_tiles_per_block;
    for (int64_t item = (int64_t)blockIdx.x * sum.n_tiles_per_block; item < sum.n_items;
         item += step) {
        Seat seat = seat_of(item, sum);
        if (seat.is_taken)
            sums[seat.place] = sum_seat<Unit>(x, seat, sum, sum.part);
        fold_rows(sums, seat, sum);
        if (seat.is_taken && seat.row == 0)
            Unit::store(y + ((seat.outer * sum.n_parts + seat.part) * sum.columns + seat.column) *
                                Unit::WIDTH,
                        sums[seat.place]);
        __syncthreads();
    }
}

/* The first block of the cluster has room for the sums of each block, after its own. */
template <class Unit>
DEVICE void sum_clusters(typename Unit::Sum *sums, const float *x, float *y,
                         const struct reduce_sum &sum) {
    typename Unit::Sum *of_blocks = sums + REDUCE_MOST_THREADS;
    int64_t n_units = (sum.axis - 1) / cluster_size() + 1, first = blockIdx.x / cluster_size();
    for (int64_t item = first; item < sum.n_items; item += gridDim.x / cluster_size()) {
        Seat seat = seat_of(item, sum);
        seat.part = cluster_rank();
        begin_fold(item == first);
        if (seat.is_taken)
            sums[seat.place] = sum_seat<Unit>(x, seat, sum, n_units);
        fold_rows(sums, seat, sum);
        cluster_wait();
        bool is_first = seat.is_taken && seat.row == 0;
        if (is_first)
            cluster_shared(of_blocks, 0)[cluster_rank() * REDUCE_MOST_TILE_COLUMNS + seat.place] =
                sums[seat.place];
        __syncwarp();
        cluster_sync();
        if (is_first && cluster_rank() == 0) {
            typename Unit::Sum total = of_blocks[seat.place];
            for (unsigned k = 1; k < cluster_size(); k++)
                total = total + of_blocks[k * REDUCE_MOST_TILE_COLUMNS + seat.place];
            Unit::store(y + (seat.outer * sum.columns + seat.column) * Unit::WIDTH, total);
        }
        __syncthreads();
    }
}

} // namespace

#define COLUMNS(name, Unit)                                                                        \
    KERNEL(reduce_sum_each_##name)(const float *x, float *y, struct reduce_sum sum) {              \
        sum_each<Unit>(x, y, sum);                                                                 \
    }                                                                                              \
    KERNEL_OF(REDUCE_MOST_THREADS, 1, reduce_sum_tile_##name)                                      \
    (const float *x, float *y, struct reduce_sum sum) {                                            \
        __shared__ Unit::Sum sums[REDUCE_MOST_THREADS];                                            \
        sum_tiles<Unit>(sums, x, y, sum);                                                          \
    }                                                                                              \
    KERNEL_OF(REDUCE_MOST_THREADS, 1, reduce_sum_tile_cluster_##name)                              \
    (const float *x, float *y, struct reduce_sum sum) {                                            \
        FROM_90(DYNAMIC_SHARED(Unit::Sum, sums); sum_clusters<Unit>(sums, x, y, sum));             \
    }

COLUMNS(1, Single)
COLUMNS(4, Quad<true>)
COLUMNS(4_any, Quad<false>)

#endif
