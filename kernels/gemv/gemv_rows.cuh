/*
 * Quantised weights times one to eight columns: the frame that the formats share.
 *
 * A warp has ROWS rows and adds up each of them in its lanes, 32 values at a time before the scale.
 * If rows are few, `warps_per_row` warps of a block share them, and each has every such step.  The
 * columns lie in shared memory, a slice of k at a time, so any k works.  The weights of a step are
 * asked for before those of the step before are used, and before their slice of the columns is
 * there.  The order of every sum depends only on the shape.
 *
 * A Work has: Fetched and fetch (from global memory), hold and release (between lanes, if they
 * exchange what they fetched), add (into the sums), stage (a slice of the columns).
 */
#ifndef CUSHIM_KERNELS_GEMV_ROWS_CUH
#define CUSHIM_KERNELS_GEMV_ROWS_CUH

#include <float.h>

#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/gemv/gemv_formats.cuh"

enum { ROWS_THREADS = 256, ROWS_WARPS = ROWS_THREADS / 32 };

/* The parameters of every such kernel: c[m][n] = w[m][k] * b[k][n]. */
struct RowsShape {
    int64_t m, k, n;
    int warps_per_row; /* a power of two up to ROWS_WARPS */
};

DEVICE float sum_of_warp(float value) {
#pragma unroll
    for (int flips = 16; flips; flips /= 2)
        value += __shfl_xor_sync(0xFFFFFFFF, value, flips);
    return value;
}

/* 16 bytes; neighbouring loads need the rest of the sector. */
DEVICE uint4 load_kept(const uint4 *from) {
    return __ldg(from);
}

/* A slice of the only column, with `gap` floats after each `run` values. */
DEVICE void stage_column(float *column, int gap, int run, const float *from, int n) {
    if (reinterpret_cast<uintptr_t>(from) % 16) {
        for (int i = threadIdx.x; i < n; i += ROWS_THREADS)
            column[i + i / run * gap] = __ldg(from + i);
        return;
    }
    for (int i = 4 * threadIdx.x; i < n; i += 4 * ROWS_THREADS)
        *reinterpret_cast<float4 *>(column + i + i / run * gap) =
            __ldg(reinterpret_cast<const float4 *>(from + i));
}

/* The first warp of those that share rows adds what each of them has, and stores. */
template <int ROWS, int COLS>
DEVICE void store_rows(float (&sums)[ROWS][COLS], float *c, const RowsShape &shape, int64_t row0,
                       int part) {
    __shared__ float parts[ROWS_WARPS][ROWS * COLS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
#pragma unroll
        for (int col = 0; col < COLS; col++) {
            float sum = sum_of_warp(sums[row][col]);
            if (lane == 0)
                parts[warp][row * COLS + col] = sum;
        }
    }
    __syncthreads();
    int row = lane / COLS, col = lane % COLS;
    if (part == 0 && lane < ROWS * COLS && row0 + row < shape.m && col < shape.n) {
        float sum = parts[warp][lane];
        for (int other = 1; other < shape.warps_per_row; other++)
            sum += parts[warp + other][lane];
        c[(row0 + row) * shape.n + col] = sum;
    }
    __syncthreads();
}

template <class Work> DEVICE void run_rows(Work &work, float *c, const RowsShape &shape) {
    int warp = threadIdx.x / 32, part = warp % shape.warps_per_row;
    int64_t rows_per_block = ROWS_WARPS / shape.warps_per_row * Work::ROWS;
    bool is_staged = false; /* the only slice of the columns is there */
    wait_for_earlier();
    let_next_start();
    for (int64_t first = blockIdx.x * rows_per_block; first < shape.m;
         first += gridDim.x * rows_per_block) {
        int64_t row0 = first + warp / shape.warps_per_row * Work::ROWS;
        float sums[Work::ROWS][Work::COLS] = {};
        work.take_rows(row0);
        for (int64_t at = 0; at < shape.k; at += Work::SLICE) {
            int n = shape.k - at < Work::SLICE ? (int)(shape.k - at) : (int)Work::SLICE;
            int step = part * Work::STEP, stride = shape.warps_per_row * Work::STEP;
            typename Work::Fetched fetched;
            if (step < n)
                fetched = work.fetch(at + step, n - step);
            if (!is_staged) {
                __syncthreads();
                work.stage(at, n);
                __syncthreads();
                is_staged = shape.k <= Work::SLICE;
            }
            for (; step < n; step += stride) {
                typename Work::Held held = work.hold(fetched, n - step);
                if (step + stride < n)
                    fetched = work.fetch(at + step + stride, n - step - stride);
                work.add(sums, held, step, n - step);
                work.release();
            }
        }
        store_rows<Work::ROWS, Work::COLS>(sums, c, shape, row0, part);
    }
}

#endif
