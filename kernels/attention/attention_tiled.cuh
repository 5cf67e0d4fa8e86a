/*
 * Attention on fp32 units: a block takes ROWS query rows through tiles of KEYS keys.
 *
 * A row belongs to LANES neighbouring threads, and a thread has 4 rows: 4 rows by KEYS / LANES keys
 * of the scores, 4 rows by DIM / LANES columns of the output, all in registers.  Weights go through
 * shared memory.  A masked key has weight -1 there and is skipped, because its value may be NaN.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_TILED_CUH
#define CUSHIM_KERNELS_ATTENTION_TILED_CUH

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_weight.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"

namespace {

template <int DIM, int ROWS, int KEYS, int LANES> struct Tiled {
    enum {
        THREADS = ROWS / 4 * LANES,
        STRIDE = DIM + 4,         /* of rows of Q, K and V */
        WEIGHT_STRIDE = ROWS + 4, /* of keys of the weights */
        MY_KEYS = KEYS / LANES,
        MY_WIDES = DIM / LANES / 4 /* four columns each */
    };
    float *q, *kv, *weights; /* in shared memory */
    int dim;
    float scale;
    bool is_wide;        /* rows of the output are multiples of 16 bytes */
    int lane, first_row; /* of the row's threads; of the thread's rows in the block's */
    float out[4][MY_WIDES][4];
    float most[4], sum[4];

    template <class Args>
    __device__ Tiled(float *shared, const Args &args)
        : q(shared), kv(q + ROWS * STRIDE), weights(kv + KEYS * STRIDE), dim((int)args.head_dim),
          scale(args.scale), is_wide(args.is_wide), lane((int)threadIdx.x % LANES),
          first_row((int)threadIdx.x / LANES * 4) {
    }

    /* n_valid rows, of which four(row, column) gives four columns, then zeros. */
    template <class Four>
    __device__ void load(float *to, int n_rows, int64_t n_valid, const Four &four) {
        for (int i = (int)threadIdx.x; i < n_rows * (DIM / 4); i += THREADS) {
            int row = i / (DIM / 4), column = i % (DIM / 4) * 4;
            float4 value = make_float4(0, 0, 0, 0);
            if (row < n_valid)
                value = four(row, column);
            *reinterpret_cast<float4 *>(to + row * STRIDE + column) = value;
        }
    }

    __device__ void score(float (&scores)[4][MY_KEYS]) {
        int n_wides = (dim + 3) / 4;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < MY_KEYS; j++)
                scores[i][j] = 0;
#pragma unroll 2
        for (int d = 0; d < n_wides; d++) {
            float4 mine[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                mine[i] = *reinterpret_cast<const float4 *>(q + (first_row + i) * STRIDE + 4 * d);
#pragma unroll
            for (int j = 0; j < MY_KEYS; j++) {
                float4 key =
                    *reinterpret_cast<const float4 *>(kv + (lane + j * LANES) * STRIDE + 4 * d);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    scores[i][j] = fmaf(mine[i].x, key.x, scores[i][j]);
                    scores[i][j] = fmaf(mine[i].y, key.y, scores[i][j]);
                    scores[i][j] = fmaf(mine[i].z, key.z, scores[i][j]);
                    scores[i][j] = fmaf(mine[i].w, key.w, scores[i][j]);
                }
            }
        }
    }

    /* Turn scores into weights, in shared memory, and scale the output to the new base. limit is
     * how many keys of the tile a row sees. */
    template <bool IS_MASKED>
    __device__ void weigh(float (&scores)[4][MY_KEYS], const int64_t (&limit)[4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float tile_most = -INFINITY, tile_sum = 0;
#pragma unroll
            for (int j = 0; j < MY_KEYS; j++) {
                if (!IS_MASKED || lane + j * LANES < limit[i])
                    tile_most = fmaxf(tile_most, scores[i][j]);
            }
            float most_before = most[i];
            most[i] = fmaxf(most[i], max_of_lanes<LANES>(tile_most));
            float base = base_of(most[i]), factor = factor_of(most_before, base, scale);
#pragma unroll
            for (int j = 0; j < MY_KEYS; j++) {
                float weight = weight_of(scores[i][j], base, scale, 0);
                bool is_seen = !IS_MASKED || lane + j * LANES < limit[i];
                weights[(lane + j * LANES) * WEIGHT_STRIDE + first_row + i] = is_seen ? weight : -1;
                tile_sum += is_seen ? weight : 0;
            }
            sum[i] = fmaf(sum[i], factor, tile_sum);
#pragma unroll
            for (int c = 0; c < MY_WIDES; c++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    out[i][c][e] *= factor;
        }
    }

    template <bool IS_MASKED> __device__ void add(int n_keys) {
#pragma unroll 2
        for (int key = 0; key < n_keys; key++) {
            float4 of_rows =
                *reinterpret_cast<const float4 *>(weights + key * WEIGHT_STRIDE + first_row);
            float weight[4] = {of_rows.x, of_rows.y, of_rows.z, of_rows.w};
#pragma unroll
            for (int c = 0; c < MY_WIDES; c++) {
                float4 value =
                    *reinterpret_cast<const float4 *>(kv + key * STRIDE + (lane + c * LANES) * 4);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    if (IS_MASKED && weight[i] < 0)
                        continue;
                    out[i][c][0] = fmaf(weight[i], value.x, out[i][c][0]);
                    out[i][c][1] = fmaf(weight[i], value.y, out[i][c][1]);
                    out[i][c][2] = fmaf(weight[i], value.z, out[i][c][2]);
                    out[i][c][3] = fmaf(weight[i], value.w, out[i][c][3]);
                }
            }
        }
    }

    template <bool IS_MASKED, class Four>
    __device__ void take(int64_t n_valid, const int64_t (&limit)[4], const Four &of_values) {
        float scores[4][MY_KEYS];
        score(scores);
        weigh<IS_MASKED>(scores, limit);
        __syncthreads();
        load(kv, KEYS, n_valid, of_values);
        __syncthreads();
        add<IS_MASKED>(n_valid < KEYS ? (int)n_valid : KEYS);
    }

    template <class Row> __device__ void store(int64_t n_valid, const Row &row_of) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float whole = sum_of_lanes<LANES>(sum[i]), share = share_of(whole);
            if (first_row + i >= n_valid)
                continue;
            float *row = row_of(first_row + i);
