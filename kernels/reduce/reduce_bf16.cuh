/*
 * Scaled sums of bfloat16: a block has a row (inner is 1), or a thread has a column.
 *
 * A thread adds up to eight in a float, and those sums in a double, because there may be many.
 */
#ifndef CUSHIM_KERNELS_REDUCE_BF16_CUH
#define CUSHIM_KERNELS_REDUCE_BF16_CUH

#include "kernels/device/access.cuh"
#include "kernels/reduce/reduce_rows.cuh"

namespace {

/* The sum of elements first, first + step, ... of n, `stride` apart in memory. */
template <int W>
DEVICE float sum_of_bf16(const bf16 *x, int64_t first, int64_t n, int64_t step, int64_t stride) {
    enum { N = 8 / W }; /* accesses in flight */
    double total = 0;
    for (int64_t i = first; i < n; i += N * step) {
        float values[8] = {};
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (i + k * step < n)
                Access<bf16, W>::load(x + (i + k * step) * stride, values + k * W);
        }
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum += values[k];
        total += sum;
    }
    return (float)total;
}

DEVICE void put_scaled(bf16 *to, float sum, float scale) {
    float value = __fmul_rn(sum, scale);
    Access<bf16, 1>::store(to, &value);
}

template <int W>
DEVICE void sum_rows_of_bf16(const bf16 *x, bf16 *y, float scale, int64_t outer, int64_t axis) {
    __shared__ float places[32];
    for (int64_t row = blockIdx.x; row < outer; row += gridDim.x) {
        float part = sum_of_bf16<W>(x + row * axis, (int64_t)threadIdx.x * W, axis,
                                    (int64_t)blockDim.x * W, 1);
        part = fold_block<JoinSums>(places, part);
        if (threadIdx.x == 0)
            put_scaled(y + row, part, scale);
    }
}

} // namespace

KERNEL(reduce_sum_bf16_rows)(const bf16 *x, bf16 *y, float scale, int64_t outer, int64_t axis) {
    sum_rows_of_bf16<1>(x, y, scale, outer, axis);
}

KERNEL(reduce_sum_bf16_rows_wide)
(const bf16 *x, bf16 *y, float scale, int64_t outer, int64_t axis) {
    sum_rows_of_bf16<8>(x, y, scale, outer, axis);
}

KERNEL(reduce_sum_bf16_columns)
(const bf16 *x, bf16 *y, float scale, int64_t outer, int64_t axis, int64_t inner) {
    for (int64_t i = thread_of_grid(); i < outer * inner; i += threads_of_grid()) {
        int64_t row = i / inner;
        put_scaled(y + i,
                   sum_of_bf16<1>(x + row * axis * inner + (i - row * inner), 0, axis, 1, inner),
                   scale);
    }
}

#endif
