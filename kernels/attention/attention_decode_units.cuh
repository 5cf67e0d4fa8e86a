/*
 * A warp's part of decode with caches of 16 bits, on matrix units (sm_80 and later).
 *
 * Such elements are exact in tf32.  A query's element, and a weight, are two terms of tf32: its
 * first 11 bits, and the next.  So the eight columns of a product are four rows of two terms
 * (IS_PACKED), or eight rows of which each term has a product of its own.  A lower term is 0 only
 * if the number is, and has its sign, so that an infinite key or value does not become NaN.
 *
 * The order of head_dim and of keys in a sum is free.  It is chosen so that a lane reads 16 bytes
 * and has them where a product expects them (kernels/device/arch/mma.cuh): of keys, lanes of 4 have
 * 8 columns each of two rows; of values, lanes 4 apart have 8 columns each of four rows.  Keys and
 * values come to shared memory first, because memory is asked for whole lines, 128 bytes by eight
 * neighbouring lanes.  Requests for parts of a line are slower.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_DECODE_UNITS_CUH
#define CUSHIM_KERNELS_ATTENTION_DECODE_UNITS_CUH

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cache.cuh"
#include "kernels/attention/attention_weight.cuh"
#include "kernels/device/arch/async_copy.cuh"
#include "kernels/device/arch/mma.cuh"
#include "kernels/device/device.cuh"

namespace {

/* The lower term of a number; the upper one is the number, because a product ignores its last bits.
 */
DEVICE float low_term(float x) {
    uint32_t bits = __float_as_uint(x);
    return __uint_as_float(bits | 1) - __uint_as_float(bits & 0xFFFFE000);
}

/* D += A * B, of whose k = 8 a lane has numbers t and t + 4: `first` and `second`. */
DEVICE void multiply_terms(float (&d)[4], float2 first, float2 second, float b0, float b1) {
    const uint32_t a[4] = {__float_as_uint(first.x), __float_as_uint(first.y),
                           __float_as_uint(second.x), __float_as_uint(second.y)};
    const uint32_t b[2] = {__float_as_uint(b0), __float_as_uint(b1)};
    mma_tf32(d, a, b);
}

