/*
 * Many products of matrices up to 64 x 64.
 *
 * Operands go through shared memory, each read once.  The inner size is filled up to a multiple of
 * 4 with zeros.
 *
 * gemm_batched_small: a block has several of a batch, a thread a tile of 4 x 4 of an output.
 * `threads` of a block share one product, so that a block does as many products at a time as it
 * has room for.
 *
 * gemm_batched_large: for outputs of more than 32 rows and columns, one block each.  A thread has
 * LARGE_ROWS rows, as far apart as there are groups of them, and two times four columns, and
 * multiplies twice as often for what it reads.
 */
#ifndef CUSHIM_KERNELS_GEMV_SMALL_CUH
#define CUSHIM_KERNELS_GEMV_SMALL_CUH

#include "kernels/device/arch/async_copy.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/gemv/gemv_kernels.h"
#include "kernels/gemv/gemv_formats.cuh"

struct SmallShape {
    int m, n, k;
    int threads; /* of one product: a power of two */
    int matrices_per_block;
    bool is_a_wide, is_b_wide, is_c_wide; /* rows at multiples of 16 bytes */
};

/* i / by for i < 4096 and by <= 64, as a product; inverse is 2^20 / by, rounded up. */
struct SmallDivider {
    uint32_t by, inverse;

    MEMBER explicit SmallDivider(int by)
        : by((uint32_t)by), inverse(((1u << 20) + (uint32_t)by - 1) / (uint32_t)by) {
    }

    MEMBER int of(int i) const {
        return (int)((uint32_t)i * inverse >> 20);
    }
};

/*
 * Copy a matrix into shared memory, rows `pitch` floats apart, as thread i of `threads`.
 * Asynchronous: all of a thread's pieces are in flight at once.
 */
DEVICE void load_small(float *to, int pitch, const float *from, int rows, int cols, bool is_wide,
                       int i, int threads) {
    if (is_wide) {
        SmallDivider divider(cols / 4);
        for (; i < rows * (cols / 4); i += threads) {
            int row = divider.of(i), col = i - row * (cols / 4);
            copy_async_16(to + row * pitch + 4 * col, from + 4 * i);
        }
    } else {
        SmallDivider divider(cols);
        for (; i < rows * cols; i += threads) {
            int row = divider.of(i), col = i - row * cols;
            copy_async_4(to + row * pitch + col, from + i);
        }
    }
}

DEVICE float4 fma4(float a, float4 b, float4 sum) {
    return make_float4(fmaf(a, b.x, sum.x), fmaf(a, b.y, sum.y), fmaf(a, b.z, sum.z),
                       fmaf(a, b.w, sum.w));
}

/* Four columns of a row, or as many as exist. */
DEVICE void store_small(float *c, int row, int col, float4 sums, const SmallShape &shape) {
    float *to = c + row * shape.n + col;
    if (shape.is_c_wide) {
        if (col < shape.n)
            *reinterpret_cast<float4 *>(to) = sums;
        return;
    }
    const float values[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if (col + j < shape.n)
            to[j] = values[j];
    }
}

