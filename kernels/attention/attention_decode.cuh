/*
 * Attention of one query per head, or a few, against caches of keys and values.  Each byte of a
 * cache is read once for up to 8 of the query heads that share it.  From 8.0 on caches of 16 bits
 * have steps of their own, in attention_decode_units.cuh.
 *
 * The positions of a row are dealt out in steps to the warps of all its chunks, one block per
 * chunk.  A lane has the same columns of the queries, of keys and of values.  A step's scores are
 * summed over lanes by halves, which leaves each lane with one of them; shared memory takes their
 * weights to all lanes.  The next keys are in flight while values are added, and the next values
 * while keys are scored.
 *
 * Rounding grows with the number of additions to one sum.  So after a span of steps a warp adds its
 * sums to its totals in shared memory and begins anew.  Warps, then chunks, are joined in their
 * order: within a cluster, or by a second kernel through the caller's scratch.
 *
 * Lengths are read here, because they may change between replays of a graph.  Nothing beyond them
 * is read, but of EVEN caches the first step of each warp is prefetched before they are known.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_DECODE_CUH
#define CUSHIM_KERNELS_ATTENTION_DECODE_CUH

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cache.cuh"
#include "kernels/attention/attention_decode_units.cuh"
#include "kernels/attention/attention_weight.cuh"
#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/math/divide.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/vector.cuh"

namespace {

#if defined(CUSHIM_EMULATED) || __CUDA_ARCH__ >= 800
enum { HAS_UNITS = true };
#else
enum { HAS_UNITS = false };
#endif

template <int TYPE, int DIM, int GROUP, bool IS_ON_UNITS> struct Decode {
    enum {
        IS_EVEN = TYPE == ATTENTION_EVEN,
        WARPS = ATTENTION_DECODE_WARPS(TYPE, DIM),
        THREADS = 32 * WARPS,
        LANES = DIM / 4 < 32 ? DIM / 4 : 32, /* that share a key or a value, and so do heads */
        WIDES = DIM / 4 / LANES,             /* per lane, of four columns each */
        KEYS = 32 / LANES,                   /* at the same time */
        ROUNDS = ATTENTION_DECODE_ROUNDS(TYPE),
        STEP_KEYS = KEYS * ROUNDS,
        SCORES = ROUNDS * GROUP,                       /* scores of which a lane has parts */
        HELD = SCORES > LANES ? SCORES / LANES : 1,    /* scores that the lane holds in the end */
        SPAN_STEPS = ATTENTION_DECODE_SPAN / STEP_KEYS /* few enough that their sums are short */
    };
    union OfWarp { /* on matrix units the output is stored when the last step is done */
        float out[GROUP][DIM];
        uint4 eights[ATTENTION_DECODE_WARP_BYTES(DIM, GROUP, IS_ON_UNITS) / 16];
    };
    struct alignas(16) Numbers { /* that a thread loads together */
        float of[WARPS];
    };
    struct Shared {
        OfWarp of_warp[WARPS];
        union { /* of a step */
            float weights[WARPS][KEYS][SCORES];
            float of_row[WARPS][GROUP][ATTENTION_DECODE_WEIGHTS(TYPE, DIM)];
        };
        Numbers warp_most[GROUP], warp_sum[GROUP];
        /* from the blocks of the cluster: parts of the outputs that this block joins, and for
         * all heads */
        float given[GROUP * DIM];
        float given_most[ATTENTION_MOST_CLUSTER][GROUP], given_sum[ATTENTION_MOST_CLUSTER][GROUP];
    };
    static_assert(sizeof(Shared) + (IS_ON_UNITS ? 32 * DIM : 0) ==
                      ATTENTION_DECODE_BYTES(TYPE, DIM, GROUP, IS_ON_UNITS),
                  "bytes of a block");
    static_assert(SCORES % 4 == 0 && LANES % GROUP == 0, "weights are read in fours");

    typedef Elements<TYPE> Of;
    typedef typename Of::Four Four;

    Shared *shared;
    const attention_cached_args *args;
    int dim, lane, warp;
    /* of the block's rows; row i of a sequence and KV head is head i % group of query i / group */
    int64_t sequence, head, in_q, in_parts; /* of KV; the place of row 0 */
    int first_row, n_rows, n_queries;
    int n_hidden;         /* last positions that row lane % GROUP does not see */
    int64_t early_length; /* read before the wait, or -1 */
    float4 q[GROUP][WIDES];
    Four keys[ROUNDS][WIDES], values[ROUNDS][WIDES];
    /* most and sum are of head lane % GROUP, the sum over the lane's own keys */
    float most, sum, out[GROUP][WIDES][4];

    __device__ Decode(Shared *shared, const attention_cached_args *args)
        : shared(shared), args(args), dim((int)args->head_dim), lane((int)threadIdx.x % 32),
          warp((int)threadIdx.x / 32) {
    }

    /* On matrix units a block may have half of its warps. */
    __device__ static int n_warps() {
        return IS_ON_UNITS ? (int)blockDim.x / 32 : (int)WARPS;
    }

    /* ---- a step ---- */

    __device__ int column(int wide) const {
        return (lane % LANES + LANES * wide) * 4;
    }

    /* row_of(u) is row u * KEYS from the lane's own first on, n_keys how many there are. */
    template <class Row>
    __device__ void load_rows(Four (&rows)[ROUNDS][WIDES], const Row &row_of, int n_keys) {
#pragma unroll
        for (int u = 0; u < ROUNDS; u++) {
            auto *row = row_of(u);
#pragma unroll
            for (int i = 0; i < WIDES; i++)
                rows[u][i] = Of::load(row, column(i), u * KEYS < n_keys ? dim : 0);
        }
    }

    /* A step of sums over lanes: a lane keeps one of two numbers, and gets its other part. */
    template <int N> __device__ void fold(float (&parts)[N], int n, int step) {
        bool is_odd = lane & step;
        if (n == 1)
            parts[0] += __shfl_xor_sync(0xFFFFFFFF, parts[0], step);
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            if (2 * i + 1 >= n)
                continue;
            float kept = is_odd ? parts[2 * i + 1] : parts[2 * i];
            float given = is_odd ? parts[2 * i] : parts[2 * i + 1];
            parts[i] = kept + __shfl_xor_sync(0xFFFFFFFF, given, step);
        }
    }

    /* Score number i of a key's lanes is that of round i / GROUP and head i % GROUP.  Lane j
     * ends up with numbers j % SCORES, j + LANES, ... */
    __device__ void score(float (&scores)[ROUNDS]) {
#pragma unroll
        for (int u = 0; u < ROUNDS; u++) {
            float parts[GROUP] = {};
#pragma unroll
            for (int i = 0; i < WIDES; i++) {
                float4 key = Of::widen(keys[u][i]);
#pragma unroll
                for (int h = 0; h < GROUP; h++) {
                    parts[h] = fmaf(q[h][i].x, key.x, parts[h]);
                    parts[h] = fmaf(q[h][i].y, key.y, parts[h]);
                    parts[h] = fmaf(q[h][i].z, key.z, parts[h]);
                    parts[h] = fmaf(q[h][i].w, key.w, parts[h]);
                }
            }
#pragma unroll
            for (int step = 1; step < GROUP; step *= 2)
                fold(parts, GROUP / step, step);
            scores[u] = parts[0];
        }
#pragma unroll
        for (int step = GROUP; step < LANES; step *= 2)
            fold(scores, ROUNDS / (step / GROUP) > 1 ? ROUNDS / (step / GROUP) : 1, step);
    }

    /* If a score is larger than all before, scale down what has been added. */
    __device__ void rebase(const float (&scores)[ROUNDS]) {
        float most_before = most;
#pragma unroll
        for (int p = 0; p < HELD; p++)
            most = fmaxf(most, scores[p]);
#pragma unroll
        for (int step = GROUP; step < 32; step *= 2)
            most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFF, most, step));
        float factor = factor_of(most_before, base_of(most), args->scale);
        sum *= factor;
