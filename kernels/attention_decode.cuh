/*
 * Attention of one query a head against a cache of keys and values, each byte of which is read once
 * for all query heads that share it.
 *
 * The positions of a row are cut into chunks, a block each, and a block's into steps of its warps.
 * A step scores 4 * ROUNDS keys, 8 lanes a key; a lane is left with the score of one key and one
 * head.  Then the warp, or a part of it, goes through the values in rows.  The next keys are under
 * way while values are added, and the next values while keys are scored.  Warps, then chunks, are
 * joined in their order: within a cluster, or by a second kernel through the caller's scratch.
 *
 * The length is read here, since it may change between replays of a graph.  Nothing beyond it is
 * read.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_DECODE_CUH
#define CUSHIM_KERNELS_ATTENTION_DECODE_CUH

#include "kernels/attention.h"
#include "kernels/attention_weight.cuh"
#include "kernels/device/cluster.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/order.cuh"
#include "kernels/device/vector.cuh"

namespace {

template <int DIM, int GROUP, int WARPS, bool IS_WIDE> struct Decode {
    enum {
        THREADS = 32 * WARPS,
        ROUNDS = DIM < 128 ? 128 / DIM : 1,
        STEP_KEYS = 4 * ROUNDS,
        K_WIDES = DIM / 32,                    /* four columns each, of a key, a lane */
        V_LANES = DIM / 4 < 32 ? DIM / 4 : 32, /* of a value */
        V_WIDES = DIM / 4 / V_LANES,           /* of a value, a lane */
        V_KEYS = 32 / V_LANES,                 /* at the same time */
        V_ROUNDS = STEP_KEYS / V_KEYS,
        Q_ROUNDS = (GROUP * DIM + THREADS - 1) / THREADS
    };
    struct Shared {
        float q[GROUP][DIM], out[WARPS][GROUP][DIM]; /* the block's own output: out[0] */
        float warp_most[WARPS][GROUP], warp_sum[WARPS][GROUP];
        float most[GROUP], sum[GROUP]; /* of the block */
    };
    static_assert(sizeof(Shared) == ATTENTION_DECODE_BYTES(DIM, GROUP, WARPS), "bytes of a block");

    Shared *shared;
    const attention_decode_args *args;
    int dim, lane, warp;
    const float *k, *v; /* of the KV head */
    float4 keys[ROUNDS][K_WIDES], values[V_ROUNDS][V_WIDES];
    /* most and sum: of head lane % GROUP, the sum over the lane's own keys */
    float most, sum, out[GROUP][V_WIDES][4];

    __device__ Decode(Shared *shared, const attention_decode_args *args)
        : shared(shared), args(args), dim((int)args->head_dim), lane((int)threadIdx.x % 32),
          warp((int)threadIdx.x / 32) {
    }

    /* ---- a step ---- */

    /* Columns that are read once, 0 where the row is not there. */
    __device__ float4 load(const float *row, int column, bool is_there) {
        int n_columns = is_there ? dim : 0;
        if (IS_WIDE)
            return column < n_columns
                       ? load_streamed(reinterpret_cast<const float4 *>(row + column))
                       : make_float4(0, 0, 0, 0);
        return load_columns(row, column, n_columns, false);
    }

    /* first: the row of the warp's first key; n_keys: how many there are from there on */
    __device__ void load_keys(const float *first, int64_t n_keys) {
        first += lane / 8 * args->position_stride;
#pragma unroll
        for (int u = 0; u < ROUNDS; u++)
#pragma unroll
            for (int i = 0; i < K_WIDES; i++)
                keys[u][i] = load(first + 4 * u * args->position_stride, lane % 8 * 4 + 32 * i,
                                  4 * u + lane / 8 < n_keys);
    }

    __device__ void load_values(const float *first, int64_t n_keys) {
        first += lane / V_LANES * args->position_stride;
#pragma unroll
        for (int u = 0; u < V_ROUNDS; u++)
#pragma unroll
            for (int i = 0; i < V_WIDES; i++)
                values[u][i] =
                    load(first + u * V_KEYS * args->position_stride,
                         (lane % V_LANES + V_LANES * i) * 4, u * V_KEYS + lane / V_LANES < n_keys);
    }

    /* Sums over 8 lanes of a number a head; lane i gets that of head i % GROUP. */
    __device__ float gather(float (&parts)[GROUP]) {
        int n = GROUP;
#pragma unroll
        for (int step = 1; step < 8; step *= 2) {
            if (n == 1) {
                parts[0] += __shfl_xor_sync(0xFFFFFFFF, parts[0], step);
                continue;
            }
            bool is_odd = lane & step;
            n /= 2;
#pragma unroll
            for (int i = 0; i < GROUP / 2; i++) {
                if (i >= n)
                    continue;
                float kept = is_odd ? parts[2 * i + 1] : parts[2 * i];
                float given = is_odd ? parts[2 * i] : parts[2 * i + 1];
                parts[i] = kept + __shfl_xor_sync(0xFFFFFFFF, given, step);
            }
        }
        return parts[0];
    }

    __device__ void score(float (&scores)[ROUNDS]) {
#pragma unroll
        for (int u = 0; u < ROUNDS; u++) {
            float parts[GROUP];
#pragma unroll
            for (int h = 0; h < GROUP; h++) {
                float part = 0;
#pragma unroll
                for (int i = 0; i < K_WIDES; i++) {
                    float4 q =
                        *reinterpret_cast<const float4 *>(&shared->q[h][lane % 8 * 4 + 32 * i]);
                    part = fmaf(q.x, keys[u][i].x, part);
                    part = fmaf(q.y, keys[u][i].y, part);
                    part = fmaf(q.z, keys[u][i].z, part);
                    part = fmaf(q.w, keys[u][i].w, part);
                }
                parts[h] = part;
            }
            scores[u] = gather(parts);
        }
    }

    /* Scores become weights. */
    __device__ void weigh(float (&scores)[ROUNDS], int64_t n_keys) {
        float most_before = most;
#pragma unroll
        for (int u = 0; u < ROUNDS; u++) {
            if (4 * u + lane / 8 >= n_keys)
                scores[u] = -INFINITY;
            most = fmaxf(most, scores[u]);
        }
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFF, most, 8));
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFF, most, 16));
        float base = base_of(most);
        if (__any_sync(0xFFFFFFFF, most > most_before)) {
            float factor = factor_of(most_before, base, args->scale);
            sum *= factor;
#pragma unroll
            for (int h = 0; h < GROUP; h++) {
                float of_head = __shfl_sync(0xFFFFFFFF, factor, h);
#pragma unroll
                for (int i = 0; i < V_WIDES; i++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        out[h][i][e] *= of_head;
            }
        }
#pragma unroll
        for (int u = 0; u < ROUNDS; u++) {
            scores[u] = weight_of(scores[u], base, args->scale, 0);
            sum += scores[u];
        }
    }

    __device__ void add(const float (&weights)[ROUNDS]) {
#pragma unroll
        for (int u = 0; u < V_ROUNDS; u++) {
            int first = u * V_KEYS; /* the warp's keys are first .. first + V_KEYS - 1 */
            int from = (first % 4 + lane / V_LANES) * 8;
#pragma unroll
            for (int h = 0; h < GROUP; h++) {
                float weight = __shfl_sync(0xFFFFFFFF, weights[first / 4], from + h);
#pragma unroll
                for (int i = 0; i < V_WIDES; i++) {
                    out[h][i][0] = fmaf(weight, values[u][i].x, out[h][i][0]);
                    out[h][i][1] = fmaf(weight, values[u][i].y, out[h][i][1]);
                    out[h][i][2] = fmaf(weight, values[u][i].z, out[h][i][2]);
                    out[h][i][3] = fmaf(weight, values[u][i].w, out[h][i][3]);
                }
            }
        }
    }

    /* ---- a chunk ---- */

    /* The warp's part of positions begin .. end - 1, into shared memory; it has its first keys. */
    __device__ void attend(int64_t begin, int64_t end) {
        most = -INFINITY;
        sum = 0;
#pragma unroll
        for (int h = 0; h < GROUP; h++)
#pragma unroll
            for (int i = 0; i < V_WIDES; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    out[h][i][e] = 0;
        int64_t n_keys = end - begin - warp * STEP_KEYS; /* from the warp's next on */
        const float *key = k + (begin + warp * STEP_KEYS) * args->position_stride;
        const float *value = v + (begin + warp * STEP_KEYS) * args->position_stride;
        int64_t stride = WARPS * STEP_KEYS * args->position_stride;
        for (; n_keys > 0; n_keys -= WARPS * STEP_KEYS) {
            float scores[ROUNDS];
            load_values(value, n_keys);
            __syncwarp(); /* else the compiler moves the loads down, to where values are added */
            value += stride;
            key += stride;
            score(scores);
            load_keys(key, n_keys - WARPS * STEP_KEYS);
            weigh(scores, n_keys);
            add(scores);
        }
        sum += __shfl_xor_sync(0xFFFFFFFF, sum, 8);
        sum += __shfl_xor_sync(0xFFFFFFFF, sum, 16);
        if (lane < GROUP) {
            shared->warp_most[warp][lane] = most;
            shared->warp_sum[warp][lane] = sum;
        }
#pragma unroll
        for (int h = 0; h < GROUP; h++)
#pragma unroll
            for (int i = 0; i < V_WIDES; i++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
#pragma unroll
                    for (int step = V_LANES; step < 32; step *= 2)
                        out[h][i][e] += __shfl_xor_sync(0xFFFFFFFF, out[h][i][e], step);
                if (lane < V_LANES)
                    *reinterpret_cast<float4 *>(&shared->out[warp][h][(lane + V_LANES * i) * 4]) =
                        make_float4(out[h][i][0], out[h][i][1], out[h][i][2], out[h][i][3]);
            }
    }

    /* The warps' parts become the block's. */
    __device__ void join_warps() {
        __syncthreads();
        for (int i = (int)threadIdx.x; i < GROUP * DIM; i += THREADS) {
            int h = i / DIM, d = i % DIM;
            float all_most = -INFINITY, all_sum = 0, value = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++)
                all_most = fmaxf(all_most, shared->warp_most[w][h]);
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                float factor = factor_of(shared->warp_most[w][h], base_of(all_most), args->scale);
                all_sum = fmaf(shared->warp_sum[w][h], factor, all_sum);
                value = fmaf(shared->out[w][h][d], factor, value);
            }
            shared->out[0][h][d] = value; /* nobody else reads this one */
            if (d == 0) {
                shared->most[h] = all_most;
                shared->sum[h] = all_sum;
            }
        }
    }

    /* ---- results ---- */

    /*
     * Output d of head h, of all blocks of the cluster, which are asked at the same time.  A warp
     * has one head (DIM is a multiple of 32): lane i weighs block i for all.
     */
    __device__ float join_cluster(int h, int d) {
        float most_of_block = -INFINITY, sum_of_block = 0, values[ATTENTION_MOST_CLUSTER];
        int n = (int)cluster_size();
        if (lane < n) {
            const Shared *other = cluster_shared(shared, lane);
            most_of_block = other->most[h];
            sum_of_block = other->sum[h];
        }
#pragma unroll
        for (int rank = 0; rank < ATTENTION_MOST_CLUSTER; rank++)
            values[rank] = rank < n ? cluster_shared(shared, rank)->out[0][h][d] : 0;
        float base = base_of(most_of_lanes<WARP_LANES>(most_of_block));
        float factor = factor_of(most_of_block, base, args->scale);
        float all_sum = sum_of_lanes<WARP_LANES>(sum_of_block * factor), value = 0;
#pragma unroll
        for (int rank = 0; rank < ATTENTION_MOST_CLUSTER; rank++)
            value = fmaf(values[rank], __shfl_sync(0xFFFFFFFF, factor, rank), value);
        return all_sum == 0 ? 0 : value * share_of(all_sum);
    }

    /* The cluster's part of the output, a share of it a block. */
    __device__ void store_cluster(int64_t head, int n_heads) {
        int step = (int)cluster_size() * THREADS, last = -1;
        float value = 0;
        cluster_sync();
#pragma unroll 1
        for (int i = (int)(cluster_rank() * THREADS + threadIdx.x); i < n_heads * DIM; i += step) {
            if (last >= 0)
                store_output(head, last, value);
            value = join_cluster(i / DIM, i % DIM);
            last = i;
        }
        cluster_arrive(); /* nobody ends before it was read, but need not wait for the store */
        if (last >= 0)
            store_output(head, last, value);
        cluster_wait();
    }

    /* Place i of heads from `head` on, DIM columns each. */
    __device__ void store_output(int64_t head, int i, float value) {
        if (i % DIM < dim)
            args->o[(head + i / DIM) * dim + i % DIM] = value;
    }

    /* One row: GROUP query heads from `head` on, of which n_heads are there. */
    __device__ void run(int64_t head, int n_heads, int64_t kv_offset, int chunk, int64_t length) {
        int64_t n_steps = (length + STEP_KEYS - 1) / STEP_KEYS;
        int64_t chunk_keys = (n_steps + args->n_chunks - 1) / args->n_chunks * STEP_KEYS;
        int64_t begin = chunk * chunk_keys, end = begin + chunk_keys;
        const float *q = args->q + head * dim;
        k = args->k + kv_offset;
        v = args->v + kv_offset;
        begin = begin < length ? begin : length;
        end = end < length ? end : length;
        /* q and the first keys are under way together */
        float of_q[Q_ROUNDS];
#pragma unroll
        for (int u = 0; u < Q_ROUNDS; u++) {
            int i = u * THREADS + (int)threadIdx.x, h = i / DIM, d = i % DIM;
            of_q[u] = h < n_heads && d < dim ? __ldg(q + h * dim + d) : 0;
        }
        load_keys(k + (begin + warp * STEP_KEYS) * args->position_stride,
                  end - begin - warp * STEP_KEYS);
#pragma unroll
        for (int u = 0; u < Q_ROUNDS; u++) {
            int i = u * THREADS + (int)threadIdx.x;
            if (i < GROUP * DIM)
                shared->q[i / DIM][i % DIM] = of_q[u];
        }
        __syncthreads();
        attend(begin, end);
        join_warps();
        if (args->is_clustered) {
            store_cluster(head, n_heads);
            return;
        }
        __syncthreads();
        for (int i = (int)threadIdx.x; i < n_heads * DIM; i += THREADS) {
            int h = i / DIM, d = i % DIM;
            int64_t place = (head + h) * args->n_chunks + chunk;
            float value = shared->out[0][h][d], all_sum = shared->sum[h];
            if (d >= dim)
                continue;
            if (args->n_chunks == 1) {
                args->o[(head + h) * dim + d] = all_sum == 0 ? 0 : value * share_of(all_sum);
                continue;
            }
            args->parts[place * dim + d] = value;
            if (d == 0) {
                args->stats[2 * place] = shared->most[h];
                args->stats[2 * place + 1] = all_sum;
            }
        }
        __syncthreads();
    }
};

