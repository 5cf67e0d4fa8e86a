/*
 * Attention on matrix units: three products of halves for one of floats (attention_halves.cuh).
 *
 * A block takes WARPS * ROW_TILES * 16 query rows through tiles of KEYS keys.  With two row tiles a
 * warp loads half as many keys and values per product, and fills the registers.  K and V come by
 * asynchronous copies while the tile before is worked on, and each block splits them into halves
 * once.  A thread reads only the part of a raw tile that it copied itself, so a tile needs two
 * barriers: one for its scales, one for the halves.
 *
 * Sums in the matrix unit are truncated and not rounded.  So they are added to fp32 registers after
 * every tile (for scores every 128 columns), and products with low parts do not meet large sums:
 * for scores they have sums of their own, for outputs they come before the others.  Weights are
 * scaled by 2^14, and so are their sums.
 *
 * Rows that see a hard tile are computed on fp32 units (attention_hard.cuh) from the first tile on,
 * so that the common loop has nothing to keep for it.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_SPLIT_CUH
#define CUSHIM_KERNELS_ATTENTION_SPLIT_CUH

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_halves.cuh"
#include "kernels/attention/attention_hard.cuh"
#include "kernels/attention/attention_split_tiles.cuh"
#include "kernels/attention/attention_weight.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/math/exp2.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/arch/mma.cuh"

namespace {

#define WEIGHT_LIFT    14
#define WEIGHT_INVERSE 0x1p-14f

template <int DIM, int WARPS, int ROW_TILES, int KEYS>
struct Split : SplitTiles<DIM, WARPS, ROW_TILES, KEYS> {
    using Base = SplitTiles<DIM, WARPS, ROW_TILES, KEYS>;
    using Base::args, Base::dim, Base::q_high, Base::q_low, Base::raw_k, Base::raw_v;
    using Base::fetch, Base::find_peaks, Base::halves_of, Base::is_too_many, Base::split;
    using Base::inverse_q, Base::inverses, Base::n_small, Base::rows, Base::split_q;
    using Base::WARP_ROWS, Base::ROWS;
    enum {
        KEY_TILES = KEYS / 8,
        DIM_TILES = DIM / 8,
        MOST_STEPS = 8, /* of 16 columns, until scores are promoted */
        STEPS = DIM / 16 < MOST_STEPS ? DIM / 16 : MOST_STEPS,
        PARTS = DIM / 16 / STEPS,
        TURNS = DIM % 64 == 0 ? 4 : 2
    };
    /* of the thread's rows: two of a tile, 8 apart */
    float out[ROW_TILES][DIM_TILES][4];
    float most[ROW_TILES][2], sum[ROW_TILES][2], factor[ROW_TILES][2];

    __device__ Split(float *shared, const attention_args *args) : Base(shared, args) {
    }

    /* ---- scores ---- */

    using Scores = float[ROW_TILES][KEY_TILES][4];

    /* The first of a thread's two rows of a tile. */
    __device__ int row_of_thread(int m) {
        int thread = ask_thread();
        return WARP_ROWS * (thread / 32) + 16 * m + thread % 32 / 4;
    }

    /* The scores are still scaled. */
    __device__ void score(Scores &scores, const uint16_t *high) {
        int thread = ask_thread(), lane = thread % 32, warp = thread / 32;
        const uint16_t *low = high + KEYS * DIM;
        /* both rows have the same turn, which permutes steps and the parts of one step
         * separately */
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
                    /* additions to the same sum are far apart */
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

    /* The thread's row r sees key i of the tile if i < limit[r]. */
    __device__ void mask(float (&scores)[KEY_TILES][4], const int (&limit)[2]) {
        int lane = ask_thread() % 32;
#pragma unroll
        for (int i = 0; i < KEY_TILES; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                if (8 * i + lane % 4 * 2 + e % 2 >= limit[e / 2])
                    scores[i][e] = -INFINITY;
            }
    }

    /* Turn scores into weights, with unscale[] for each row; -infinity becomes 0. */
    __device__ void weigh(int m, float (&scores)[KEY_TILES][4], const float (&unscale)[2]) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float tile_most = -INFINITY, tile_sum = 0, most_before = most[m][r];
#pragma unroll
            for (int i = 0; i < KEY_TILES; i++)
                tile_most = fmaxf(tile_most, fmaxf(scores[i][2 * r], scores[i][2 * r + 1]));
            tile_most = max_of_lanes<4>(tile_most) * unscale[r];
            most[m][r] = fmaxf(most_before, tile_most);
            float base = base_of(most[m][r]);
            factor[m][r] = factor_of(most_before, base, args->scale);
            /* makes infinity less itself NaN, because a fused difference may see no infinity */
            base = base == INFINITY ? NAN : base;
#pragma unroll
            for (int i = 0; i < KEY_TILES; i++)
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; e++) {
                    float above = fmaf(scores[i][e], unscale[r], -base);
                    scores[i][e] = quick_exp2(fmaf(above, args->scale, WEIGHT_LIFT));
                    tile_sum += scores[i][e];
                }
            sum[m][r] = fmaf(sum[m][r], factor[m][r], tile_sum);
        }
    }

    /* ---- output ---- */

    /* Scale to the new base, which is mostly the old one. */
    __device__ void scale_out() {
        bool is_changed = false;
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++)
            is_changed |= factor[m][0] != 1 || factor[m][1] != 1;
        if (__any_sync(0xFFFFFFFF, is_changed)) {
#pragma unroll
            for (int n = 0; n < ROW_TILES * DIM_TILES * 4; n++)
                out[n / 4 / DIM_TILES][n / 4 % DIM_TILES][n % 4] *=
                    factor[n / 4 / DIM_TILES][n % 4 / 2];
        }
    }

    /* 16 columns of a tile's values. */
    struct Values {
        uint32_t high[KEYS / 16][2][2], low[KEYS / 16][2][2];
    };

    __device__ void load_values(Values &v, const uint16_t *place) {
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++) {
            uint32_t high[4], low[4];
            load_matrix_x4_transposed(high, place + 16 * step * DIM);
            load_matrix_x4_transposed(low, place + (KEYS + 16 * step) * DIM);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                v.high[step][i / 2][i % 2] = high[i];
                v.low[step][i / 2][i % 2] = low[i];
            }
        }
    }

    using Halves = uint32_t[ROW_TILES][KEY_TILES / 2][4];

    __device__ void add_columns(int p, const Halves &high, const Halves &low, const Values &v,
                                float unscale) {
        float sums[ROW_TILES][2][4] = {};
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++) {
#pragma unroll
            for (int n = 0; n < 2 * ROW_TILES; n++)
                mma_f16(sums[n / 2][n % 2], low[n / 2][step], v.high[step][n % 2]);
#pragma unroll
            for (int n = 0; n < 2 * ROW_TILES; n++)
                mma_f16(sums[n / 2][n % 2], high[n / 2][step], v.low[step][n % 2]);
        }
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++)
#pragma unroll
            for (int n = 0; n < 2 * ROW_TILES; n++)
                mma_f16(sums[n / 2][n % 2], high[n / 2][step], v.high[step][n % 2]);
