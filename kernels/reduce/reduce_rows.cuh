/*
 * Sums of rows (inner is 1): some lanes of a warp have a row, or a block has one or a part of one,
 * or a cluster has one and each of its blocks a part.
 */
#ifndef CUSHIM_KERNELS_REDUCE_ROWS_CUH
#define CUSHIM_KERNELS_REDUCE_ROWS_CUH

#include "kernels/device/math/divide.cuh"
#include "kernels/reduce/reduce_fold.cuh"
#include "kernels/reduce/reduce_cascade.cuh"
#include "kernels/reduce/reduce_plan.h"

namespace {

struct JoinSums {
    typedef float Part;
    DEVICE float none() {
        return 0;
    }
    DEVICE float of(float a, float b) {
        return a + b;
    }
    DEVICE float of_lane(float part, int step) {
        return __shfl_xor_sync(0xFFFFFFFF, part, step);
    }
};

template <class Unit>
DEVICE void sum_by_lanes(const float *x, float *y, const struct reduce_sum &sum) {
    int n_lanes = sum.tile_columns, lane = (int)threadIdx.x % n_lanes,
        n_rows = (int)blockDim.x / n_lanes; /* in a block */
    int64_t step = (int64_t)gridDim.x * n_rows;
    for (int64_t first = (int64_t)blockIdx.x * n_rows; first < sum.outer; first += step) {
        int64_t row = first + threadIdx.x / n_lanes;
        float part = 0;
        if (row < sum.outer)
            part = Unit::across(sum_units<Unit>(x + row * sum.axis * Unit::WIDTH, lane, sum.axis,
                                                n_lanes, Unit::WIDTH));
        part = fold_lanes<JoinSums>(part, n_lanes);
        if (lane == 0 && row < sum.outer)
            y[row] = part;
    }
}

/* The block's sum of part `part` of row `row`. */
template <class Unit>
DEVICE float sum_part(const float *x, const struct reduce_sum &sum, int64_t row, int64_t part,
                      int64_t n_units) {
    int64_t begin = part * n_units, n = sum.axis - begin < n_units ? sum.axis - begin : n_units;
    return Unit::across(sum_units<Unit>(x + (row * sum.axis + begin) * Unit::WIDTH, threadIdx.x, n,
                                        blockDim.x, Unit::WIDTH));
}

template <class Unit>
DEVICE void sum_by_blocks(const float *x, float *y, const struct reduce_sum &sum) {
    __shared__ float places[32];
    for (int64_t item = blockIdx.x; item < sum.n_items; item += gridDim.x) {
        int64_t row = divide(item, sum.by_parts);
        float part = sum_part<Unit>(x, sum, row, item - row * sum.n_parts, sum.part);
        part = fold_block<JoinSums>(places, part);
        if (threadIdx.x == 0)
            y[item] = part;
    }
}

template <class Unit>
DEVICE void sum_by_clusters(float *places, const float *x, float *y, const struct reduce_sum &sum) {
    int64_t n_units = (sum.axis - 1) / cluster_size() + 1, first = blockIdx.x / cluster_size();
    for (int64_t row = first; row < sum.outer; row += gridDim.x / cluster_size()) {
        begin_fold(row == first);
        float part = sum_part<Unit>(x, sum, row, cluster_rank(), n_units);
        part = fold_block<JoinSums>(places + 32, part);
        part = fold_cluster<JoinSums>(places, part);
        if (cluster_rank() == 0 && threadIdx.x == 0)
            y[row] = part;
    }
}

} // namespace

#define ROWS(name, Unit)                                                                           \
    KERNEL(reduce_sum_lanes_##name)(const float *x, float *y, struct reduce_sum sum) {             \
        sum_by_lanes<Unit>(x, y, sum);                                                             \
    }                                                                                              \
    KERNEL_OF(REDUCE_MOST_THREADS, 1, reduce_sum_row_##name)                                       \
    (const float *x, float *y, struct reduce_sum sum) {                                            \
        sum_by_blocks<Unit>(x, y, sum);                                                            \
    }                                                                                              \
    KERNEL_OF(REDUCE_MOST_THREADS, 1, reduce_sum_row_cluster_##name)                               \
    (const float *x, float *y, struct reduce_sum sum) {                                            \
        FROM_90(DYNAMIC_SHARED(float, places); sum_by_clusters<Unit>(places, x, y, sum));          \
    }

ROWS(1, Single)
ROWS(4, Quad<true>)
ROWS(4_any, Quad<false>)

#endif
