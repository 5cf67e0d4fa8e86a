/*
 * Means of rows of v with the weights of a softmax: a block per row of scores.
 *
 * The block finds the largest score.  Then it goes through the keys, as many at a time as it has
 * threads: each makes the weight of one, then has a column of v for some of them.
 */
#ifndef CUSHIM_KERNELS_SOFTMAX_MUL_CUH
#define CUSHIM_KERNELS_SOFTMAX_MUL_CUH

#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"

namespace {

enum { MUL_THREADS = 256, MUL_WARPS = MUL_THREADS / WARP_LANES };

/* The parts of warps, joined in their order; all threads of the block call this. */
template <class Join> DEVICE float of_block(float of_warp, const Join &join) {
    __shared__ float parts[MUL_WARPS];
    __syncthreads();
    if (threadIdx.x % WARP_LANES == 0)
        parts[threadIdx.x / WARP_LANES] = of_warp;
    __syncthreads();
    float all = parts[0];
    for (int i = 1; i < MUL_WARPS; i++)
        all = join(all, parts[i]);
    return all;
}

DEVICE float larger(float a, float b) {
    return fmaxf(a, b);
}

DEVICE float added(float a, float b) {
    return a + b;
}

/* One row: n scores, v [n][d].  `width` columns at a time, a power of two up to the threads. */
DEVICE void softmax_mul_row(const float *scores, const float *v, float *y, float scale, int64_t n,
                            int64_t d, int width) {
    __shared__ float weights[MUL_THREADS];
    int me = (int)threadIdx.x, col = me % width, group = me / width, n_groups = MUL_THREADS / width;
    float top = -__uint_as_float(0x7F800000);
    for (int64_t k = me; k < n; k += MUL_THREADS)
        top = fmaxf(top, scores[k] * scale);
    top = of_block(max_of_lanes<WARP_LANES>(top), larger);
    for (int64_t first = 0; first < d; first += width) {
        bool has_column = first + col < d;
        float sum = 0;
        double total = 0;
        for (int64_t k = 0; k < n; k += MUL_THREADS) {
            int n_keys = n - k < MUL_THREADS ? (int)(n - k) : (int)MUL_THREADS;
            float weight = me < n_keys ? expf(fmaf(scores[k + me], scale, -top)) : 0, part = 0;
            sum += weight;
            __syncthreads();
            weights[me] = weight;
            __syncthreads();
            for (int key = group; has_column && key < n_keys; key += n_groups)
                part = fmaf(weights[key], v[(k + key) * d + first + col], part);
            total += part;
        }
        sum = of_block(sum_of_lanes<WARP_LANES>(sum), added);
        __syncthreads();
        weights[me] = (float)total;
        __syncthreads();
        if (group == 0 && has_column) {
            float all = weights[col];
            for (int other = 1; other < n_groups; other++)
                all += weights[other * width + col];
            y[first + col] = n ? all / sum : 0;
        }
    }
}

} // namespace

KERNEL_OF(MUL_THREADS, 4, softmax_mul_f32)
(const float *scores, const float *v, float *y, float scale, int64_t rows, int64_t n, int64_t d,
 int width) {
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
        softmax_mul_row(scores + row * n, v + row * n * d, y + row * d, scale, n, d, width);
}

#endif