#pragma unroll
        for (int n = 0; n < ROW_TILES * 8; n++) {
            float &element = out[n / 8][2 * p + n / 4 % 2][n % 4];
            element = fmaf(sums[n / 8][n / 4 % 2][n % 4], unscale, element);
        }
    }

    __device__ void add(const Scores &weights, float inverse_v, const uint16_t *high) {
        int lane = ask_thread() % 32;
        Halves w_high, w_low;
#pragma unroll
        for (int n = 0; n < ROW_TILES * KEY_TILES * 2; n++) {
            int m = n / KEY_TILES / 2, i = n / 2 % KEY_TILES, r = n % 2;
            split_pair(weights[m][i][2 * r], weights[m][i][2 * r + 1],
                       &w_high[m][i / 2][i % 2 * 2 + r], &w_low[m][i / 2][i % 2 * 2 + r]);
        }
        float unscale = inverse_v * WEIGHT_INVERSE;
        scale_out();
        /* of 16 columns from 16 p on: the row's turn changes only the low bits of p */
        int places[TURNS];
#pragma unroll
        for (int p = 0; p < TURNS; p++)
            places[p] = place_of<DIM>(lane % 16, 16 * p + lane / 16 * 8);
        Values next;
        load_values(next, high + places[0]);
#pragma unroll
        for (int p = 0; p < DIM_TILES / 2; p++) {
            do {
                Values v = next;
                if (p + 1 < DIM_TILES / 2)
                    load_values(next,
                                high + places[(p + 1) % TURNS] + (p + 1) / TURNS * TURNS * 16);
                add_columns(p, w_high, w_low, v, unscale);
            } while (rows->again);
        }
    }

    __device__ void store(int m, float *o, int64_t n_valid) {
        int thread = ask_thread(), lane = thread % 32, warp = thread / 32;
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

    /* Set the scores that rows do not see in a tile to -infinity. */
    __device__ void mask(int m, float (&scores)[KEY_TILES][4], int tile) {
        int limit[2];
        find_limits(limit, m, tile);
        mask(scores, limit);
    }

    /* How many keys of a tile are seen by the thread's two rows, at most KEYS. */
    __device__ void find_limits(int (&limit)[2], int m, int tile) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int64_t seen = rows->row + row_of_thread(m) + 8 * r + 1;
            seen = (args->is_causal && seen < args->seq ? seen : args->seq) - (int64_t)tile * KEYS;
            limit[r] = seen < KEYS ? (int)seen : (int)KEYS;
        }
    }

    /* How much of a tile a warp's rows see; EVERYTHING means that all see all of it. */
    enum Sight { NOTHING, SOMETHING, EVERYTHING };

    __device__ Sight sight_of(int tile) {
        int64_t key = (int64_t)tile * KEYS, first = rows->row + WARP_ROWS * (ask_thread() / 32);
        if (first >= args->seq || (args->is_causal && first + WARP_ROWS <= key))
            return NOTHING;
        int64_t all_see = args->is_causal ? first + 1 : args->seq;
        return key + KEYS <= all_see && key + KEYS <= args->seq ? EVERYTHING : SOMETHING;
    }

    __device__ void begin_rows() {
#pragma unroll
        for (int n = 0; n < ROW_TILES * 2; n++) {
            most[n / 2][n % 2] = -INFINITY;
            sum[n / 2][n % 2] = 0;
        }
#pragma unroll
        for (int n = 0; n < ROW_TILES * DIM_TILES * 4; n++)
            out[n / 4 / DIM_TILES][n / 4 % DIM_TILES][n % 4] = 0;
    }

    /* Whether a tile that has been split is hard. */
    __device__ bool is_hard(int tile) {
        int64_t n_keys = rows->end - (int64_t)tile * KEYS;
        const int *n = n_small + tile % 2 * 2;
        n_keys = n_keys < KEYS ? n_keys : KEYS;
        /* what unscales must be a float, because 0 times infinity is no score */
        return is_too_many(max(n[0], n[1]), n_keys) ||
               rows->most_inverse * inverses[tile % 2 * 2] == INFINITY ||
               inverses[tile % 2 * 2 + 1] == INFINITY;
    }

    /* Returns false if a tile is hard. */
    __device__ bool take_all() {
        begin_rows();
        find_peaks();
        __syncthreads();
        split(0);
        __syncthreads();
#pragma unroll 1
        for (int tile = 0;; tile++) {
            bool is_last = (tile + 1) * (int64_t)KEYS >= rows->end;
            Sight sight = sight_of(tile);
            Scores scores;
            if (is_hard(tile))
                return false;
            if (!is_last)
                fetch(tile + 1);
            if (sight != NOTHING) {
                score(scores, halves_of(0));
#pragma unroll
                for (int m = 0; m < ROW_TILES; m++) {
                    const float *inverse = inverse_q + row_of_thread(m);
                    float inverse_k = inverses[tile % 2 * 2];
                    float unscale[2] = {inverse[0] * inverse_k, inverse[8] * inverse_k};
                    if (sight == SOMETHING)
                        mask(m, scores[m], tile);
                    weigh(m, scores[m], unscale);
                }
                add(scores, inverses[tile % 2 * 2 + 1], halves_of(1));
            }
            if (is_last)
                return true;
            find_peaks();
            __syncthreads(); /* all are done with the tile */
            split(tile + 1);
            __syncthreads();
        }
    }

    /* Do all tiles on fp32 units. */
    __device__ void take_all_hard() {
        begin_rows();
#pragma unroll 1
        for (int tile = 0; (int64_t)tile * KEYS < rows->end; tile++) {
            wait_copies<0>();
            __syncthreads(); /* of the tile before */
            fetch(tile);
            wait_copies<0>();
            __syncthreads();
#pragma unroll
            for (int m = 0; m < ROW_TILES; m++) {
                float scores[KEY_TILES][4], unscale[2] = {1, 1};
                int limit[2];
                const float *q = args->q + rows->begin + rows->row * dim;
                int64_t last = args->seq - rows->row - 1; /* rows beyond it repeat it */
                score_hard<DIM>(scores, q + min((int64_t)row_of_thread(m), last) * dim,
                                q + min((int64_t)row_of_thread(m) + 8, last) * dim, raw_k, dim);
                find_limits(limit, m, tile);
                mask(scores, limit);
                weigh(m, scores, unscale);
                add_hard<DIM>(out[m], scores, factor[m], WEIGHT_INVERSE, raw_v, limit);
            }
        }
    }

    __device__ void run(int64_t head, int64_t row) {
        int64_t seq = args->seq, begin = head * seq * dim;
        __syncthreads(); /* of the rows before */
        if (threadIdx.x < 4)
            n_small[threadIdx.x] = 0;
        if (threadIdx.x == 0) {
            rows->begin = begin;
            rows->row = row;
            rows->again = 0;
            rows->end = args->is_causal && row + ROWS < seq ? row + ROWS : seq;
        }
        __syncthreads();
        fetch(0);
        split_q(args->q + begin + row * dim, seq - row);
        if (!take_all())
            take_all_hard();
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++)
            store(m, args->o + begin + row * dim, seq - row);
    }
};

} // namespace