/* Block is Decode<TYPE, DIM, GROUP>. */
template <class Block, int TYPE, int DIM, int GROUP> struct DecodeUnits {
    enum {
        IS_PACKED = GROUP == 4,
        ROWS = IS_PACKED ? 1 : 2, /* of which a lane has scores and outputs */
        STEP_KEYS = ATTENTION_DECODE_UNIT_KEYS,
        SPAN_STEPS = ATTENTION_DECODE_SPAN / STEP_KEYS
    };
    static_assert(GROUP == 4 || GROUP == 8, "eight columns");

    typedef Elements<TYPE> Of;

    Block &block;
    const attention_cached_args *args;
    typename Block::Shared *shared;
    float4 *terms; /* of the rows, in the order of products: [DIM / 16][32] */
    int lane, warp, g, t;
    uint4 *keys, *values; /* of the warp's step, in shared memory, where place() says */
    float most[ROWS], sum[ROWS], out[DIM / 16][4];
    float all[DIM / 16][2][ROWS]; /* outputs of all spans */

    __device__ DecodeUnits(Block &block)
        : block(block), args(block.args), shared(block.shared),
          terms(reinterpret_cast<float4 *>(block.shared + 1)), lane(block.lane), warp(block.warp),
          g(lane / 4), t(lane % 4), keys(shared->of_warp[warp].eights), values(keys + 2 * DIM) {
    }

    /* The row of which the lane has number r of its scores. */
    __device__ int row_of(int r) const {
        return t * ROWS + r;
    }

    /* ---- a step ---- */

    __device__ static int turn_of(int row) {
        return (row % 2 * 4) ^ (row / 4 * 2);
    }

    /* The place of eight columns of a row.  What eight lanes read or copy at the same time lies in
     * different banks.  The bits of a row and of an eight may be given in two parts; those that the
     * compiler knows cost no instructions. */
    __device__ static int place(int row, int eight, int known_row = 0, int known_eight = 0) {
        int turn = turn_of(row) ^ turn_of(known_row) ^ known_eight % 8;
        return ((row * (DIM / 8) + eight) ^ turn) + known_row * (DIM / 8) + known_eight / 8 * 8;
    }

    /* Begin to copy keys or values of a step; `own` is the row of key `lane`. */
    template <class Rows>
    __device__ void copy(uint4 *to, const Rows &rows, const typename Of::Element *own, int n_keys) {
        if (block.dim % 8 == 0 && __all_sync(0xFFFFFFFF, (uintptr_t)own % 16 == 0)) {
#pragma unroll
            for (int u = 0; u < 4; u++) {
                int key = 4 * u + lane / 8;
                auto *row = rows.of_lane(own, key) + lane % 8 * 8;
#pragma unroll
                for (int i = 0; i < DIM / 8; i += 8)
                    if (key < n_keys && 8 * (lane % 8 + i) < block.dim)
                        copy_async_16(&to[place(lane / 8, lane % 8, 4 * u, i)], row + 8 * i);
            }
        } else {
#pragma unroll 1
            for (int i = lane; i < 2 * DIM; i += 32) {
                int key = i / (DIM / 8), eight = i % (DIM / 8);
                auto *row = rows.of_lane(own, key);
                to[place(key, eight)] =
                    Of::load_eight(row, 8 * eight, key < n_keys ? block.dim : 0);
            }
        }
        commit_copies();
    }

    __device__ static uint32_t word(const uint4 &words, int i) {
        return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
    }

    /* Of keys g and g + 8 and the lane's rows. */
    __device__ void score(float (&scores)[2][ROWS]) const {
        float parts[2][4] = {};
#pragma unroll
        for (int i = 0; i < DIM / 16; i++) {
            float4 four = terms[i * 32 + lane];
            uint4 ups = keys[place(g, t, 0, i / 2 * 4)], downs = keys[place(g, t, 8, i / 2 * 4)];
            const float q[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int m = 0; m < 2; m++) {
                float2 up = Of::widen2(word(ups, i % 2 * 2 + m));
                float2 down = Of::widen2(word(downs, i % 2 * 2 + m));
                float2 first = make_float2(up.x, down.x), second = make_float2(up.y, down.y);
                multiply_terms(parts[IS_PACKED ? m : 0], first, second, q[2 * m], q[2 * m + 1]);
                if (!IS_PACKED)
                    multiply_terms(parts[1], first, second, low_term(q[2 * m]),
                                   low_term(q[2 * m + 1]));
            }
        }
#pragma unroll
        for (int u = 0; u < 2; u++) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                scores[u][r] = parts[0][2 * u + r] + parts[1][2 * u + r];
            if (IS_PACKED)
                scores[u][0] += parts[0][2 * u + 1] + parts[1][2 * u + 1];
        }
    }

    /* If a score is larger than all before, scale down what has been added. */
    __device__ void rebase(const float (&scores)[2][ROWS]) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float most_before = most[r];
            most[r] = fmaxf(most[r], fmaxf(scores[0][r], scores[1][r]));
#pragma unroll
            for (int step = 4; step < 32; step *= 2)
                most[r] = fmaxf(most[r], __shfl_xor_sync(0xFFFFFFFF, most[r], step));
            float factor = factor_of(most_before, base_of(most[r]), args->scale);
            sum[r] *= factor;