/* Chunks of a row are neighbours, since they may be a cluster. */
template <int DIM, int GROUP, int WARPS, bool IS_WIDE>
DEVICE void decode(float *shared, const attention_decode_args *args) {
    typedef Decode<DIM, GROUP, WARPS, IS_WIDE> Block;
    Block block(reinterpret_cast<typename Block::Shared *>(shared), args);
    int64_t n_rows = args->batch * args->n_kv_heads * args->n_slices, length = length_of(*args);
    int n_chunks = args->n_chunks;
    let_next_start();
    for (int64_t row = blockIdx.x / n_chunks; row < n_rows; row += gridDim.x / n_chunks) {
        int64_t slice = row % args->n_slices, kv = row / args->n_slices;
        int64_t left = args->group - slice * GROUP;
        block.run(kv * args->group + slice * GROUP, (int)(left < GROUP ? left : GROUP),
                  kv / args->n_kv_heads * args->batch_stride +
                      kv % args->n_kv_heads * args->head_stride,
                  (int)(blockIdx.x % n_chunks), length);
    }
}

} // namespace

/*
 * Two blocks of 256 threads on a processor, which the launcher counts on, are worth a spilled
 * register or two, but not the dozens that 8 heads take before 9.0.  0: as the compiler likes.
 */
#if __CUDA_ARCH__ >= 900
#define DECODE_MOST_TIGHT 8
#else
#define DECODE_MOST_TIGHT 4
#endif
#define DECODE_BLOCKS(group, warps, is_wide)                                                       \
    ((is_wide) && (warps) == 8 && (group) <= DECODE_MOST_TIGHT ? 2 : 0)