#pragma unroll
        for (int h = 0; h < GROUP; h++) {
            float of_head = __shfl_sync(0xFFFFFFFF, factor, h);
#pragma unroll
            for (int i = 0; i < WIDES; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    out[h][i][e] *= of_head;
        }
    }

    /* Turn scores into weights, which all lanes of a key see; n_keys counts from the warp's
     * first.  The weight of a key that a row does not see is -1, unless all rows are the same. */
    __device__ void weigh(float (&scores)[ROUNDS], int n_keys) {
        int number = lane % LANES % SCORES;
        bool is_more = false, is_seen[HELD];
        n_keys -= IS_EVEN ? 0 : n_hidden;
#pragma unroll
        for (int p = 0; p < HELD; p++) {
            is_seen[p] = (number + p * LANES) / GROUP * KEYS + lane / LANES < n_keys;
            if (!is_seen[p])
                scores[p] = -INFINITY;
            is_more |= scores[p] > most;
        }
        if (__any_sync(0xFFFFFFFF, is_more))
            rebase(scores);
        float base = base_of(most);
#pragma unroll
        for (int p = 0; p < HELD; p++) {
            float weight = weight_of(scores[p], base, args->scale, 0);
            if (lane % LANES < SCORES) {
                sum += weight;
                shared->weights[warp][lane / LANES][number + p * LANES] =
                    IS_EVEN || is_seen[p] ? weight : -1;
            }
        }
        __syncwarp();
    }

    __device__ void add() {
        const float4 *fours = reinterpret_cast<const float4 *>(shared->weights[warp][lane / LANES]);
#pragma unroll
        for (int j = 0; j < SCORES; j += 4) {
            float4 four = fours[j / 4];
            float weights[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int w = 0; w < 4; w++) {
                int u = (j + w) / GROUP, h = (j + w) % GROUP;
                if (!IS_EVEN && weights[w] < 0)
                    continue;
#pragma unroll
                for (int i = 0; i < WIDES; i++) {
                    float4 value = Of::widen(values[u][i]);
                    out[h][i][0] = fmaf(weights[w], value.x, out[h][i][0]);
                    out[h][i][1] = fmaf(weights[w], value.y, out[h][i][1]);
                    out[h][i][2] = fmaf(weights[w], value.z, out[h][i][2]);
                    out[h][i][3] = fmaf(weights[w], value.w, out[h][i][3]);
                }
            }
        }
        __syncwarp(); /* before the next weights */
    }

    /* ---- a chunk ---- */

    __device__ void start_span() {
        sum = 0;
#pragma unroll
        for (int h = 0; h < GROUP; h++)
#pragma unroll
            for (int i = 0; i < WIDES; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    out[h][i][e] = 0;
    }

    /* Add the span's output to the warp's in shared memory, scaled by the lane's factor. */
    __device__ void end_span(float factor, bool is_first) {
#pragma unroll
        for (int h = 0; h < GROUP; h++) {
            float of_head = __shfl_sync(0xFFFFFFFF, factor, h);
#pragma unroll
            for (int i = 0; i < WIDES; i++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
#pragma unroll
                    for (int step = LANES; step < 32; step *= 2)
                        out[h][i][e] += __shfl_xor_sync(0xFFFFFFFF, out[h][i][e], step);
                float4 *place =
                    reinterpret_cast<float4 *>(&shared->of_warp[warp].out[h][column(i)]);
                if (lane < LANES) {
                    float4 total = is_first ? make_float4(0, 0, 0, 0) : *place;
                    total.x = fmaf(total.x, of_head, out[h][i][0]);
                    total.y = fmaf(total.y, of_head, out[h][i][1]);
                    total.z = fmaf(total.z, of_head, out[h][i][2]);
                    total.w = fmaf(total.w, of_head, out[h][i][3]);
                    *place = total;
                }
            }
        }
    }

    /* The number of keys left, limited to what an int holds; a span does not reach the limit. */
    __device__ int keys_of(int64_t n_left) const {
        return (int)(n_left < 1 << 30 ? n_left : 1 << 30);
    }

    /* Ask for the length and the warp's first keys and values while the kernel ahead may still
     * run.  If the length is in device memory it may not be read yet, so with a small length
     * these keys may lie beyond it. */
    __device__ void prefetch(int chunk) const {
        int64_t first = (int64_t)(warp * args->n_chunks + chunk) * STEP_KEYS;
        int64_t offset = sequence * args->batch_stride + head * args->head_stride;
        const float *k = (const float *)args->k + offset, *v = (const float *)args->v + offset;
        if (threadIdx.x == 0 && args->kv_len)
            prefetch_early(args->kv_len + (args->is_one_len ? 0 : sequence));
#pragma unroll
        for (int i = 0; i < 2 * STEP_KEYS; i += 32) {
            int row = i + lane;
            int64_t position = first + row % STEP_KEYS;
            if (row < 2 * STEP_KEYS && position < args->max_kv_len)
                prefetch_early((row < STEP_KEYS ? k : v) + position * args->position_stride,
                               4 * (unsigned)dim);
        }
    }

    /* Compute the warp's part of the chunk in shared memory.  Warps of all chunks take turns of
     * one step each, so that the first keys have the same place for any length. */
    __device__ void attend(int chunk) {
        int turn = WARPS * args->n_chunks * STEP_KEYS, ahead = warp * args->n_chunks * STEP_KEYS;
        int64_t first = (int64_t)chunk * STEP_KEYS, length = take_length();
        int64_t n_left = length - first; /* for the first warp, because all of the block take the
                                            same number of turns */
        StepRows<KEYS, TYPE> rows(*args, sequence, head, first + ahead, length, turn);
        auto key = [&](int u) { return rows.key(u); };
        auto value = [&](int u) { return rows.value(u); };
        float most_before = -INFINITY, all_sum = 0;
        bool is_first = true;
        most = -INFINITY;
        load_rows(keys, key, keys_of(n_left) - ahead - lane / LANES);
        do {
            int n = keys_of(n_left);
            start_span();
#pragma unroll 1
            for (int i = 0; i < SPAN_STEPS && n > 0; i++) {
                float scores[ROUNDS];
                load_rows(values, value, n - ahead - lane / LANES);
                __syncwarp(); /* otherwise the compiler moves the loads down to where values are
                                 added */
                rows.next();
                score(scores);
                load_rows(keys, key, n - turn - ahead - lane / LANES);
                weigh(scores, n - ahead);
                add();
                n -= turn;
            }
            n_left -= (int64_t)SPAN_STEPS * turn;
            float factor = factor_of(most_before, base_of(most), args->scale);
            all_sum = is_first ? sum : fmaf(all_sum, factor, sum);
            end_span(factor, is_first);
            most_before = most;
            is_first = false;
        } while (n_left > 0);
#pragma unroll
        for (int step = GROUP; step < 32; step *= 2)
            all_sum += __shfl_xor_sync(0xFFFFFFFF, all_sum, step);
        if (lane < GROUP) {
            shared->warp_most[lane].of[warp] = most;
            shared->warp_sum[lane].of[warp] = all_sum;
        }
    }

    /* ---- results ---- */

    /* Join the parts of the warps, and store the block's to the cluster, to scratch or to the
     * output. */
    __device__ void join_warps(int chunk) {
        __syncthreads();
        if (args->is_clustered)
            cluster_wait(); /* the other blocks run */
#pragma unroll
        for (int i = 4 * (int)threadIdx.x; i < GROUP * DIM; i += 4 * 32 * n_warps()) {
            int h = i / DIM;
            float all_most = -INFINITY, all_sum = 0;
            float4 value = make_float4(0, 0, 0, 0);
            Numbers most_of = shared->warp_most[h], sum_of = shared->warp_sum[h];
#pragma unroll
            for (int w = 0; w < WARPS; w++)
                all_most = fmaxf(all_most, w < n_warps() ? most_of.of[w] : -INFINITY);
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                if (w >= n_warps())
                    break;
                float *place = &shared->of_warp[w].out[h][i % DIM];
                float4 out_of = *reinterpret_cast<const float4 *>(place);
                float factor = factor_of(most_of.of[w], base_of(all_most), args->scale);
                all_sum = fmaf(sum_of.of[w], factor, all_sum);
                value.x = fmaf(out_of.x, factor, value.x);
                value.y = fmaf(out_of.y, factor, value.y);
                value.z = fmaf(out_of.z, factor, value.z);
                value.w = fmaf(out_of.w, factor, value.w);
            }
            if (args->is_clustered)
                give(i, value, all_most, all_sum);
            else if (h < n_rows && i % DIM < dim)
                store_chunk(h, i % DIM, chunk, value, all_most, all_sum);
        }
    }

    /* Store columns from d on.  If there is only one chunk they are the output, up to its last
     * column. */
    __device__ void store_chunk(int h, int d, int chunk, float4 value, float all_most,
                                float all_sum) {
        if (args->n_chunks > 1) {
            int64_t place = (in_parts + offset(h)) * args->n_chunks + chunk;
            float *part = args->parts + place * ATTENTION_PART_COLUMNS(dim) + d;
            *reinterpret_cast<float4 *>(part) = value;
            if (d == 0)
                reinterpret_cast<float2 *>(args->stats)[place] = make_float2(all_most, all_sum);
            return;
        }
        float values[4] = {value.x, value.y, value.z, value.w}, share = share_of(all_sum);
        float *o = args->o + (in_q + offset(h)) * dim + d;
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (d + e < dim)
                o[e] = all_sum == 0 ? 0 : values[e] * share;
    }

    /* Give outputs from i on to the block of the cluster that joins them. */
    __device__ void give(int i, float4 value, float all_most, float all_sum) {
        int n = (int)cluster_size(), rank = (int)cluster_rank(), h = i / DIM;
        int n_own = GROUP * DIM / n, to = i * n / (GROUP * DIM);
        float *place = &shared->given[rank * n_own + i - to * n_own];
        *reinterpret_cast<float4 *>(cluster_shared(place, to)) = value;
        for (int other = i % DIM / 4; other < n; other += DIM / 4) {
            *cluster_shared(&shared->given_most[rank][h], other) = all_most;
            *cluster_shared(&shared->given_sum[rank][h], other) = all_sum;
        }
    }

    /* Store the block's share of the cluster's output.  A warp has one head, because DIM is a
     * multiple of 32; lane i weighs block i for all. */
    __device__ void store_cluster() {
        int n = (int)cluster_size(), n_own = GROUP * DIM / n, first = (int)cluster_rank() * n_own;
        cluster_sync();
        for (int i = (int)threadIdx.x; i - lane < n_own; i += THREADS) {
            int h = (first + i - lane) / DIM, d = (first + i) % DIM;
            float most_of_block = lane < n ? shared->given_most[lane][h] : -INFINITY;
            float sum_of_block = lane < n ? shared->given_sum[lane][h] : 0, value = 0;
            float base = base_of(max_of_lanes<WARP_LANES>(most_of_block));
            float factor = factor_of(most_of_block, base, args->scale);
            float all_sum = sum_of_lanes<WARP_LANES>(sum_of_block * factor);
#pragma unroll
            for (int rank = 0; rank < ATTENTION_MOST_CLUSTER; rank++) {
                float given = rank < n && i < n_own ? shared->given[rank * n_own + i] : 0;
                value = fmaf(given, __shfl_sync(0xFFFFFFFF, factor, rank), value);
            }
            if (i < n_own && h < n_rows && d < dim)
                args->o[(in_q + offset(h)) * dim + d] =
                    all_sum == 0 ? 0 : value * share_of(all_sum);
        }
    }

    /* From row 0 to the block's row h, in rows. */
    __device__ int64_t offset(int h) const {
        int row = first_row + h, group = (int)args->group, query = IS_EVEN ? 0 : row / group;
        return query * args->n_kv_heads * group + row - query * group;
    }

    __device__ const float *row_of_q(int h) const {
        return args->q + (in_q + offset(h)) * dim;
    }

    /* The number of last positions that row h, or another, does not see. */
    __device__ int hidden_of(int h) const {
        int own = first_row + (h < n_rows ? h : 0);
        return args->is_causal ? n_queries - 1 - own / (int)args->group : 0;
    }
    __device__ int most_hidden() const {
        return args->is_causal ? n_queries - 1 : 0;
    }

    /* Take the GROUP rows of a slice of the rows of a KV head. */
    __device__ void take_slice(int64_t slice) {
        int64_t kv = divide(slice, args->of_slice);
        sequence = divide(kv, args->of_head);
        head = kv - sequence * args->n_kv_heads;
        first_row = (int)(slice - kv * args->n_slices) * GROUP;
    }

    /* The positions of the sequence. */
    __device__ int64_t take_length() {
        int64_t length = early_length < 0 ? length_of(*args, sequence) : early_length;
        early_length = -1;
        return length;
    }

    /* Attend with them, of which the sequence may have fewer. */
    __device__ void run(int chunk) {
        n_queries = (int)clamped(args->q_len, sequence, args->max_q_len);
        int left = n_queries * (int)args->group - first_row;
        int64_t first = sequence * args->max_q_len;
        if (left <= 0)
            return;
        if (args->is_clustered)
            cluster_arrive_relaxed();
        n_rows = left < GROUP ? left : GROUP;
        in_parts = (first * args->n_kv_heads + head) * args->group;
        first = args->q_begin ? args->q_begin[sequence] : first;
        in_q = (first * args->n_kv_heads + head) * args->group;
        if constexpr (IS_ON_UNITS) {
            DecodeUnits<Decode, TYPE, DIM, GROUP>(*this).attend(chunk);
        } else {
            n_hidden = hidden_of(lane % GROUP);
#pragma unroll
            for (int h = 0; h < GROUP; h++)
#pragma unroll
                for (int i = 0; i < WIDES; i++)
                    q[h][i] = load_columns<false>(row_of_q(h), column(i), h < n_rows ? dim : 0,
                                                  IS_EVEN || args->is_wide);
            attend(chunk);
        }
        join_warps(chunk);
        if (args->is_clustered)
            store_cluster();
    }
};