#pragma unroll
            for (int i = 0; i < DIM / 16; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (IS_PACKED || e % 2 == r)
                        out[i][e] *= factor;
        }
    }

    /* Turn scores into weights, which lanes take from shared memory; n_keys counts from the warp's
     * first, and is_whole says that all rows see the whole step. */
    __device__ void weigh(float (&scores)[2][ROWS], int n_keys, bool is_whole) {
        bool is_more = false;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int n_seen = is_whole ? (int)STEP_KEYS : n_keys - block.hidden_of(row_of(r));
#pragma unroll
            for (int u = 0; u < 2; u++) {
                if (g + 8 * u >= n_seen)
                    scores[u][r] = -INFINITY;
                is_more |= scores[u][r] > most[r];
            }
        }
        if (__any_sync(0xFFFFFFFF, is_more))
            rebase(scores);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int u = 0; u < 2; u++) {
                float weight = weight_of(scores[u][r], base_of(most[r]), args->scale, 0);
                sum[r] += weight;
                shared->of_row[warp][row_of(r)][g + 8 * u] = weight;
            }
        }
        __syncwarp();
    }

    /* Add the keys that not all rows see on fp32 units, because 0 times what a row does not see may
     * be NaN, and take them from the step.  Lanes of 4 have the same columns of values. */
    __device__ void add_hidden(int n_keys) {
        int first = n_keys - block.most_hidden(), n_seen[ROWS];
        int n = n_keys < STEP_KEYS ? n_keys : (int)STEP_KEYS;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            n_seen[r] = n_keys - block.hidden_of(row_of(r));
#pragma unroll 1
        for (int key = first > 0 ? first : 0; key < n; key++) {
#pragma unroll
            for (int i = 0; i < DIM / 16; i++) {
                float2 two = Of::widen2(word(values[place(key, g + i / 4 * 8)], i % 4));
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    float weight = shared->of_row[warp][row_of(r)][key];
                    out[i][r] = key < n_seen[r] ? fmaf(weight, two.x, out[i][r]) : out[i][r];
                    out[i][2 + r] =
                        key < n_seen[r] ? fmaf(weight, two.y, out[i][2 + r]) : out[i][2 + r];
                }
            }
        }
        __syncwarp();
#pragma unroll
        for (int u = 0; u < 4; u++)