#pragma unroll
            for (int c = 0; c < MY_WIDES; c++) {
                int column = (lane + c * LANES) * 4;
                float values[4];
#pragma unroll
                for (int e = 0; e < 4; e++)
                    values[e] = whole == 0 ? 0 : out[i][c][e] * share;
                if (is_wide && column < dim) {
                    *reinterpret_cast<float4 *>(row + column) =
                        make_float4(values[0], values[1], values[2], values[3]);
                    continue;
                }
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    if (column + e < dim)
                        row[column + e] = values[e];
                }
            }
        }
    }

    /*
     * Do n_rows query rows, of which row i sees the first seen(i) of n_keys keys, and all at least
     * `least`.  The others give four columns of a row, or the place of its output.
     */
    template <class Seen, class Queries, class Keys, class Values, class Row>
    __device__ void run(int64_t n_rows, int64_t n_keys, int64_t least, const Seen &seen,
                        const Queries &of_queries, const Keys &of_keys, const Values &of_values,
                        const Row &row_of) {
        load(q, ROWS, n_rows, of_queries);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            most[i] = -INFINITY;
            sum[i] = 0;
#pragma unroll
            for (int c = 0; c < MY_WIDES; c++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    out[i][c][e] = 0;
        }
        for (int64_t key = 0; key < n_keys; key += KEYS) {
            auto values = [&](int i, int column) { return of_values(key + i, column); };
            bool is_masked = key + KEYS > least;
            int64_t limit[4] = {};
#pragma unroll
            for (int i = 0; i < 4 && is_masked; i++)
                limit[i] = seen(first_row + i) - key;
            load(kv, KEYS, n_keys - key,
                 [&](int i, int column) { return of_keys(key + i, column); });
            __syncthreads();
            if (is_masked)
                take<true>(n_keys - key, limit, values);
            else
                take<false>(n_keys - key, limit, values);
            __syncthreads();
        }
        store(n_rows, row_of);
    }
};

/* Rows `row` and on of a head of whole sequences. */
template <class Block>
DEVICE void attend_tile(Block &block, const attention_args &args, int64_t head, int64_t row,
                        int n_rows) {
    int64_t seq = args.seq, dim = args.head_dim, begin = head * seq * dim;
    auto four = [&](const float *from, int64_t i, int column) {
        return load_columns<true>(from + begin + i * dim, column, (int)dim, args.is_wide);
    };
    auto seen = [&](int i) {
        int64_t n = args.is_causal ? row + i + 1 : seq;
        return n < seq ? n : seq;
    };
    block.run(
        seq - row, seen(n_rows - 1), seen(0), seen,
        [&](int i, int column) { return four(args.q, row + i, column); },
        [&](int64_t key, int column) { return four(args.k, key, column); },
        [&](int64_t key, int column) { return four(args.v, key, column); },
        [&](int i) { return args.o + begin + (row + i) * dim; });
}

} // namespace

/* The rows that see most keys come first. */
#define TILED(dim, rows, keys, lanes)                                                              \
    KERNEL(attention_tiled_##dim)(const __grid_constant__ attention_args args) {                   \
        DYNAMIC_SHARED(float, shared);                                                             \
        int64_t n_tiles = (args.seq + rows - 1) / rows;                                            \
        for (int64_t i = blockIdx.x; i < n_tiles * args.n_heads; i += gridDim.x) {                 \
            Tiled<dim, rows, keys, lanes> block(shared, args);                                     \
            attend_tile(block, args, i % args.n_heads, (n_tiles - 1 - i / args.n_heads) * rows,    \
                        rows);                                                                     \
        }                                                                                          \
    }
ATTENTION_TILED_VARIANTS(TILED)
#undef TILED

#endif
