/*
 * The selective scan of a state space model.
 *
 * 16 lanes have a channel and a state each, or one of every 16; they take 16 steps at a time.  Each
 * step's sum over states ends in the lane of its number, so that a channel's outputs are stored
 * side by side.
 */
#ifndef CUSHIM_KERNELS_REDUCE_SCAN_CUH
#define CUSHIM_KERNELS_REDUCE_SCAN_CUH

#include "kernels/device/device.cuh"
#include "kernels/reduce/reduce_scan.h"

namespace {

enum { SCAN_LANES = REDUCE_SCAN_LANES, SCAN_HELD = 4 /* states of a lane in a pass */ };

/* Sum SCAN_LANES numbers over as many lanes; lane i gets the sum of numbers i. */
DEVICE float turn_sums(float (&parts)[SCAN_LANES], int lane) {
#pragma unroll
    for (int step = SCAN_LANES / 2; step > 0; step /= 2) {
        bool is_upper = lane & step;
#pragma unroll
        for (int i = 0; i < step; i++) {
            float kept = is_upper ? parts[i + step] : parts[i];
            float given = is_upper ? parts[i] : parts[i + step];
            parts[i] = kept + __shfl_xor_sync(0xFFFFFFFF, given, step);
        }
    }
    return parts[0];
}

/* Add what states from `first` on give to a channel's outputs.  Whole warps call this. */
DEVICE void scan_pass(const struct scan_args &args, int64_t batch, int64_t channel, int64_t first,
                      bool is_there) {
    int lane = (int)threadIdx.x % SCAN_LANES;
    int64_t row = (batch * args.n_channels + channel) * args.seq;
    float a[SCAN_HELD], h[SCAN_HELD];
#pragma unroll
    for (int j = 0; j < SCAN_HELD; j++) {
        int64_t state = first + lane + j * SCAN_LANES;
        a[j] = state < args.n_states ? args.a[channel * args.n_states + state] : 0;
        h[j] = 0;
    }
    float skip = args.d ? args.d[channel] : 0;
    for (int64_t t = 0; t < args.seq; t += SCAN_LANES) {
        int n = args.seq - t < SCAN_LANES ? (int)(args.seq - t) : SCAN_LANES;
        float own = lane < n ? args.x[row + t + lane] : 0, x[SCAN_LANES], parts[SCAN_LANES];
#pragma unroll
        for (int u = 0; u < SCAN_LANES; u++) {
            x[u] = __shfl_sync(0xFFFFFFFF, own, u, SCAN_LANES);
            parts[u] = 0;
        }
#pragma unroll
        for (int j = 0; j < SCAN_HELD; j++) {
            int64_t state = first + lane + j * SCAN_LANES;
            if (state >= args.n_states)
                continue;
            int64_t at = (batch * args.n_states + state) * args.seq + t;
#pragma unroll
            for (int u = 0; u < SCAN_LANES; u++) {
                if (u < n) {
                    h[j] = fmaf(a[j], h[j], args.b[at + u] * x[u]);
                    parts[u] = fmaf(args.c[at + u], h[j], parts[u]);
                }
            }
        }
        float sum = turn_sums(parts, lane);
        if (!is_there || lane >= n)
            continue;
        float *y = args.y + row + t + lane;
        if (first)
            *y += sum;
        else
            *y = args.d ? fmaf(skip, own, sum) : sum;
    }
}

} // namespace

KERNEL(reduce_selective_scan_f32)(const __grid_constant__ struct scan_args args) {
    int64_t n = args.batch * args.n_channels, step = threads_of_grid() / SCAN_LANES;
    for (int64_t at = thread_of_grid() / SCAN_LANES; at / 2 * 2 < n; at += step) {
        int64_t i = at < n ? at : n - 1; /* the other half of a warp may have none */
        for (int64_t first = 0; first == 0 || first < args.n_states;
             first += SCAN_HELD * SCAN_LANES)
            scan_pass(args, i / args.n_channels, i % args.n_channels, first, at < n);
    }
}

#endif
