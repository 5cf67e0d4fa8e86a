/*
 * Attention on matrix units: three products of halves for one of floats (attention_halves.cuh).
 *
 * A block takes WARPS * ROW_TILES * 16 query rows through tiles of KEYS keys.  A warp has
 * ROW_TILES * 16 rows, since what it loads of keys and values serves all of them: loads from shared
 * memory are what holds the matrix units up.  K and V come by asynchronous copies while the tile
 * before is worked on, and are split into halves once a block.  A thread reads of a raw tile what
 * it copied itself, so a split needs two barriers: one for the tile's scales, one for the halves.
 * With STAGES = 2 there is room for the halves of two tiles, and the next one is split between the
 * products of this one, whose barrier is then the same.
 *
 * Sums in the matrix unit are cut and not rounded, so they are added to fp32 registers after every
 * tile (for scores every 128 columns), and products with low parts do not meet large sums: for
 * scores they have sums of their own, for outputs they come before the others.  Weights are scaled
 * by 2^14, and so are their sums.
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

/* 2^x by the special function unit; below 2^-126: 0. */
DEVICE float power_of_2(float x) {
#ifdef CUSHIM_EMULATED
    return exp2f(x);
#else
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#endif
}

struct SplitTile {
    float inverse;
    bool is_hard;
};

