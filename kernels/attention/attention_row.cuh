/*
 * Attention for any head_dim: one block per query row, with the output itself as the running sum.
 *
 * Warps score a tile of keys, then every thread adds the tile to its columns of the output.  No
 * size depends on head_dim, so this path takes what is beyond the tiles of the others.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_ROW_CUH
#define CUSHIM_KERNELS_ATTENTION_ROW_CUH

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_weight.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"

namespace {

enum { ROW_KEYS = 32 };

struct RowTile {
    float scores[ROW_KEYS], weights[ROW_KEYS];
};

/* One query row over `length` keys; k(key, d) and v(key, d) give an element. */
template <class Keys, class Values>
DEVICE void attend_row(RowTile *tile, const float *q, const Keys &k, const Values &v, float *o,
                       int64_t length, int64_t head_dim, float scale) {
    int lane = (int)threadIdx.x % WARP_LANES, warp = (int)threadIdx.x / WARP_LANES;
    float most = -INFINITY, sum = 0;
    for (int64_t first = 0; first < length; first += ROW_KEYS) {
        int n = length - first < ROW_KEYS ? (int)(length - first) : ROW_KEYS;
        for (int key = warp; key < n; key += ATTENTION_ROW_THREADS / WARP_LANES) {
            float part = 0;
            for (int64_t d = lane; d < head_dim; d += WARP_LANES)
                part = fmaf(q[d], k(first + key, d), part);
            part = sum_of_lanes<WARP_LANES>(part);
            if (lane == 0)
                tile->scores[key] = part;
        }
        __syncthreads();
        float most_before = most;
        for (int key = 0; key < n; key++)
            most = fmaxf(most, tile->scores[key]);
        float base = base_of(most), factor = factor_of(most_before, base, scale);
        if ((int)threadIdx.x < n)
            tile->weights[threadIdx.x] = weight_of(tile->scores[threadIdx.x], base, scale, 0);
        __syncthreads();
        sum *= factor;
        for (int key = 0; key < n; key++)
            sum += tile->weights[key];
        for (int64_t d = threadIdx.x; d < head_dim; d += ATTENTION_ROW_THREADS) {
            float value = first ? o[d] * factor : 0;
            for (int key = 0; key < n; key++)
                value = fmaf(tile->weights[key], v(first + key, d), value);
            o[d] = value;
        }
        __syncthreads();
    }
    float share = share_of(sum);
    for (int64_t d = threadIdx.x; d < head_dim; d += ATTENTION_ROW_THREADS)
        o[d] = sum == 0 ? 0 : o[d] * share;
}

} // namespace

KERNEL(attention_rows)(const __grid_constant__ attention_args args) {
    __shared__ RowTile tile;
    int64_t n_rows = args.n_heads * args.seq;
    for (int64_t row = blockIdx.x; row < n_rows; row += gridDim.x) {
        /* causal rows far down take longest, so they come first */
        int64_t at = n_rows - 1 - row, head = at % args.n_heads, query = at / args.n_heads;
        const float *k = args.k + head * args.seq * args.head_dim;
        const float *v = args.v + head * args.seq * args.head_dim;
        int64_t offset = (head * args.seq + query) * args.head_dim;
        int64_t dim = args.head_dim;
        attend_row(
            &tile, args.q + offset, [=](int64_t key, int64_t d) { return k[key * dim + d]; },
            [=](int64_t key, int64_t d) { return v[key * dim + d]; }, args.o + offset,
            args.is_causal ? query + 1 : args.seq, dim, args.scale);
    }
}

#endif
