/*
 * Rows of floats, or of halves, times one column.  Moves 4 bytes per weight; x is small, and stays
 * in the caches.
 *
 * A step is UNROLL loads per lane of each of ROWS rows, fewer in the last step, all asked for
 * before the first is used.  The sum of a step is formed separately before it joins the total.  The
 * warps of a block share rows if these are few, and the blocks of a cluster if they are fewer
 * still.  The order of a sum depends only on the shape.
 */
#ifndef CUSHIM_KERNELS_GEMV_F32_CUH
#define CUSHIM_KERNELS_GEMV_F32_CUH

#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/gemv/gemv_rows.cuh"

/* One value or four of them. */
struct OneFloat {
    typedef float Type;
    enum { N = 1 };
    DEVICE float load(const float *from) {
        return __ldcs(from);
    }
    DEVICE float load_kept(const float *from) {
        return __ldg(from);
    }
    DEVICE float times(float a, float x, float sum) {
        return fmaf(a, x, sum);
    }
};

struct FourFloats {
    typedef float4 Type;
    enum { N = 4 };
    DEVICE float4 load(const float *from) {
        return load_streamed(reinterpret_cast<const float4 *>(from));
    }
    DEVICE float4 load_kept(const float *from) {
        return __ldg(reinterpret_cast<const float4 *>(from));
    }
    DEVICE float times(float4 a, float4 x, float sum) {
        return fmaf(a.w, x.w, fmaf(a.z, x.z, fmaf(a.y, x.y, fmaf(a.x, x.x, sum))));
    }
};

/* N loads from i on, `step` values apart; if not IS_WHOLE, only those below n. */
template <class Access, int ROWS, int N, bool IS_WHOLE>
DEVICE void add_step(float (&sums)[ROWS][1], const float *const (&rows)[ROWS], const float *x,
                     int64_t n, int64_t i, int64_t step) {
    typename Access::Type a[N][ROWS] = {}, of_x[N] = {};
#pragma unroll
    for (int j = 0; j < N; j++) {
        if (IS_WHOLE || i + j * step < n) {
            of_x[j] = Access::load_kept(x + i + j * step);
#pragma unroll
            for (int row = 0; row < ROWS; row++)
                a[j][row] = Access::load(rows[row] + i + j * step);
        }
    }
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        float part = 0;
#pragma unroll
        for (int j = 0; j < N; j++)
            part = Access::times(a[j][row], of_x[j], part);
        sums[row][0] += part;
    }
}

/* Add the steps from lane `first` on to the sums, `stride` lanes from one to the next. */
template <class Access, int ROWS, int UNROLL>
DEVICE void add_products(float (&sums)[ROWS][1], const float *const (&rows)[ROWS], const float *x,
                         int64_t n, int64_t first, int64_t stride) {
    int64_t i = first * Access::N, step = stride * Access::N;
    for (; i + (UNROLL - 1) * step < n; i += UNROLL * step)
        add_step<Access, ROWS, UNROLL, true>(sums, rows, x, n, i, step);
    if (i < n)
        add_step<Access, ROWS, UNROLL - 1, false>(sums, rows, x, n, i, step);
}

template <class Access, int ROWS, int UNROLL>
DEVICE void gemv_f32(const float *a, const float *x, float *y, const RowsShape &shape) {
    int warp = threadIdx.x / 32, part = warp % shape.warps_per_row;
    int64_t rows_per_block = ROWS_WARPS / shape.warps_per_row * ROWS;
    wait_for_earlier();
    let_next_start();
    for (int64_t first = blockIdx.x * rows_per_block; first < shape.m;
         first += gridDim.x * rows_per_block) {
        int64_t row0 = first + warp / shape.warps_per_row * ROWS;
        const float *rows[ROWS];
        float sums[ROWS][1] = {};
#pragma unroll
        for (int row = 0; row < ROWS; row++)
            rows[row] = a + (row0 + row < shape.m ? row0 + row : shape.m - 1) * shape.k;
        add_products<Access, ROWS, UNROLL>(sums, rows, x, shape.k, part * 32 + threadIdx.x % 32,
                                           shape.warps_per_row * 32);
        store_rows<ROWS, 1>(sums, y, shape, row0, part);
    }
}

/* Halves: a warp per row, N of 1 or 8 neighbours at a time. */
template <int N>
DEVICE void gemv_f16(const uint16_t *a, const uint16_t *x, uint16_t *y, int64_t m, int64_t n) {
    int64_t row = thread_of_grid() / 32;
    int lane = (int)threadIdx.x % 32;
    float sum = 0;
    wait_for_earlier();
    let_next_start();
    if (row >= m)
        return;
    const uint16_t *from = a + row * n;
    for (int64_t i = (int64_t)lane * N; i < n; i += 32 * N) {
        if (N == 1) {
            sum = fmaf(f32_of_f16(from[i]), f32_of_f16(x[i]), sum);
            continue;
        }
        uint4 of_a = load_streamed(reinterpret_cast<const uint4 *>(from + i));
        uint4 of_x = __ldg(reinterpret_cast<const uint4 *>(x + i));
        const uint32_t as[4] = {of_a.x, of_a.y, of_a.z, of_a.w};
        const uint32_t xs[4] = {of_x.x, of_x.y, of_x.z, of_x.w};
        float part = 0;
#pragma unroll
        for (int word = 0; word < 4; word++) {
            float2 left = f32x2_of_f16x2(as[word]), right = f32x2_of_f16x2(xs[word]);
            part = fmaf(left.y, right.y, fmaf(left.x, right.x, part));
        }
        sum += part;
    }
    sum = sum_of_warp(sum);
    if (lane == 0)
        y[row] = f16_of_f32(sum);
}

/* One cluster per row. */
template <class Access, int UNROLL>
DEVICE void gemv_f32_split(const float *a, const float *x, float *y, int64_t n, float *shared) {
    unsigned n_ranks = cluster_size(), rank = cluster_rank();
    int64_t row = blockIdx.x / n_ranks;
    const float *rows[1] = {a + row * n};
    float sums[1][1] = {};
    wait_for_earlier();
    let_next_start();
    add_products<Access, 1, UNROLL>(sums, rows, x, n, (int64_t)rank * ROWS_THREADS + threadIdx.x,
                                    (int64_t)n_ranks * ROWS_THREADS);
    float sum = sum_of_warp(sums[0][0]);
    if (threadIdx.x % 32 == 0)
        shared[1 + threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = shared[1];
        for (int warp = 1; warp < ROWS_WARPS; warp++)
            total += shared[1 + warp];
        shared[0] = total;
    }
    cluster_sync();
    bool is_first = rank == 0 && threadIdx.x == 0;
    float total = 0;
    if (is_first) {
        total = shared[0];
        for (unsigned other = 1; other < n_ranks; other++)
            total += *cluster_shared(shared, other);
    }
    cluster_arrive(); /* no block ends before it was read, but none need wait for the store */
    if (is_first)
        y[row] = total;
    cluster_wait();
}

#endif
