/*
 * Products of matrices at any strides on fp32 units: a tile of 64 x 64 per block, 4 x 4 per thread,
 * 32 of k at a time.
 *
 * The products of 32 are summed separately, so that no sum has many terms.  Neighbouring threads
 * load along the axis of an input that is contiguous.
 */
#include "kernels/device/device.cuh"
#include "kernels/device/math/e4m3.cuh"
#include "kernels/product/product.h"

namespace {

struct Floats {
    typedef float In;
    typedef float Out;
    DEVICE float widen(float value) {
        return value;
    }
    DEVICE void store(float *to, float value, float beta) {
        *to = beta == 0 ? value : fmaf(beta, *to, value);
    }
};

struct Codes {
    typedef uint8_t In;
    typedef uint16_t Out;
    DEVICE float widen(uint8_t code) {
        return f32_of_e4m3<HardwareE4m3>(code);
    }
    DEVICE void store(uint16_t *to, float value, float) {
        *to = f16_of_f32(value);
    }
};

enum { TILE = PRODUCT_TILE, DEPTH = PRODUCT_DEPTH, PITCH = TILE + 4 };

/* `n_across` and `n_deep` elements from the first on, which are `across` and `deep` apart; then
 * zeros. */
template <class Of>
DEVICE void stage(float (*to)[PITCH], const typename Of::In *first, int64_t across, int64_t deep,
                  int64_t n_across, int64_t n_deep) {
    bool is_deep = deep < across;
    for (int i = (int)threadIdx.x; i < TILE * DEPTH; i += PRODUCT_THREADS) {
        int x = is_deep ? i / DEPTH : i % TILE, d = is_deep ? i % DEPTH : i / TILE;
        to[d][x] = x < n_across && d < n_deep ? Of::widen(first[x * across + d * deep]) : 0;
    }
}

template <class Of> DEVICE void multiply(const struct product_args &args) {
    __shared__ __align__(16) float of_a[DEPTH][PITCH];
    __shared__ __align__(16) float of_b[DEPTH][PITCH];
    int64_t tiles_n = (args.n - 1) / TILE + 1;
    int64_t row0 = blockIdx.x / tiles_n * TILE, col0 = blockIdx.x % tiles_n * TILE;
    int row = (int)threadIdx.x / 16 * 4, col = (int)threadIdx.x % 16 * 4;
    for (int64_t i = blockIdx.y; i < args.batch; i += gridDim.y) {
        float sums[4][4] = {};
        for (int64_t first = 0; first < args.k; first += DEPTH) {
            const typename Of::In *a = (const typename Of::In *)args.a,
                                  *b = (const typename Of::In *)args.b;
            __syncthreads();
            stage<Of>(of_a,
                      a + i * args.of_a.batch + row0 * args.of_a.row + first * args.of_a.column,
                      args.of_a.row, args.of_a.column, args.m - row0, args.k - first);
            stage<Of>(of_b,
                      b + i * args.of_b.batch + first * args.of_b.row + col0 * args.of_b.column,
                      args.of_b.column, args.of_b.row, args.n - col0, args.k - first);
            __syncthreads();
            float parts[4][4] = {};
#pragma unroll 8
            for (int d = 0; d < DEPTH; d++) {
                float4 rows = *reinterpret_cast<const float4 *>(&of_a[d][row]);
                float4 columns = *reinterpret_cast<const float4 *>(&of_b[d][col]);
                const float xs[4] = {rows.x, rows.y, rows.z, rows.w};
                const float ys[4] = {columns.x, columns.y, columns.z, columns.w};
#pragma unroll
                for (int at = 0; at < 16; at++)
                    parts[at / 4][at % 4] = fmaf(xs[at / 4], ys[at % 4], parts[at / 4][at % 4]);
            }
#pragma unroll
            for (int at = 0; at < 16; at++)
                sums[at / 4][at % 4] += parts[at / 4][at % 4];
        }
        typename Of::Out *c = (typename Of::Out *)args.c + i * args.of_c.batch;
#pragma unroll
        for (int at = 0; at < 16; at++) {
            int64_t r = row0 + row + at / 4, q = col0 + col + at % 4;
            if (r < args.m && q < args.n)
                Of::store(c + r * args.of_c.row + q * args.of_c.column,
                          args.alpha * sums[at / 4][at % 4], args.beta);
        }
    }
}

} // namespace

KERNEL_OF(256, 2, product_gemm_strided_f32)(const __grid_constant__ struct product_args args) {
    multiply<Floats>(args);
}

KERNEL_OF(256, 2, product_gemm_e4m3_f16)(const __grid_constant__ struct product_args args) {
    multiply<Codes>(args);
}