template <int DIM, int WARPS, int ROW_TILES, int KEYS, int STAGES> struct Split {
    enum {
        WARP_ROWS = 16 * ROW_TILES,
        ROWS = WARP_ROWS * WARPS,
        THREADS = 32 * WARPS,
        KEY_TILES = KEYS / 8,
        DIM_TILES = DIM / 8,
        ACROSS = DIM % 256 == 0 ? 16 : 8, /* threads copy and split a key, four columns at a time */
        ROUND_KEYS = THREADS / ACROSS,
        N_ACROSS = DIM / 4 / ACROSS,
        N_WIDES = KEYS / ROUND_KEYS * N_ACROSS,
        MOST_STEPS = 8, /* of 16 columns, until scores are promoted */
        STEPS = DIM / 16 < MOST_STEPS ? DIM / 16 : MOST_STEPS,
        PARTS = DIM / 16 / STEPS,
        TURNS = DIM % 64 == 0 ? 4 : 2
    };
    const attention_args *args;
    int dim, lane, warp, my_key, my_column;
    /* shared */
    uint16_t *q_high, *q_low, *halves;
    float *raw_k, *raw_v, *inverse_q;
    unsigned *peaks; /* a warp's of K, then of V */
    int *n_small;    /* the same; of Q where K's will be */
    /* of the thread's rows: two of a tile, 8 apart */
    float out[ROW_TILES][DIM_TILES][4];
    float most[ROW_TILES][2], sum[ROW_TILES][2], factor[ROW_TILES][2];
    float most_inverse; /* of the block's rows; infinite: q is hard */

    __device__ Split(float *shared, const attention_args *args)
        : args(args), dim((int)args->head_dim), lane((int)threadIdx.x % 32),
          warp((int)threadIdx.x / 32), my_key(key_of_thread((int)threadIdx.x / ACROSS)),
          my_column((int)threadIdx.x % ACROSS * 4) {
        raw_k = shared;
        raw_v = raw_k + KEYS * DIM;
        q_high = reinterpret_cast<uint16_t *>(raw_v + KEYS * DIM);
        q_low = q_high + ROWS * DIM;
        halves = q_low + ROWS * DIM;
        inverse_q = reinterpret_cast<float *>(halves + STAGES * 4 * KEYS * DIM);
        peaks = reinterpret_cast<unsigned *>(inverse_q + ROWS);
        n_small = reinterpret_cast<int *>(peaks + 2 * WARPS);
    }

    /* ---- tiles ---- */

    /*
     * The key of 8 threads in a round.  Where rows of halves are a multiple of 128 bytes, half a
     * warp stores keys that are 4 apart: their turns are in different banks, those of neighbours
     * are not.  Of 64 columns too, but there it makes the compiler spill.
     */
    static __device__ int key_of_thread(int i) {
        return DIM == 128 ? (i & ~7) | (i & 1) << 2 | (i >> 1 & 3) : i;
    }

    /* A stage's halves of K, and behind them of V: high parts, then low ones. */
    __device__ uint16_t *halves_of(int stage, int is_v) {
        return halves + (stage % STAGES * 4 + 2 * is_v) * (KEYS * DIM);
    }

    /* Begin to copy the keys of a tile, zeros beyond it. */
    __device__ void fetch_rows(float *raw, const float *from, int64_t n_valid) {
        if (n_valid > 0 && args->is_wide) {
#pragma unroll
            for (int i = 0; i < N_WIDES / N_ACROSS; i++) {
                int key = my_key + i * ROUND_KEYS;
                bool is_valid = key < n_valid;
                const float *row = from + (is_valid ? key * (int64_t)dim + my_column : 0);
#pragma unroll
                for (int j = 0; j < N_ACROSS; j++) /* without bytes no address is looked at */
                    copy_async_16(raw + key * DIM + my_column + 4 * ACROSS * j,
                                  row + 4 * ACROSS * j,
                                  is_valid && my_column + 4 * ACROSS * j < dim ? 16 : 0);
            }
        } else if (n_valid > 0) {
#pragma unroll 1
            for (int n = 0; n < 4 * N_WIDES; n++) {
                int key = my_key + n / 4 / N_ACROSS * ROUND_KEYS;
                int column = my_column + n / 4 % N_ACROSS * 4 * ACROSS + n % 4;
                if (key < n_valid && column < dim)
                    copy_async_4(raw + key * DIM + column, from + (int64_t)key * dim + column);
                else
                    raw[key * DIM + column] = 0;
            }
        }
    }

    /* Both tiles of keys from `key` on. */
    __device__ void fetch(int64_t begin, int64_t key, int64_t end) {
        fetch_rows(raw_k, args->k + begin + key * dim, end - key);
        fetch_rows(raw_v, args->v + begin + key * dim, end - key);
        commit_copies();
    }

    __device__ const float4 *wide_of(const float *raw, int i) {
        return reinterpret_cast<const float4 *>(raw + (my_key + i / N_ACROSS * ROUND_KEYS) * DIM +
                                                my_column + i % N_ACROSS * 4 * ACROSS);
    }

    __device__ void find_peak(const float *raw, int is_v) {
        float peak = 0;
#pragma unroll
        for (int i = 0; i < N_WIDES; i++)
            peak = most_magnitude(peak, *wide_of(raw, i));
        unsigned of_warp = most_of_warp(__float_as_uint(peak));
        if (lane == 0)
            peaks[is_v * WARPS + warp] = of_warp;
    }

    /* When the raw tiles have arrived; a barrier is to follow. */
    __device__ void find_peaks() {
        wait_copies<0>();
        find_peak(raw_k, 0);
        find_peak(raw_v, 1);
    }

    __device__ Scale scale_of_tile(int is_v) {
        unsigned peak = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            peak = max(peak, peaks[is_v * WARPS + w]);
        return scale_of(peak);
    }

    /* A raw tile as halves; a barrier is to follow.  Returns what unscales. */
    __device__ SplitTile split_rows(const float *raw, int stage, int is_v) {
        uint16_t *high = halves_of(stage, is_v);
        Scale scale = scale_of_tile(is_v);
        float least = INFINITY;
        int n = 0;
#pragma unroll
        for (int i = 0; i < N_WIDES; i++) {
            float4 scaled = times(*wide_of(raw, i), scale.times);
            least = fminf(fminf(least, fminf(fabsf(scaled.x), fabsf(scaled.y))),
                          fminf(fabsf(scaled.z), fabsf(scaled.w)));
            store_split<DIM>(high, high + KEYS * DIM, my_key + i / N_ACROSS * ROUND_KEYS,
                             my_column + i % N_ACROSS * 4 * ACROSS, scaled);
        }
        if (__any_sync(0xFFFFFFFF, is_small_or_0(least))) { /* few warps, but where 0s are */
#pragma unroll 1
            for (int i = 0; i < N_WIDES; i++)
                n += n_small_of(times(*wide_of(raw, i), scale.times));
            n = sum_of_warp(n);
        }
        if (lane == 0)
            n_small[is_v * WARPS + warp] = n;
        return {scale.inverse, scale.is_hard};
    }

    __device__ bool is_too_small(int is_v, int64_t n_rows) {
        int total = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            total += n_small[is_v * WARPS + w];
        return (int64_t)total * HARD_SHARE > n_rows * dim;
    }

    /* The block's query rows as halves, a scale a row; 8 lanes a row. */
    __device__ void split_q(const float *q, int64_t n_valid) {
        int n = 0;
#pragma unroll 1
        for (int row = WARP_ROWS * warp + lane / 8; row < WARP_ROWS * (warp + 1); row += 4) {
            float4 values[DIM / 32];
            unsigned peak = 0;
#pragma unroll
            for (int i = 0; i < DIM / 32; i++) {
                int column = lane % 8 * 4 + 32 * i;
                values[i] = make_float4(0, 0, 0, 0);
                if (row < n_valid)
                    values[i] = load_columns(q + (int64_t)row * dim, column, dim, args->is_wide);
                peak = max(peak, __float_as_uint(most_magnitude(0, values[i])));
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
        n = sum_of_warp(n);
        if (lane == 0)
            n_small[warp] = n;
        __syncthreads();
        most_inverse = inverse_q[lane];
#pragma unroll
        for (int i = 32; i < ROWS; i += 32)
            most_inverse = fmaxf(most_inverse, inverse_q[i + lane]);
        most_inverse = most_of_lanes<32>(most_inverse);
        if (is_too_small(0, n_valid < ROWS ? n_valid : (int64_t)ROWS))
            most_inverse = INFINITY;
    }

    /* ---- scores ---- */

    using Scores = float[ROW_TILES][KEY_TILES][4];

    /* Still scaled. */
    __device__ void score(Scores &scores, const uint16_t *high) {
        const uint16_t *low = high + KEYS * DIM;
        /* both rows have the same turn, which permutes steps and what lies within one apart */
        int turn = turn_of<DIM>(lane % 8), turn_of_step = (turn & ~1) * 8;
        int start_of_q = (WARP_ROWS * warp + lane % 16) * DIM + ((lane / 16 ^ turn) & 1) * 8;
        int start_of_k = (lane % 8 + lane / 16 * 8) * DIM + ((lane / 8 ^ turn) & 1) * 8;
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            Scores main = {}, mixed = {};
#pragma unroll 1
            for (int step = part * STEPS; step < part * STEPS + STEPS; step++) {
                uint32_t of_q[ROW_TILES][4], of_q_low[ROW_TILES][4];
                int turned = 16 * step ^ turn_of_step, place = start_of_q + turned;
#pragma unroll
                for (int m = 0; m < ROW_TILES; m++) {
                    load_matrix_x4(of_q[m], q_high + place + 16 * m * DIM);
                    load_matrix_x4(of_q_low[m], q_low + place + 16 * m * DIM);
                }
                place = start_of_k + turned;
#pragma unroll
                for (int i = 0; i < KEY_TILES; i += 2) {
                    uint32_t of_k[4], of_k_low[4];
                    load_matrix_x4(of_k, high + place + 8 * i * DIM);
                    load_matrix_x4(of_k_low, low + place + 8 * i * DIM);
                    uint32_t k[2][2] = {{of_k[0], of_k[1]}, {of_k[2], of_k[3]}};
                    uint32_t k_low[2][2] = {{of_k_low[0], of_k_low[1]}, {of_k_low[2], of_k_low[3]}};
                    /* what goes to the same sum is far apart */
#pragma unroll
                    for (int n = 0; n < 2 * ROW_TILES; n++)
                        mma_f16(mixed[n / 2][i + n % 2], of_q_low[n / 2], k[n % 2]);
#pragma unroll
                    for (int n = 0; n < 2 * ROW_TILES; n++)
                        mma_f16(main[n / 2][i + n % 2], of_q[n / 2], k[n % 2]);
#pragma unroll
                    for (int n = 0; n < 2 * ROW_TILES; n++)
                        mma_f16(mixed[n / 2][i + n % 2], of_q[n / 2], k_low[n % 2]);
                }
            }
#pragma unroll
            for (int n = 0; n < ROW_TILES * KEY_TILES * 4; n++) {
                int m = n / KEY_TILES / 4, i = n / 4 % KEY_TILES, e = n % 4;
                float value = main[m][i][e] + mixed[m][i][e];
                scores[m][i][e] = part ? scores[m][i][e] + value : value;
            }
        }
    }

    /* ---- weights ---- */

    /* Key i of the tile is seen by the thread's row r where i < limit[r]. */
    __device__ void mask(float (&scores)[KEY_TILES][4], const int (&limit)[2]) {
#pragma unroll
        for (int i = 0; i < KEY_TILES; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                if (8 * i + lane % 4 * 2 + e % 2 >= limit[e / 2])
                    scores[i][e] = -INFINITY;
            }
    }

    /* Scores, which unscale[] unscales, become weights; of -infinity 0. */
    __device__ void weigh(int m, float (&scores)[KEY_TILES][4], const float (&unscale)[2]) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float tile_most = -INFINITY, tile_sum = 0, most_before = most[m][r];
#pragma unroll
            for (int i = 0; i < KEY_TILES; i++)
                tile_most = fmaxf(tile_most, fmaxf(scores[i][2 * r], scores[i][2 * r + 1]));
            tile_most = most_of_lanes<4>(tile_most) * unscale[r];
            most[m][r] = fmaxf(most_before, tile_most);
            float base = base_of(most[m][r]);
            factor[m][r] = factor_of(most_before, base, args->scale);
            /* infinity less itself; a fused difference may see no infinity */
            base = base == INFINITY ? NAN : base;
#pragma unroll
            for (int i = 0; i < KEY_TILES; i++)
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; e++) {
                    float above = fmaf(scores[i][e], unscale[r], -base);
                    scores[i][e] = power_of_2(fmaf(above, args->scale, WEIGHT_LIFT));
                    tile_sum += scores[i][e];
                }
            sum[m][r] = fmaf(sum[m][r], factor[m][r], tile_sum);
        }
    }

    /* ---- output ---- */

    __device__ void add(const Scores &weights, float inverse_v, const uint16_t *high) {
        uint32_t w_high[ROW_TILES][KEY_TILES / 2][4], w_low[ROW_TILES][KEY_TILES / 2][4];
        const uint16_t *low = high + KEYS * DIM;
#pragma unroll
        for (int n = 0; n < ROW_TILES * KEY_TILES * 2; n++) {
            int m = n / KEY_TILES / 2, i = n / 2 % KEY_TILES, r = n % 2;
            split_pair(weights[m][i][2 * r], weights[m][i][2 * r + 1],
                       &w_high[m][i / 2][i % 2 * 2 + r], &w_low[m][i / 2][i % 2 * 2 + r]);
        }
        float unscale = inverse_v * WEIGHT_INVERSE;
        /* 16 columns from 16 p on: the row's turn changes the low bits of p alone */
        int places[TURNS];
#pragma unroll
        for (int p = 0; p < TURNS; p++)
            places[p] = place_of<DIM>(lane % 16, 16 * p + lane / 16 * 8);
#pragma unroll
        for (int p = 0; p < DIM_TILES / 2; p++) {
            float sums[ROW_TILES][2][4] = {};
            uint32_t v[KEYS / 16][2][2], v_low[KEYS / 16][2][2];
#pragma unroll
            for (int step = 0; step < KEYS / 16; step++) {
                uint32_t of_v[4], of_v_low[4];
                int place = places[p % TURNS] + 16 * step * DIM + p / TURNS * TURNS * 16;
                load_matrix_x4_transposed(of_v, high + place);
                load_matrix_x4_transposed(of_v_low, low + place);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    v[step][i / 2][i % 2] = of_v[i];
                    v_low[step][i / 2][i % 2] = of_v_low[i];
                }
            }
#pragma unroll
            for (int step = 0; step < KEYS / 16; step++) {
#pragma unroll
                for (int n = 0; n < 2 * ROW_TILES; n++)
                    mma_f16(sums[n / 2][n % 2], w_low[n / 2][step], v[step][n % 2]);
#pragma unroll
                for (int n = 0; n < 2 * ROW_TILES; n++)
                    mma_f16(sums[n / 2][n % 2], w_high[n / 2][step], v_low[step][n % 2]);
            }
#pragma unroll
            for (int step = 0; step < KEYS / 16; step++)
#pragma unroll
                for (int n = 0; n < 2 * ROW_TILES; n++)
                    mma_f16(sums[n / 2][n % 2], w_high[n / 2][step], v[step][n % 2]);
#pragma unroll
            for (int n = 0; n < ROW_TILES * 8; n++) {
                int m = n / 8, j = n / 4 % 2, e = n % 4;
                float &element = out[m][2 * p + j][e];
                element = fmaf(sums[m][j][e], unscale, element * factor[m][e / 2]);
            }
        }
    }

    __device__ void store(int m, float *o, int64_t n_valid) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float whole = sum_of_lanes<4>(sum[m][r]) * WEIGHT_INVERSE, share = share_of(whole);
            int64_t row = WARP_ROWS * warp + 16 * m + lane / 4 + 8 * r;
            if (row >= n_valid)
                continue;
