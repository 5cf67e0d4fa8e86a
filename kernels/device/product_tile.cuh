/*
 * Quantised weights times columns without matrix units: a tile of 64 x 64 per block, 4 x 4 per
 * thread, a block of 32 of k at a time.  The products of a block are summed separately before the
 * scale.
 *
 * A Format has a Block with a scale, load, which takes the place of a matrix and the number of a
 * block, and four, which makes floats of four of its values.
 */
#ifndef CUSHIM_KERNELS_PRODUCT_TILE_CUH
#define CUSHIM_KERNELS_PRODUCT_TILE_CUH

#include "kernels/device/device.cuh"

/* TILE_DEPTH is a block of weights. */
enum { TILE = 64, TILE_DEPTH = 32, TILE_THREADS = 256, TILE_PITCH = TILE + 4 };

/* Threads below TILE have a row of weights each, the others the columns. */
template <class Format, class Place>
DEVICE void stage_tile(float (*weights)[TILE_PITCH], float *scales, float (*columns)[TILE],
                       const Place &w, const float *b, int64_t m, int64_t n, int64_t row0,
                       int64_t col0, int64_t block, int64_t n_blocks) {
    int i = threadIdx.x;
    if (i < TILE) {
        int64_t row = row0 + i < m ? row0 + i : m - 1;
        typename Format::Block own = Format::template load<false>(w, row * n_blocks + block);
        scales[i] = own.scale;
#pragma unroll
        for (int j = 0; j < TILE_DEPTH / 4; j++) {
            float4 values = Format::four(own, j);
            weights[4 * j][i] = values.x;
            weights[4 * j + 1][i] = values.y;
            weights[4 * j + 2][i] = values.z;
            weights[4 * j + 3][i] = values.w;
        }
    } else {
        for (i -= TILE; i < TILE_DEPTH * TILE; i += TILE_THREADS - TILE) {
            int value = i / TILE, col = i % TILE;
            columns[value][col] =
                col0 + col < n ? __ldg(b + (block * TILE_DEPTH + value) * n + col0 + col) : 0;
        }
    }
}

template <class Format, class Place>
DEVICE void run_tile(const Place &w, const float *b, float *c, int64_t m, int64_t k, int64_t n) {
    __shared__ __align__(16) float weights[TILE_DEPTH][TILE_PITCH];
    __shared__ __align__(16) float columns[TILE_DEPTH][TILE];
    __shared__ float scales[TILE];
    int64_t tiles_n = (n - 1) / TILE + 1, n_blocks = k / TILE_DEPTH;
    int64_t row0 = blockIdx.x / tiles_n * TILE, col0 = blockIdx.x % tiles_n * TILE;
    int row = threadIdx.x / 16 * 4, col = threadIdx.x % 16 * 4;
    float sums[4][4] = {};
    for (int64_t block = 0; block < n_blocks; block++) {
        __syncthreads();
        stage_tile<Format>(weights, scales, columns, w, b, m, n, row0, col0, block, n_blocks);
        __syncthreads();
        float parts[4][4] = {};
#pragma unroll 8
        for (int i = 0; i < TILE_DEPTH; i++) {
            float4 of_w = *reinterpret_cast<const float4 *>(&weights[i][row]);
            float4 of_x = *reinterpret_cast<const float4 *>(&columns[i][col]);
            const float ws[4] = {of_w.x, of_w.y, of_w.z, of_w.w};
            const float xs[4] = {of_x.x, of_x.y, of_x.z, of_x.w};
#pragma unroll
            for (int at = 0; at < 16; at++)
                parts[at / 4][at % 4] = fmaf(ws[at / 4], xs[at % 4], parts[at / 4][at % 4]);
        }
#pragma unroll
        for (int at = 0; at < 16; at++)
            sums[at / 4][at % 4] =
                fmaf(scales[row + at / 4], parts[at / 4][at % 4], sums[at / 4][at % 4]);
    }
#pragma unroll
    for (int at = 0; at < 16; at++) {
        if (row0 + row + at / 4 < m && col0 + col + at % 4 < n)
            c[(row0 + row + at / 4) * n + col0 + col + at % 4] = sums[at / 4][at % 4];
    }
}

#endif
