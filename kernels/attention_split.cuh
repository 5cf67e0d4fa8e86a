/*
 * Attention on matrix units: three products of halves for one of floats (attention_halves.cuh).
 *
 * A block takes WARPS * 16 query rows through tiles of KEYS keys.  K and V come by asynchronous
 * copies while the tile before is worked on, and are split into halves once a block: K's halves
 * and then V's lie in the same place.  A thread reads of a raw tile what it copied itself, so a
 * split needs two barriers: one for the tile's scale, one for the halves.  Products of high parts
 * and of mixed ones have sums of their own, and are added to fp32 registers after every tile (for
 * scores every 128 columns), since sums in the matrix unit are cut and not rounded.  Weights are
 * scaled by 2^14, and so are their sums.
 *
 * A hard tile is worked on by fp32 units (attention_hard.cuh) from the raw tile, which is then kept
 * until all are done.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_SPLIT_CUH
#define CUSHIM_KERNELS_ATTENTION_SPLIT_CUH

#include "kernels/attention.h"
#include "kernels/attention_halves.cuh"
#include "kernels/attention_hard.cuh"
#include "kernels/attention_weight.cuh"
#include "kernels/device/async_copy.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/mma.cuh"

namespace {

#define WEIGHT_LIFT    14
#define WEIGHT_INVERSE 0x1p-14f

struct SplitTile {
    float inverse;
    bool is_hard;
};

template <int DIM, int WARPS, int KEYS> struct Split {
    enum {
        ROWS = 16 * WARPS,
        THREADS = 32 * WARPS,
        KEY_TILES = KEYS / 8,
        DIM_TILES = DIM / 8,
        ROUND_KEYS = THREADS / 8, /* 8 threads copy and split a key, four columns at a time */
        N_ACROSS = DIM / 32,
        N_WIDES = KEYS / ROUND_KEYS * N_ACROSS,
        MOST_STEPS = 8, /* of 16 columns, until scores are promoted */
        STEPS = DIM / 16 < MOST_STEPS ? DIM / 16 : MOST_STEPS,
        PARTS = DIM / 16 / STEPS,
        TURNS = DIM % 64 == 0 ? 4 : 2
    };
    const attention_args *args;
    int dim, lane, warp, my_key, my_column;
    /* shared */
    uint16_t *q_high, *q_low, *high, *low;
    float *raw_k, *raw_v, *inverse_q;
    unsigned *peaks;
    int *n_small;
    /* of the thread's two rows, 8 apart */
    float out[DIM_TILES][4], most[2], sum[2], factor[2];
    float inverse_rows[2];
    float most_inverse; /* of the block's rows; infinite: q is hard */

    __device__ Split(float *shared, const attention_args *args)
        : args(args), dim((int)args->head_dim), lane((int)threadIdx.x % 32),
          warp((int)threadIdx.x / 32), my_key(key_of_thread((int)threadIdx.x / 8)),
          my_column((int)threadIdx.x % 8 * 4) {
        raw_k = shared;
        raw_v = raw_k + KEYS * DIM;
        q_high = reinterpret_cast<uint16_t *>(raw_v + KEYS * DIM);
        q_low = q_high + ROWS * DIM;
        high = q_low + ROWS * DIM;
        low = high + KEYS * DIM;
        inverse_q = reinterpret_cast<float *>(low + KEYS * DIM);
        peaks = reinterpret_cast<unsigned *>(inverse_q + ROWS);
        n_small = reinterpret_cast<int *>(peaks + WARPS);
    }

    /* ---- tiles ---- */

    /*
     * The key of 8 threads in a round.  Where rows of halves are a multiple of 128 bytes, half a
     * warp stores keys that are 4 apart: their turns are in different banks, those of neighbours
     * are not.  Of 64 columns too, but there it makes the compiler spill.
     */
    static __device__ int key_of_thread(int i) {
        return DIM % 128 == 0 ? (i & ~7) | (i & 1) << 2 | (i >> 1 & 3) : i;
    }

    /* Begin to copy the keys of a tile, zeros beyond it; always one group, be it empty. */
    __device__ void fetch(float *raw, const float *from, int64_t n_valid) {
        if (n_valid > 0 && args->is_wide) {
#pragma unroll
            for (int i = 0; i < N_WIDES / N_ACROSS; i++) {
                int key = my_key + i * ROUND_KEYS;
                bool is_valid = key < n_valid;
                const float *row = from + (is_valid ? key * (int64_t)dim + my_column : 0);
#pragma unroll
                for (int j = 0; j < N_ACROSS; j++) /* without bytes no address is looked at */
                    copy_async_16(raw + key * DIM + my_column + 32 * j, row + 32 * j,
                                  is_valid && my_column + 32 * j < dim ? 16 : 0);
            }
        } else if (n_valid > 0) {
#pragma unroll 1
            for (int n = 0; n < 4 * N_WIDES; n++) {
                int key = my_key + n / 4 / N_ACROSS * ROUND_KEYS;
                int column = my_column + n / 4 % N_ACROSS * 32 + n % 4;
                if (key < n_valid && column < dim)
                    copy_async_4(raw + key * DIM + column, from + (int64_t)key * dim + column);
                else
                    raw[key * DIM + column] = 0;
            }
        }
        commit_copies();
    }

    __device__ bool is_too_small(int64_t n_rows) {
        int total = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            total += n_small[w];
        return (int64_t)total * HARD_SHARE > n_rows * dim;
    }

    /* A raw tile, when it has arrived, as halves. */
    __device__ SplitTile split(const float *raw, int64_t n_valid) {
        float4 values[N_WIDES];
        unsigned peak = 0;
        int n = 0;
#pragma unroll
        for (int i = 0; i < N_WIDES; i++) {
            values[i] = *reinterpret_cast<const float4 *>(
                raw + (my_key + i / N_ACROSS * ROUND_KEYS) * DIM + my_column + i % N_ACROSS * 32);
            peak = max(peak, most_magnitude(values[i]));
        }
#pragma unroll
        for (int step = 1; step < 32; step *= 2)
            peak = max(peak, __shfl_xor_sync(0xFFFFFFFF, peak, step));
        if (lane == 0)
            peaks[warp] = peak;
        __syncthreads();
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            peak = max(peak, peaks[w]);
        Scale scale = scale_of(peak);
#pragma unroll
        for (int i = 0; i < N_WIDES; i++) {
            float4 scaled = times(values[i], scale.times);
            n += n_small_of(scaled);
            store_split<DIM>(high, low, my_key + i / N_ACROSS * ROUND_KEYS,
                             my_column + i % N_ACROSS * 32, scaled);
        }
#pragma unroll
        for (int step = 1; step < 32; step *= 2)
            n += __shfl_xor_sync(0xFFFFFFFF, n, step);
        if (lane == 0)
            n_small[warp] = n;
        __syncthreads();
        int64_t n_rows = n_valid < KEYS ? n_valid : (int64_t)KEYS;
        return {scale.inverse, scale.is_hard || is_too_small(n_rows)};
    }

    /* The block's query rows as halves, a scale a row; 8 lanes a row. */
    __device__ void split_q(const float *q, int64_t n_valid) {
        int n = 0;
#pragma unroll 1
        for (int row = 16 * warp + lane / 8; row < 16 * warp + 16; row += 4) {
            float4 values[DIM / 32];
            unsigned peak = 0;
#pragma unroll
            for (int i = 0; i < DIM / 32; i++) {
                int column = lane % 8 * 4 + 32 * i;
                values[i] = make_float4(0, 0, 0, 0);
                if (row < n_valid)
                    values[i] = load_columns(q + (int64_t)row * dim, column, dim, args->is_wide);
                peak = max(peak, most_magnitude(values[i]));
            }
#pragma unroll
            for (int step = 1; step < 8; step *= 2)
                peak = max(peak, __shfl_xor_sync(0xFFFFFFFF, peak, step));
            Scale scale = scale_of(peak);
            n += scale.is_hard ? HARD_COUNT : 0;
            if (lane % 8 == 0)
                inverse_q[row] = scale.inverse;
#pragma unroll
            for (int i = 0; i < DIM / 32; i++) {
                float4 scaled = times(values[i], scale.times);
                n += n_small_of(scaled);
                store_split<DIM>(q_high, q_low, row, lane % 8 * 4 + 32 * i, scaled);
            }
        }
#pragma unroll
        for (int step = 1; step < 32; step *= 2)
            n += __shfl_xor_sync(0xFFFFFFFF, n, step);
        if (lane == 0)
            n_small[warp] = n;
        __syncthreads();
        most_inverse = inverse_q[lane];
#pragma unroll
        for (int i = 32; i < ROWS; i += 32)
            most_inverse = fmaxf(most_inverse, inverse_q[i + lane]);
        most_inverse = most_of_lanes<32>(most_inverse);
        if (is_too_small(n_valid < ROWS ? n_valid : (int64_t)ROWS))
            most_inverse = INFINITY;
        inverse_rows[0] = inverse_q[16 * warp + lane / 4];
        inverse_rows[1] = inverse_q[16 * warp + lane / 4 + 8];
    }

    /* ---- scores ---- */

    __device__ void score(float (&scores)[KEY_TILES][4], float inverse_k) {
        float unscale[2] = {inverse_rows[0] * inverse_k, inverse_rows[1] * inverse_k};
        int row_of_q = 16 * warp + lane % 16, column_of_q = lane / 16 * 8;
        int row_of_k = lane % 8 + lane / 16 * 8, column_of_k = lane / 8 % 2 * 8;
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            float main[KEY_TILES][4] = {}, mixed[KEY_TILES][4] = {};
#pragma unroll 1
            for (int step = part * STEPS; step < part * STEPS + STEPS; step++) {
                uint32_t of_q[4], of_q_low[4];
                int place = place_of<DIM>(row_of_q, 16 * step + column_of_q);
                load_matrix_x4(of_q, q_high + place);
                load_matrix_x4(of_q_low, q_low + place);
#pragma unroll
                for (int i = 0; i < KEY_TILES; i += 2) {
                    uint32_t of_k[4], of_k_low[4];
                    place = place_of<DIM>(8 * i + row_of_k, 16 * step + column_of_k);
                    load_matrix_x4(of_k, high + place);
                    load_matrix_x4(of_k_low, low + place);
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        uint32_t k[2] = {of_k[2 * j], of_k[2 * j + 1]};
                        uint32_t k_low[2] = {of_k_low[2 * j], of_k_low[2 * j + 1]};
                        mma_f16(main[i + j], of_q, k);
                        mma_f16(mixed[i + j], of_q, k_low);
                        mma_f16(mixed[i + j], of_q_low, k);
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < KEY_TILES; i++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float value = main[i][e] + mixed[i][e];
                    scores[i][e] = part ? scores[i][e] + value : value;
                }
        }
#pragma unroll
        for (int i = 0; i < KEY_TILES; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                scores[i][e] *= unscale[e / 2];
    }

    /* ---- weights ---- */

    /* Key i of the tile is seen by the thread's row r where i < limit[r]. */
    __device__ int key_of(int tile, int e) {
        return 8 * tile + lane % 4 * 2 + e % 2;
    }

    /* Scores become weights; of unseen keys 0. */
    __device__ void weigh(float (&scores)[KEY_TILES][4], const int (&limit)[2]) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float tile_most = -INFINITY, tile_sum = 0, most_before = most[r];
#pragma unroll
            for (int i = 0; i < KEY_TILES; i++)
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; e++) {
                    if (key_of(i, e) >= limit[r])
                        scores[i][e] = -INFINITY;
                    tile_most = fmaxf(tile_most, scores[i][e]);
                }
            most[r] = fmaxf(most_before, most_of_lanes<4>(tile_most));
            float base = base_of(most[r]);
            factor[r] = factor_of(most_before, base, args->scale);