#pragma unroll
            for (int n = 0; n < DIM_TILES; n++) {
                int column = 8 * n + lane % 4 * 2;
                float x = whole == 0 ? 0 : out[m][n][2 * r] * share;
                float y = whole == 0 ? 0 : out[m][n][2 * r + 1] * share;
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

    /* How many keys of a tile are seen by two rows, at most KEYS. */
    __device__ void find_limits(int (&limit)[2], int64_t row, int64_t key) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int64_t seen = row + 8 * r + 1;
            seen = (args->is_causal && seen < args->seq ? seen : args->seq) - key;
            limit[r] = seen < KEYS ? (int)seen : (int)KEYS;
        }
    }

    __device__ void run(int64_t head, int64_t row) {
        int64_t seq = args->seq, begin = head * seq * dim, warp_row = row + WARP_ROWS * warp;
        int64_t end = args->is_causal && row + ROWS < seq ? row + ROWS : seq;
        /* of tiles: the block's, those with a key that a row of the warp sees, that all rows see */
        int n_tiles = (int)((end + KEYS - 1) / KEYS), n_seen = n_tiles, n_whole = (int)(seq / KEYS);
        if (args->is_causal) {
            n_seen = min(n_seen, (int)((warp_row + WARP_ROWS + KEYS - 1) / KEYS));
            n_whole = min(n_whole, (int)((warp_row + 1) / KEYS));
        }
        n_seen = warp_row < seq ? n_seen : 0;
        SplitTile k, v;
        __syncthreads(); /* of the rows before */
        fetch(begin, 0, end);
        split_q(args->q + begin + row * dim, seq - row);
        __syncthreads(); /* Q's counts */
#pragma unroll
        for (int n = 0; n < ROW_TILES * 2; n++) {
            most[n / 2][n % 2] = -INFINITY;
            sum[n / 2][n % 2] = 0;
        }
#pragma unroll
        for (int n = 0; n < ROW_TILES * DIM_TILES * 4; n++)
            out[n / 4 / DIM_TILES][n / 4 % DIM_TILES][n % 4] = 0;
        find_peaks();
        __syncthreads();
        k = split_rows(raw_k, 0, 0);
        v = split_rows(raw_v, 0, 1);
        __syncthreads();
        for (int tile = 0; tile < n_tiles; tile++) {
            int64_t key = (int64_t)tile * KEYS, n_keys = end - key < KEYS ? end - key : KEYS;
            bool is_last = tile + 1 == n_tiles, is_seen = tile < n_seen;
            /* what unscales must be a float: 0 times infinity is no score */
            k.is_hard |= is_too_small(0, n_keys) || most_inverse * k.inverse == INFINITY;
            v.is_hard |= is_too_small(1, n_keys);
            bool is_hard = k.is_hard || v.is_hard;
            bool is_early = STAGES > 1 && !is_hard && !is_last;
            SplitTile next_k = {}, next_v = {};
            Scores scores;
            if (!is_hard)
                fetch(begin, key + KEYS, end);
            if (is_seen) {
                if (k.is_hard) {
#pragma unroll
                    for (int m = 0; m < ROW_TILES; m++)
                        score_hard<DIM>(scores[m], args->q + begin + row * dim,
                                        WARP_ROWS * warp + 16 * m + lane / 4, seq - row - 1, raw_k,
                                        dim);
                } else {
                    score(scores, halves_of(tile, 0));
                }
            }
            if (!is_hard && !is_last)
                find_peaks();
            if (is_early)
                __syncthreads();
            if (is_seen) {
#pragma unroll
                for (int m = 0; m < ROW_TILES; m++) {
                    const float *inverse = inverse_q + WARP_ROWS * warp + 16 * m + lane / 4;
                    float unscale[2] = {1, 1};
                    if (!k.is_hard) {
                        unscale[0] = inverse[0] * k.inverse;
                        unscale[1] = inverse[8] * k.inverse;
                    }
                    if (tile >= n_whole) {
                        int limit[2];
                        find_limits(limit, warp_row + 16 * m + lane / 4, key);
                        mask(scores[m], limit);
                    }
                    weigh(m, scores[m], unscale);
                }
            }
            if (is_early) {
                next_k = split_rows(raw_k, tile + 1, 0);
                next_v = split_rows(raw_v, tile + 1, 1);
            }
            if (is_seen) {
                if (v.is_hard) {
#pragma unroll
                    for (int m = 0; m < ROW_TILES; m++) {
                        int limit[2];
                        find_limits(limit, warp_row + 16 * m + lane / 4, key);
                        add_hard<DIM>(out[m], scores[m], factor[m], WEIGHT_INVERSE, raw_v, limit);
                    }
                } else {
                    add(scores, v.inverse, halves_of(tile, 1));
                }
            }
            __syncthreads(); /* all are done with the tile */
            if (is_hard && !is_last) {
                fetch(begin, key + KEYS, end);
                find_peaks();
                __syncthreads();
            }
            if (!is_early && !is_last) {
                next_k = split_rows(raw_k, tile + 1, 0);
                next_v = split_rows(raw_v, tile + 1, 1);
                __syncthreads();
            }
            k = next_k;
            v = next_v;
        }
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++)
            store(m, args->o + begin + row * dim, seq - row);
    }
};

} // namespace