/* Blocks along x are the chunks of a slice, which may be a cluster. */
template <class Block> DEVICE void decode(float *shared, const attention_cached_args *args) {
    Block block(reinterpret_cast<typename Block::Shared *>(shared), args);
    int64_t n_slices = args->batch * args->n_kv_heads * args->n_slices, slice = blockIdx.y;
    block.take_slice(slice);
    if (Block::IS_EVEN && !args->kv_begin)
        block.prefetch((int)blockIdx.x);
    block.early_length = args->is_early ? length_of(*args, block.sequence) : -1;
    wait_for_earlier();
    let_next_start();
#pragma unroll 1
    for (;;) {
        block.run((int)blockIdx.x);
        slice += gridDim.y;
        if (slice >= n_slices)
            break;
        __syncthreads(); /* there are never more clusters than the device runs at once */
        block.take_slice(slice);
    }
}

template <int TYPE, int DIM, int GROUP>
DEVICE void decode_on_device(float *shared, const attention_cached_args *args) {
    constexpr bool IS_ON_UNITS = HAS_UNITS && ATTENTION_IS_OF_16(TYPE);
#ifdef CUSHIM_EMULATED /* the launcher knows whether the device has matrix units */
    if (emulated_dynamic_bytes() < ATTENTION_DECODE_BYTES(TYPE, DIM, GROUP, IS_ON_UNITS))
        return decode<Decode<TYPE, DIM, GROUP, false>>(shared, args);
#endif
    decode<Decode<TYPE, DIM, GROUP, IS_ON_UNITS>>(shared, args);
}

} // namespace

/* The blocks per multiprocessor on which the launcher counts are worth a spilled register or two.
 */
#define DECODE(name, type, dim, group)                                                             \
    extern "C" __global__ void __launch_bounds__(                                                  \
        32 * ATTENTION_DECODE_WARPS(ATTENTION_##type, dim),                                        \
        ATTENTION_DECODE_SLOTS(ATTENTION_##type, dim))                                             \
        attention_decode_##name(const __grid_constant__ attention_cached_args args) {              \
        DYNAMIC_SHARED(float, shared);                                                             \
        decode_on_device<ATTENTION_##type, dim, group>(shared, &args);                             \
    }
ATTENTION_DECODE_VARIANTS(DECODE)

#endif
