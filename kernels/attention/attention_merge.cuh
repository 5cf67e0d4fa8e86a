/*
 * Join the chunks of decode in scratch to the output.
 *
 * A block has 128 columns of a row, four per lane.  Its warps take turns at the chunks, and
 * lane i weighs number i of its warp.  A block of eight warps starts beside one of decode that has
 * the other registers of a multiprocessor, and waits there.
 * All loads that most rows need are in flight before the weights are known.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_MERGE_CUH
#define CUSHIM_KERNELS_ATTENTION_MERGE_CUH

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cache.cuh"
#include "kernels/attention/attention_weight.cuh"
#include "kernels/device/access.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/arch/dependent_launch.cuh"

/* Where the output of a row of chunks lies, in rows; -1 if its sequence has no such query. */
DEVICE int64_t place_of(const attention_cached_args &args, int64_t row) {
    if (!args.q_begin && !args.q_len)
        return row;
    int64_t n_heads = args.n_kv_heads * args.group, n_rows = args.max_q_len * n_heads;
    int64_t sequence = row / n_rows, of_sequence = row - sequence * n_rows;
    if (of_sequence / n_heads >= clamped(args.q_len, sequence, args.max_q_len))
        return -1;
    return args.q_begin ? args.q_begin[sequence] * n_heads + of_sequence : row;
}

/* With four blocks per multiprocessor, one has registers beside a block of decode. */
KERNEL_OF(ATTENTION_MERGE_THREADS, 4, attention_decode_merge)
(const __grid_constant__ attention_cached_args args) {
    enum { N_WARPS = ATTENTION_MERGE_THREADS / WARP_LANES, HELD = 5 };
    static_assert((int)ATTENTION_MOST_CHUNKS <= (int)ATTENTION_MERGE_THREADS, "a chunk a thread");
    __shared__ float of_warp[N_WARPS];
    __shared__ float4 values[N_WARPS][WARP_LANES];
    int lane = (int)threadIdx.x % WARP_LANES, warp = (int)threadIdx.x / WARP_LANES;
    int n = args.n_chunks, dim = (int)args.head_dim, own = warp + lane * N_WARPS;
    int first_column = (int)blockIdx.y * ATTENTION_MERGE_COLUMNS, column = first_column + 4 * lane;
    int stride = ATTENTION_PART_COLUMNS(dim) / 4, step = N_WARPS * stride;
    int64_t row = blockIdx.x;
    const float2 *stats = reinterpret_cast<const float2 *>(args.stats) + row * n;
    const float4 *part = reinterpret_cast<const float4 *>(args.parts) + row * n * stride +
                         warp * stride + (column < dim ? column : 0) / 4;
    stats = afresh(stats); /* computed here, not behind the wait */
    part = afresh(part);
    let_next_start();
    wait_for_earlier();
    row = place_of(args, row);
    if (row < 0)
        return;
    float2 of_chunk = own < n ? stats[own] : make_float2(-INFINITY, 0);
    float most = lane < n ? stats[lane].x : -INFINITY, weight = 0, sum = 0;
    float most_beyond = lane + WARP_LANES < n ? stats[lane + WARP_LANES].x : -INFINITY;
    float4 held[HELD], value = make_float4(0, 0, 0, 0);
    int first = 0; /* number of the warp's */
    do {
#pragma unroll
        for (int i = 0; i < HELD; i++, part += step) {
            if (warp + (first + i) * N_WARPS >= n)
                break;
            held[i] = *part;
        }
        if (first == 0) {
            for (int c = lane + 2 * WARP_LANES; c < n; c += WARP_LANES)
                most = fmaxf(most, stats[c].x);
            most = max_of_lanes<WARP_LANES>(fmaxf(most, most_beyond));
            weight = factor_of(of_chunk.x, base_of(most), args.scale);
        }
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (warp + (first + i) * N_WARPS >= n)
                break;
            float of_held = __shfl_sync(0xFFFFFFFF, weight, first + i);
            sum = fmaf(__shfl_sync(0xFFFFFFFF, of_chunk.y, first + i), of_held, sum);
            value.x = fmaf(held[i].x, of_held, value.x);
            value.y = fmaf(held[i].y, of_held, value.y);
            value.z = fmaf(held[i].z, of_held, value.z);
            value.w = fmaf(held[i].w, of_held, value.w);
        }
        first += HELD;
    } while (first * N_WARPS < n);
    values[warp][lane] = value;
    if (lane == 0)
        of_warp[warp] = sum;
    __syncthreads();
    int d = first_column + (int)threadIdx.x;
    if (threadIdx.x < ATTENTION_MERGE_COLUMNS && d < dim) {
        float all = sum = 0;
#pragma unroll
        for (int w = 0; w < N_WARPS; w++) {
            sum += of_warp[w];
            all += reinterpret_cast<const float *>(values[w])[threadIdx.x];
        }
        args.o[row * dim + d] = sum == 0 ? 0 : all * share_of(sum);
    }
}

#endif