/* The rows that see most keys first. */
#define SPLIT(size, dim, warps, row_tiles, keys, stages)                                           \
    extern "C" __global__ void __launch_bounds__(32 * warps)                                       \
        attention_split_##size##_##dim(const __grid_constant__ attention_args args) {              \
        DYNAMIC_SHARED(float, shared);                                                             \
        enum { ROWS = 16 * row_tiles * warps };                                                    \
        int64_t n_tiles = (args.seq + ROWS - 1) / ROWS;                                            \
        for (int64_t i = blockIdx.x; i < n_tiles * args.n_heads; i += gridDim.x) {                 \
            Split<dim, warps, row_tiles, keys, stages> block(shared, &args);                       \
            block.run(i % args.n_heads, (n_tiles - 1 - i / args.n_heads) * ROWS);                  \
        }                                                                                          \
    }
#define SPLIT_SMALL(dim, warps, row_tiles, keys, stages)                                           \
    SPLIT(small, dim, warps, row_tiles, keys, stages)
#define SPLIT_LARGE(dim, warps, row_tiles, keys, stages)                                           \
    SPLIT(large, dim, warps, row_tiles, keys, stages)
ATTENTION_SPLIT_SMALL_VARIANTS(SPLIT_SMALL)
ATTENTION_SPLIT_LARGE_VARIANTS(SPLIT_LARGE)

#endif