#pragma unroll
            for (int i = 0; i < DIM / 64; i++)
                if (4 * t + u >= first)
                    values[place(4 * t, g, u, i * 8)] = make_uint4(0, 0, 0, 0);
    }

    /* Add values by the weights of a column's row. */
    __device__ void add(int n_keys, bool is_whole) {
        int row = IS_PACKED ? g / 2 : g;
        float4 four = *reinterpret_cast<const float4 *>(&shared->of_row[warp][row][4 * t]);
        const float weights[4] = {four.x, four.y, four.z, four.w};
        float low[4];
        if (!is_whole)
            add_hidden(n_keys);
#pragma unroll
        for (int u = 0; u < 4; u++)
            low[u] = low_term(weights[u]);
#pragma unroll
        for (int i = 0; i < DIM / 16; i++) {
#pragma unroll
            for (int u = 0; u < 4; u += 2) {
                float2 first = Of::widen2(word(values[place(4 * t, g, u, i / 4 * 8)], i % 4));
                float2 second = Of::widen2(word(values[place(4 * t, g, u + 1, i / 4 * 8)], i % 4));
                bool is_low = IS_PACKED && g % 2;
                multiply_terms(out[i], first, second, is_low ? low[u] : weights[u],
                               is_low ? low[u + 1] : weights[u + 1]);
                if (!IS_PACKED)
                    multiply_terms(out[i], first, second, low[u], low[u + 1]);
            }
        }
        __syncwarp(); /* before the next weights */
    }

    /* ---- a chunk ---- */

    __device__ void form_terms() {
        for (int i = (int)threadIdx.x; i < DIM / 16 * 32; i += 32 * Block::n_warps()) {
            int of = i % 32, row = IS_PACKED ? of / 8 : of / 4;
            int column = i / 64 * 32 + of % 4 * 8 + i / 32 % 2 * 4;
            float4 four = load_columns<false>(block.row_of_q(row), column,
                                              row < block.n_rows ? block.dim : 0, args->is_wide);
            if (IS_PACKED && of / 4 % 2)
                four = make_float4(low_term(four.x), low_term(four.y), low_term(four.z),
                                   low_term(four.w));
            terms[i] = four;
        }
        __syncthreads();
    }

    __device__ void start_span() {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            sum[r] = 0;
#pragma unroll
        for (int i = 0; i < DIM / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                out[i][e] = 0;
    }

    /* The output of number r of the lane's rows, in the lane's column `e` of tile i. */
    __device__ float output(int i, int e, int r) const {
        return IS_PACKED ? out[i][2 * e] + out[i][2 * e + 1] : out[i][2 * e + r];
    }

    /* Add the span's output. */
    __device__ void end_span(float factor, int r) {
#pragma unroll
        for (int i = 0; i < DIM / 16; i++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                all[i][e][r] = fmaf(all[i][e][r], factor, output(i, e, r));
    }

    /* Store the warp's outputs where its keys and values were. */
    __device__ void store(int r) const {
        float *row = shared->of_warp[warp].out[row_of(r)];
#pragma unroll
        for (int i = 0; i < DIM / 16; i += 2)
            *reinterpret_cast<float4 *>(&row[i / 4 * 64 + 8 * g + i % 4 * 2]) =
                make_float4(all[i][0][r], all[i][1][r], all[i + 1][0][r], all[i + 1][1][r]);
    }

    /* Like Decode::attend. */
    __device__ void attend(int chunk) {
        int turn = Block::n_warps() * args->n_chunks * STEP_KEYS;
        int ahead = warp * args->n_chunks * STEP_KEYS;
        int64_t first = (int64_t)chunk * STEP_KEYS, length = block.take_length();
        int64_t n_left = length - first;
        StepRows<8, TYPE> rows(*args, block.sequence, block.head, first + ahead, length, turn);
        float most_before[ROWS], all_sum[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            most[r] = most_before[r] = -INFINITY;
            all_sum[r] = 0;
#pragma unroll
            for (int i = 0; i < DIM / 16; i++)
                all[i][0][r] = all[i][1][r] = 0;
        }
        if (block.dim < DIM) { /* no step writes the other columns */
#pragma unroll
            for (int i = lane; i < 2 * DIM; i += 32)
                keys[i] = make_uint4(0, 0, 0, 0);
            __syncwarp();
        }
        copy(keys, rows, rows.key_row, block.keys_of(n_left) - ahead);
        copy(values, rows, rows.value_row, block.keys_of(n_left) - ahead);
        form_terms();
        do {
            int n = block.keys_of(n_left);
            start_span();
#pragma unroll 1
            for (int i = 0; i < SPAN_STEPS && n > 0; i++) {
                float scores[2][ROWS];
                bool is_whole = n - ahead - block.most_hidden() >= STEP_KEYS;
                rows.next();
                wait_copies<1>();
                __syncwarp(); /* all lanes have copied keys */
                score(scores);
                __syncwarp();
                copy(keys, rows, rows.key_row, n - turn - ahead);
                weigh(scores, n - ahead, is_whole);
                wait_copies<1>();
                __syncwarp();
                add(n - ahead, is_whole);
                n -= turn;
                copy(values, rows, rows.value_row, n - ahead);
            }
            n_left -= (int64_t)SPAN_STEPS * turn;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float factor = factor_of(most_before[r], base_of(most[r]), args->scale);
                all_sum[r] = fmaf(all_sum[r], factor, sum[r]);
                end_span(factor, r);
                most_before[r] = most[r];
            }
        } while (n_left > 0);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int step = 4; step < 32; step *= 2)
                all_sum[r] += __shfl_xor_sync(0xFFFFFFFF, all_sum[r], step);
            if (g == 0) {
                shared->warp_most[row_of(r)].of[warp] = most[r];
                shared->warp_sum[row_of(r)].of[warp] = all_sum[r];
            }
            store(r);
        }
    }
};

} // namespace

#endif
