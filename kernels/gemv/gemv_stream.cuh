/*
 * Blocks of bytes (q8_0, q8f) times one column (sm_90): blocks that stay, and plain products.
 *
 * A warp has a slice of 1024 values of k.  Each lane keeps 32 values of the column in registers,
 * and bulk copies bring the rows' bytes of the slice to shared memory, two sets of four rows at a
 * time.  So no other work is needed before the first products, and little beside them.  The warps
 * of a group have the slices of the same rows, and the groups of a block take its rows by turns;
 * what they have of a row is added up at the end.  The order of every sum depends only on the
 * shape.
 */
#ifndef CUSHIM_KERNELS_GEMV_STREAM_CUH
#define CUSHIM_KERNELS_GEMV_STREAM_CUH

#include "kernels/device/arch/bulk_copy.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/gemv/gemv_formats.cuh"
#include "kernels/gemv/gemv_kernels.h"

enum {
    STREAM_ROWS = GEMV_STREAM_ROWS, /* of a set */
    STREAM_STAGES = GEMV_STREAM_STAGES,
    STREAM_SLICE = GEMV_STREAM_SLICE,
};
static_assert(GEMV_STREAM_WARPS * STREAM_STAGES * sizeof(Delivery) <= GEMV_STREAM_HEAD_BYTES,
              "a delivery a stage");