#pragma unroll
            for (int i = 0; i < KEY_TILES; i++)
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; e++) {
                    scores[i][e] = weight_of(scores[i][e], base, args->scale, WEIGHT_LIFT);
                    tile_sum += scores[i][e];
                }
            sum[r] = fmaf(sum[r], factor[r], tile_sum);
        }
    }

    /* ---- output ---- */

    __device__ void add(const float (&weights)[KEY_TILES][4], float inverse_v) {
        uint32_t w_high[KEY_TILES / 2][4], w_low[KEY_TILES / 2][4];
#pragma unroll
        for (int i = 0; i < KEY_TILES; i++)
#pragma unroll
            for (int r = 0; r < 2; r++)
                split_pair(weights[i][2 * r], weights[i][2 * r + 1], &w_high[i / 2][i % 2 * 2 + r],
                           &w_low[i / 2][i % 2 * 2 + r]);
        float unscale = inverse_v * WEIGHT_INVERSE;
        /* 16 columns from 16 p on: the row's turn changes the low bits of p alone */
        int places[TURNS];
#pragma unroll
        for (int p = 0; p < TURNS; p++)
            places[p] = place_of<DIM>(lane % 16, 16 * p + lane / 16 * 8);
#pragma unroll
        for (int first = 0; first < DIM_TILES; first += 4) {
            float main[4][4] = {}, mixed[4][4] = {};
            __syncwarp(); /* four tiles after another: all at once are too many registers */
#pragma unroll
            for (int step = 0; step < KEYS / 16; step++) {
#pragma unroll
                for (int i = 0; i < 4; i += 2) {
                    uint32_t of_v[4], of_v_low[4];
                    int p = (first + i) / 2;
                    int place = places[p % TURNS] + 16 * step * DIM + p / TURNS * TURNS * 16;
                    load_matrix_x4_transposed(of_v, high + place);
                    load_matrix_x4_transposed(of_v_low, low + place);
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        uint32_t v[2] = {of_v[2 * j], of_v[2 * j + 1]};
                        uint32_t v_low[2] = {of_v_low[2 * j], of_v_low[2 * j + 1]};
                        mma_f16(main[i + j], w_high[step], v);
                        mma_f16(mixed[i + j], w_high[step], v_low);
                        mma_f16(mixed[i + j], w_low[step], v);
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    out[first + i][e] =
                        fmaf(main[i][e] + mixed[i][e], unscale, out[first + i][e] * factor[e / 2]);
        }
    }

    __device__ void store(float *o, int64_t n_valid) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float whole = sum_of_lanes<4>(sum[r]) * WEIGHT_INVERSE, share = share_of(whole);
            int64_t row = 16 * warp + lane / 4 + 8 * r;
            if (row >= n_valid)
                continue;
#pragma unroll
            for (int n = 0; n < DIM_TILES; n++) {
                int column = 8 * n + lane % 4 * 2;
                float x = whole == 0 ? 0 : out[n][2 * r] * share;
                float y = whole == 0 ? 0 : out[n][2 * r + 1] * share;
                float *place = o + row * dim + column;
                if (args->is_wide && column < dim) {
                    *reinterpret_cast<float2 *>(place) = make_float2(x, y);
                } else {
                    if (column < dim)
                        place[0] = x;
                    if (column + 1 < dim)
                        place[1] = y;
                }
            }
        }
    }

    /* ---- a block's rows, `row` and on, of a head ---- */

    /* How many keys of a tile the thread's row r sees, at most KEYS. */
    __device__ int limit_of(int64_t row, int64_t key, int r) {
        int64_t seen = args->is_causal ? row + 16 * warp + lane / 4 + 8 * r + 1 : args->seq;
        seen = (seen < args->seq ? seen : args->seq) - key;
        return seen < KEYS ? (int)seen : (int)KEYS;
    }

    __device__ void run(int64_t head, int64_t row) {
        int64_t seq = args->seq, begin = head * seq * dim;
        int64_t end = args->is_causal && row + ROWS < seq ? row + ROWS : seq;
        int64_t last_row = row + 16 * warp + 15;
        const float *q = args->q + begin + row * dim;
        const float *k = args->k + begin, *v = args->v + begin;
        __syncthreads(); /* of the rows before */
        fetch(raw_k, k, end);
        fetch(raw_v, v, end);
        split_q(q, seq - row);
        most[0] = most[1] = -INFINITY;
        sum[0] = sum[1] = 0;
#pragma unroll
        for (int n = 0; n < DIM_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                out[n][e] = 0;
        for (int64_t key = 0; key < end; key += KEYS) {
            int64_t next = key + KEYS;
            int limit[2] = {limit_of(row, key, 0), limit_of(row, key, 1)};
            bool is_seen = row + 16 * warp < seq && (!args->is_causal || key <= last_row);
            float scores[KEY_TILES][4];
            wait_copies<1>(); /* V may still be under way */
            SplitTile tile = split(raw_k, end - key);
            /* what unscales must be a float: 0 times infinity is no score */
            bool is_hard = tile.is_hard || most_inverse * tile.inverse == INFINITY;
            if (!is_hard)
                fetch(raw_k, k + next * dim, end - next);
            if (is_seen) {
                if (is_hard)
                    score_hard<DIM>(scores, q, 16 * warp + lane / 4, seq - row - 1, raw_k, dim);
                else
                    score(scores, tile.inverse);
                weigh(scores, limit);
            }
            if (is_hard) {
                __syncthreads();
                fetch(raw_k, k + next * dim, end - next);
            }
            wait_copies<1>(); /* the next K may be */
            tile = split(raw_v, end - key);
            if (!tile.is_hard)
                fetch(raw_v, v + next * dim, end - next);
            if (is_seen) {
                if (tile.is_hard)
                    add_hard<DIM>(out, scores, factor, WEIGHT_INVERSE, raw_v, limit);
                else
                    add(scores, tile.inverse);
            }
            if (tile.is_hard) {
                __syncthreads();
                fetch(raw_v, v + next * dim, end - next);
            }
        }
        store(args->o + begin + row * dim, seq - row);
    }
};

} // namespace

/* The rows that see most keys first. */
#define SPLIT(size, dim, warps, keys)                                                              \
    extern "C" __global__ void __launch_bounds__(32 * warps)                                       \
        attention_split_##size##_##dim(const __grid_constant__ attention_args args) {              \
        DYNAMIC_SHARED(float, shared);                                                             \
        int64_t n_tiles = (args.seq + 16 * warps - 1) / (16 * warps);                              \
        for (int64_t i = blockIdx.x; i < n_tiles * args.n_heads; i += gridDim.x) {                 \
            Split<dim, warps, keys> block(shared, &args);                                          \
            block.run(i % args.n_heads, (n_tiles - 1 - i / args.n_heads) * (16 * warps));          \
        }                                                                                          \
    }
#define SPLIT_SMALL(dim, warps, keys) SPLIT(small, dim, warps, keys)
#define SPLIT_LARGE(dim, warps, keys) SPLIT(large, dim, warps, keys)
ATTENTION_SPLIT_SMALL_VARIANTS(SPLIT_SMALL)
ATTENTION_SPLIT_LARGE_VARIANTS(SPLIT_LARGE)

#endif