/* Four rows of four from (row, col) on. */
DEVICE void multiply_small(const float *a, int pitch_a, const float *b, int pitch_b, float *c,
                           int row, int col, const SmallShape &shape) {
    float4 sums[4] = {};
    for (int k = 0; k < shape.k; k += 4) {
        float4 of_b[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            of_b[i] = *reinterpret_cast<const float4 *>(b + (k + i) * pitch_b + col);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float4 of_a = *reinterpret_cast<const float4 *>(a + (row + i) * pitch_a + k);
            sums[i] = fma4(of_a.x, of_b[0], sums[i]);
            sums[i] = fma4(of_a.y, of_b[1], sums[i]);
            sums[i] = fma4(of_a.z, of_b[2], sums[i]);
            sums[i] = fma4(of_a.w, of_b[3], sums[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (row + i >= shape.m)
            break;
        store_small(c, row + i, col, sums[i], shape);
    }
}

DEVICE void gemm_batched_small(const float *a, const float *b, float *c, const SmallShape &shape,
                               int64_t stride_a, int64_t stride_b, int64_t stride_c,
                               int64_t batch) {
    __shared__ float4 room[GEMV_SMALL_FLOATS / 4];
    int m4 = (shape.m + 3) & ~3, n4 = (shape.n + 3) & ~3, k4 = (shape.k + 3) & ~3;
    int mine = threadIdx.x / shape.threads, i = threadIdx.x % shape.threads;
    int pitch_a = k4 + 4, tiles_of_row = n4 / 4, n_tiles = m4 / 4 * tiles_of_row;
    float *of_a = reinterpret_cast<float *>(room) + mine * (m4 * pitch_a + k4 * n4);
    float *of_b = of_a + m4 * pitch_a;
    int row = i / tiles_of_row * 4, col = i % tiles_of_row * 4;
    wait_for_earlier();
    let_next_start();
    for (int64_t first = (int64_t)blockIdx.x * shape.matrices_per_block; first < batch;
         first += (int64_t)gridDim.x * shape.matrices_per_block) {
        int64_t at = first + mine;
        bool has_one = mine < shape.matrices_per_block && at < batch;
        __syncthreads();
        if (has_one && shape.k) {
            load_small(of_a, pitch_a, a + at * stride_a, shape.m, shape.k, shape.is_a_wide, i,
                       shape.threads);
            load_small(of_b, n4, b + at * stride_b, shape.k, shape.n, shape.is_b_wide, i,
                       shape.threads);
            for (int j = i; j < m4 * (k4 - shape.k); j += shape.threads)
                of_a[j % m4 * pitch_a + shape.k + j / m4] = 0;
            for (int j = i; j < n4 * (k4 - shape.k); j += shape.threads)
                of_b[shape.k * n4 + j] = 0;
        }
        commit_copies();
        wait_copies<0>();
        __syncthreads();
        if (has_one && i < n_tiles)
            multiply_small(of_a, pitch_a, of_b, n4, c + at * stride_c, row, col, shape);
    }
}

enum {
    LARGE_ROWS = 512 / GEMV_LARGE_THREADS, /* per thread */
    LARGE_GROUPS = GEMV_SMALL_MOST / LARGE_ROWS,
    LARGE_PITCH = GEMV_SMALL_MOST + 4 /* of a: its rows next to each other share no bank */
};

/* Values beyond m and n in shared memory are multiplied too, and not stored. */
DEVICE void multiply_large(const float *a, const float *b, float *c, const SmallShape &shape) {
    int group = threadIdx.x / 8, col = threadIdx.x % 8 * 4;
    float4 low[LARGE_ROWS] = {}, high[LARGE_ROWS] = {};
#pragma unroll 2
    for (int k = 0; k < shape.k; k += 4) {
        float4 of_a[LARGE_ROWS];
#pragma unroll
        for (int i = 0; i < LARGE_ROWS; i++)
            of_a[i] =
                *reinterpret_cast<const float4 *>(a + (group + i * LARGE_GROUPS) * LARGE_PITCH + k);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *of_b = b + (k + j) * GEMV_SMALL_MOST + col;
            float4 first = *reinterpret_cast<const float4 *>(of_b);
            float4 second = *reinterpret_cast<const float4 *>(of_b + GEMV_SMALL_MOST / 2);
#pragma unroll
            for (int i = 0; i < LARGE_ROWS; i++) {
                float value = j == 0   ? of_a[i].x
                              : j == 1 ? of_a[i].y
                              : j == 2 ? of_a[i].z
                                       : of_a[i].w;
                low[i] = fma4(value, first, low[i]);
                high[i] = fma4(value, second, high[i]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < LARGE_ROWS; i++) {
        int row = group + i * LARGE_GROUPS;
        if (row >= shape.m)
            break;
        store_small(c, row, col, low[i], shape);
        store_small(c, row, col + GEMV_SMALL_MOST / 2, high[i], shape);
    }
}

/* IS_WIDE: all operands are, so k is a multiple of 4. */
template <bool IS_WIDE>
DEVICE void gemm_batched_large(const float *a, const float *b, float *c, const SmallShape &shape,
                               int64_t stride_a, int64_t stride_b, int64_t stride_c,
                               int64_t batch) {
    enum { THREADS = GEMV_LARGE_THREADS, PITCH = GEMV_SMALL_MOST };
    __shared__ float4 room[GEMV_SMALL_FLOATS / 4];
    float *of_a = reinterpret_cast<float *>(room), *of_b = of_a + GEMV_SMALL_MOST * LARGE_PITCH;
    int i = (int)threadIdx.x;
    wait_for_earlier();
    let_next_start();
    for (int64_t at = blockIdx.x; at < batch; at += gridDim.x) {
        if (shape.k) {
            load_small(of_a, LARGE_PITCH, a + at * stride_a, shape.m, shape.k, shape.is_a_wide, i,
                       THREADS);
            load_small(of_b, PITCH, b + at * stride_b, shape.k, shape.n, shape.is_b_wide, i,
                       THREADS);
        }
        if constexpr (!IS_WIDE) {
            int n_filled = ((shape.k + 3) & ~3) - shape.k;
            for (int j = i; j < PITCH * n_filled; j += THREADS) {
                of_a[j % PITCH * LARGE_PITCH + shape.k + j / PITCH] = 0;
                of_b[shape.k * PITCH + j] = 0;
            }
        }
        commit_copies();
        wait_copies<0>();
        __syncthreads();
        multiply_large(of_a, of_b, c + at * stride_c, shape);
        __syncthreads();
    }
}

#endif