#define DECODE(name, dim, group, warps, is_wide)                                                   \
    extern "C" __global__ void __launch_bounds__(32 * warps, DECODE_BLOCKS(group, warps, is_wide)) \
        attention_decode_##name(const __grid_constant__ attention_decode_args args) {              \
        DYNAMIC_SHARED(float, shared);                                                             \
        decode<dim, group, warps, is_wide>(shared, &args);                                         \
    }
#define DECODE_WIDE(dim, group, warps)   DECODE(dim##_##group, dim, group, warps, true)
#define DECODE_NARROW(dim, group, warps) DECODE(narrow_##dim, dim, group, warps, false)
ATTENTION_DECODE_VARIANTS(DECODE_WIDE)
ATTENTION_DECODE_NARROW_VARIANTS(DECODE_NARROW)

/* The chunks in scratch become the output; a block a query head. */
KERNEL(attention_decode_merge)(const __grid_constant__ attention_decode_args args) {
    __shared__ float weights[ATTENTION_MOST_CHUNKS], whole;
    int64_t n_heads = args.batch * args.n_kv_heads * args.group;
    wait_for_earlier();
    for (int64_t head = blockIdx.x; head < n_heads; head += gridDim.x) {
        const float *stats = args.stats + 2 * head * args.n_chunks;
        const float *parts = args.parts + head * args.n_chunks * args.head_dim;
        if (threadIdx.x < WARP_LANES) {
            float most = -INFINITY, sum = 0;
            for (int c = (int)threadIdx.x; c < args.n_chunks; c += WARP_LANES)
                most = fmaxf(most, stats[2 * c]);
            float base = base_of(most_of_lanes<WARP_LANES>(most));
            for (int c = (int)threadIdx.x; c < args.n_chunks; c += WARP_LANES) {
                weights[c] = factor_of(stats[2 * c], base, args.scale);
                sum = fmaf(stats[2 * c + 1], weights[c], sum);
            }
            sum = sum_of_lanes<WARP_LANES>(sum);
            if (threadIdx.x == 0)
                whole = sum;
        }
        __syncthreads();
        for (int64_t d = threadIdx.x; d < args.head_dim; d += ATTENTION_MERGE_THREADS) {
            float value = 0;
#pragma unroll 8
            for (int c = 0; c < args.n_chunks; c++)
                value = fmaf(parts[c * args.head_dim + d], weights[c], value);
            args.o[head * args.head_dim + d] = whole == 0 ? 0 : value * share_of(whole);
        }
        __syncthreads();
    }
}

#endif
