/*
 * What a warp does on fp32 units with a tile that matrix units cannot do: infinities, NaN,
 * magnitudes too far apart.
 *
 * Scores, weights and output lie in registers as the matrix unit has them
 * (kernels/device/arch/mma.cuh, D): of 16 rows and tiles of 8 columns a thread has rows lane / 4
 * and 8 below, columns 2 (lane % 4) and the next.  Keys and values are floats in shared memory, DIM
 * per row.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_HARD_CUH
#define CUSHIM_KERNELS_ATTENTION_HARD_CUH

#include "kernels/device/device.cuh"

namespace {

/* Score the thread's rows, whose queries are q0 and q1. */
template <int DIM, int KEY_TILES>
DEVICE void score_hard(float (&scores)[KEY_TILES][4], const float *q0, const float *q1,
                       const float *keys, int dim) {
    const float *k = keys + threadIdx.x % 4 * 2 * DIM;
#pragma unroll
    for (int i = 0; i < KEY_TILES; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            scores[i][e] = 0;
#pragma unroll 1
    for (int d = 0; d < dim; d++) {
        float a = q0[d], b = q1[d];
#pragma unroll
        for (int i = 0; i < KEY_TILES; i++) {
            float x = k[8 * i * DIM + d], y = k[(8 * i + 1) * DIM + d];
            scores[i][0] = fmaf(a, x, scores[i][0]);
            scores[i][1] = fmaf(a, y, scores[i][1]);
            scores[i][2] = fmaf(b, x, scores[i][2]);
            scores[i][3] = fmaf(b, y, scores[i][3]);
        }
    }
}

/*
 * out = out * factor + weights * unscale * values.  Row r sees the first limit[r] keys; the others
 * are skipped, because their values may be NaN.
 */
template <int DIM, int DIM_TILES, int KEY_TILES>
DEVICE void add_hard(float (&out)[DIM_TILES][4], const float (&weights)[KEY_TILES][4],
                     const float (&factor)[2], float unscale, const float *values,
                     const int (&limit)[2]) {
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < DIM_TILES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            out[n][e] *= factor[e / 2];
#pragma unroll 1
    for (int source = 0; source < 8; source++) { /* each of four lanes has two keys of a tile */
#pragma unroll
        for (int i = 0; i < KEY_TILES; i++) {
            int from = (lane & ~3) + source / 2, key = 8 * i + source;
            float a = source % 2 ? weights[i][1] : weights[i][0];
            float b = source % 2 ? weights[i][3] : weights[i][2];
            a = __shfl_sync(0xFFFFFFFF, a, from) * unscale;
            b = __shfl_sync(0xFFFFFFFF, b, from) * unscale;
#pragma unroll
            for (int n = 0; n < DIM_TILES; n++) {
                float2 value =
                    *reinterpret_cast<const float2 *>(values + key * DIM + 8 * n + lane % 4 * 2);
                if (key < limit[0]) {
                    out[n][0] = fmaf(a, value.x, out[n][0]);
                    out[n][1] = fmaf(a, value.y, out[n][1]);
                }
                if (key < limit[1]) {
                    out[n][2] = fmaf(b, value.x, out[n][2]);
                    out[n][3] = fmaf(b, value.y, out[n][3]);
                }
            }
        }
    }
}

} // namespace

#endif
