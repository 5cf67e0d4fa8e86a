/*
 * The chunks of decode in scratch become the output.
 *
 * A block has 32 columns of a query head, a column a lane; its warps take turns at the chunks, lane
 * i weighing number i of its warp.  All that most rows have is under way before the weights are
 * known.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_MERGE_CUH
#define CUSHIM_KERNELS_ATTENTION_MERGE_CUH

#include "kernels/attention.h"
#include "kernels/attention_weight.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/order.cuh"

KERNEL(attention_decode_merge)(const __grid_constant__ attention_decode_args args) {
    enum { N_WARPS = ATTENTION_MERGE_THREADS / WARP_LANES, HELD = 9 };
    static_assert((int)ATTENTION_MOST_CHUNKS <= (int)ATTENTION_MERGE_THREADS, "a chunk a thread");
    __shared__ float of_warp[N_WARPS], values[N_WARPS][WARP_LANES];
    int lane = (int)threadIdx.x % WARP_LANES, warp = (int)threadIdx.x / WARP_LANES;
    int n = args.n_chunks, chunk = warp + lane * N_WARPS;
    int64_t n_heads = args.batch * args.n_kv_heads * args.group;
    int64_t d = (int64_t)blockIdx.x * WARP_LANES + lane;
    let_next_start();
    wait_for_earlier();
    for (int64_t head = blockIdx.y; head < n_heads; head += gridDim.y) {
        const float *stats = args.stats + 2 * head * n;
        const float *parts = args.parts + head * n * args.head_dim + d;
        float held[HELD], most = -INFINITY, value = 0;
        float most_of_chunk = chunk < n ? stats[2 * chunk] : -INFINITY;
        float sum = chunk < n ? stats[2 * chunk + 1] : 0, weight = 0;
#pragma unroll
        for (int c = lane; c < ATTENTION_MOST_CHUNKS; c += WARP_LANES)
            most = fmaxf(most, c < n ? stats[2 * c] : -INFINITY);
        for (int first = 0; first * N_WARPS < n; first += HELD) {
#pragma unroll
            for (int i = 0; i < HELD; i++) {
                int c = warp + (first + i) * N_WARPS;
                held[i] = d < args.head_dim && c < n ? parts[c * args.head_dim] : 0;
            }
            if (first == 0)
                weight =
                    factor_of(most_of_chunk, base_of(most_of_lanes<WARP_LANES>(most)), args.scale);
#pragma unroll
            for (int i = 0; i < HELD; i++)
                value =
                    fmaf(held[i], __shfl_sync(0xFFFFFFFF, weight, (first + i) % WARP_LANES), value);
        }
        sum = sum_of_lanes<WARP_LANES>(sum * weight);
        values[warp][lane] = value;
        if (lane == 0)
            of_warp[warp] = sum;
        __syncthreads();
        if (warp == 0 && d < args.head_dim) {
            sum = value = 0;
#pragma unroll
            for (int w = 0; w < N_WARPS; w++) {
                sum += of_warp[w];
                value += values[w][lane];
            }
            args.o[head * args.head_dim + d] = sum == 0 ? 0 : value * share_of(sum);
        }
        __syncthreads();
    }
}

#endif