template <class Format> struct Stream {
    typedef typename Format::Block Block;
    enum { ROW_BYTES = STREAM_SLICE / BLOCK_VALUES * Format::BYTES };
    enum { STAGE_BYTES = STREAM_ROWS * ROW_BYTES };

    int64_t m, k;
    const uint8_t *w;
    int lane, n_slices, slice, n_groups, group;
    int n_sets;       /* of the block's rows */
    unsigned n_bytes; /* of a row's slice: less than ROW_BYTES in the last one */

    /* in shared memory; deliveries and stages of the warp */
    Delivery *deliveries;
    float *parts;
    uint8_t *stages;

    float4 x[BLOCK_VALUES / 4];

    MEMBER Stream(int64_t m, int64_t k, const uint8_t *w, uint8_t *shared)
        : m(m), k(k), w(w), lane(threadIdx.x % 32),
          n_slices((int)((k + STREAM_SLICE - 1) / STREAM_SLICE)) {
        int warp = threadIdx.x / 32, left = (int)k;
        slice = warp % n_slices;
        n_groups = blockDim.x / 32 / n_slices;
        group = warp / n_slices;
        left -= slice * STREAM_SLICE;
        n_bytes = (left < STREAM_SLICE ? left : (int)STREAM_SLICE) / BLOCK_VALUES * Format::BYTES;
        int64_t all_sets = (m + STREAM_ROWS - 1) / STREAM_ROWS;
        n_sets = (int)((all_sets - 1 - blockIdx.x) / gridDim.x) + 1;
        deliveries = reinterpret_cast<Delivery *>(shared) + warp * STREAM_STAGES;
        parts = reinterpret_cast<float *>(shared + GEMV_STREAM_HEAD_BYTES);
        stages = shared + GEMV_STREAM_HEAD_BYTES +
                 GEMV_STREAM_PARTS_BYTES(n_sets * STREAM_ROWS * n_slices) +
                 warp * (STREAM_STAGES * STAGE_BYTES);
    }

    /* The row of the block's set i; rows beyond the last repeat it, and are not stored. */
    MEMBER int64_t row_of(int i, int row) const {
        return (blockIdx.x + (int64_t)i * gridDim.x) * STREAM_ROWS + row;
    }

    MEMBER void ask(int i, int stage) const {
        if (i >= n_sets)
            return;
        if (lane == 0)
            expect_delivery(deliveries + stage, STREAM_ROWS * n_bytes);
        __syncwarp();
        if (lane < STREAM_ROWS)
            copy_bulk(stages + stage * STAGE_BYTES + lane * ROW_BYTES, slice_of(row_of(i, lane)),
                      n_bytes, deliveries + stage);
    }

    MEMBER const uint8_t *slice_of(int64_t row) const {
        int64_t row_bytes = k / BLOCK_VALUES * Format::BYTES;
        return w + (row < m ? row : m - 1) * row_bytes + slice * ROW_BYTES;
    }

    /* Ask for the warp's first sets while the kernel ahead may still run. */
    MEMBER void prefetch() const {
#pragma unroll
        for (int stage = 0; stage < STREAM_STAGES; stage++) {
            int i = group + stage * n_groups;
            if (i < n_sets && lane < STREAM_ROWS)
                prefetch_early(slice_of(row_of(i, lane)), n_bytes);
        }
    }

    /* Clear what no copy reaches in the stages if a slice is short: blocks of 0, which are
     * multiplied by 0. */
    MEMBER void clear_ends() const {
#pragma unroll 1
        for (int row = 0; row < STREAM_STAGES * STREAM_ROWS; row++) {
#pragma unroll 1
            for (unsigned at = n_bytes + 4 * lane; at < ROW_BYTES; at += 4 * 32)
                *reinterpret_cast<uint32_t *>(stages + row * ROW_BYTES + at) = 0;
        }
    }

    MEMBER void take_column(const float *b) {
        int64_t first = (int64_t)slice * STREAM_SLICE + lane * BLOCK_VALUES;
        bool is_wide = reinterpret_cast<uintptr_t>(b) % 16 == 0;
        const float *from = b + first;
#pragma unroll
        for (int i = 0; i < BLOCK_VALUES / 4; i++)
            x[i] = make_float4(0, 0, 0, 0);
        if (first >= k)
            return;
        if (is_wide) {
#pragma unroll
            for (int i = 0; i < BLOCK_VALUES / 4; i++)
                x[i] = __ldg(reinterpret_cast<const float4 *>(from) + i);
        } else {
#pragma unroll
            for (int i = 0; i < BLOCK_VALUES / 4; i++)
                x[i] = make_float4(__ldg(from + 4 * i), __ldg(from + 4 * i + 1),
                                   __ldg(from + 4 * i + 2), __ldg(from + 4 * i + 3));
        }
    }

    MEMBER float product(const uint8_t *row) const {
        Block block = Format::unpack(reinterpret_cast<const uint32_t *>(row), lane);
        float sums[2] = {};
#pragma unroll
        for (int i = 0; i < BLOCK_VALUES / 4; i++) {
            float4 q = Format::four(block, i);
            sums[0] = fmaf(q.x, x[i].x, sums[0]);
            sums[1] = fmaf(q.y, x[i].y, sums[1]);
            sums[0] = fmaf(q.z, x[i].z, sums[0]);
            sums[1] = fmaf(q.w, x[i].w, sums[1]);
        }
        return block.scale * (sums[0] + sums[1]);
    }

    /* The sums over all lanes of row `lane` % 4; halves of lanes exchange what the other one
     * has. */
    MEMBER float sum_of_rows(const float (&sums)[STREAM_ROWS]) const {
        static_assert(STREAM_ROWS == 4, "two exchanges");
        bool is_odd = lane & 1, is_upper = lane & 2;
        float low = is_odd ? sums[1] : sums[0], high = is_odd ? sums[3] : sums[2];
        low += __shfl_xor_sync(0xFFFFFFFF, is_odd ? sums[0] : sums[1], 1);
        high += __shfl_xor_sync(0xFFFFFFFF, is_odd ? sums[2] : sums[3], 1);
        float sum = is_upper ? high : low;
        sum += __shfl_xor_sync(0xFFFFFFFF, is_upper ? low : high, 2);
#pragma unroll
        for (int flips = 4; flips < 32; flips *= 2)
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, flips);
        return sum;
    }

    MEMBER void run(const float *b, float *c) {
        prefetch();
        if (lane < STREAM_STAGES)
            make_delivery(deliveries + lane);
        clear_ends();
        __syncwarp();
        wait_for_earlier();
        let_next_start();
#pragma unroll
        for (int stage = 0; stage < STREAM_STAGES; stage++)
            ask(group + stage * n_groups, stage);
        take_column(b);
        int stage = 0;
        unsigned round = 0;
        for (int i = group; i < n_sets; i += n_groups) {
            float sums[STREAM_ROWS];
            wait_for_delivery(deliveries + stage, round);
#pragma unroll
            for (int row = 0; row < STREAM_ROWS; row++)
                sums[row] = product(stages + stage * STAGE_BYTES + row * ROW_BYTES);
            __syncwarp();
            ask(i + STREAM_STAGES * n_groups, stage);
            if (++stage == STREAM_STAGES) {
                stage = 0;
                round++;
            }
            float sum = sum_of_rows(sums);
            if (lane < STREAM_ROWS)
                parts[(i * STREAM_ROWS + lane) * n_slices + slice] = sum;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < n_sets * STREAM_ROWS; i += blockDim.x) {
            int64_t row = row_of(i / STREAM_ROWS, i % STREAM_ROWS);
            float sum = 0;
            for (int part = 0; part < n_slices; part++)
                sum += parts[i * n_slices + part];
            if (row < m)
                c[row] = sum;
        }
    }
};

#endif