/* The rows that see most keys come first. */
#define SPLIT(FROM, size, dim, warps, row_tiles, keys)                                             \
    extern "C" __global__ void __launch_bounds__(32 * warps)                                       \
        attention_split_##size##_##dim(const __grid_constant__ attention_args args) {              \
        FROM(DYNAMIC_SHARED(float, shared); enum {ROWS = 16 * row_tiles * warps};                  \
             int64_t n_tiles = (args.seq + ROWS - 1) / ROWS;                                       \
             for (int64_t i = blockIdx.x; i < n_tiles * args.n_heads; i += gridDim.x) {            \
                 Split<dim, warps, row_tiles, keys> block(shared, &args);                          \
                 block.run(i % args.n_heads, (n_tiles - 1 - i / args.n_heads) * ROWS);             \
             });                                                                                   \
    }
#define SPLIT_SMALL(dim, warps, row_tiles, keys) SPLIT(FROM_80, small, dim, warps, row_tiles, keys)
#define SPLIT_MEDIUM(dim, warps, row_tiles, keys)                                                  \
    SPLIT(FROM_90, medium, dim, warps, row_tiles, keys)
#define SPLIT_LARGE(dim, warps, row_tiles, keys, per_sm)                                           \
    SPLIT(FROM_90, large, dim, warps, row_tiles, keys)
ATTENTION_SPLIT_SMALL_VARIANTS(SPLIT_SMALL)
ATTENTION_SPLIT_MEDIUM_VARIANTS(SPLIT_MEDIUM)
ATTENTION_SPLIT_LARGE_VARIANTS(SPLIT_LARGE)

#endif
