/*
 * What a block of attention on matrix units has in shared memory (attention_split.cuh): raw tiles
 * of K and V, and the halves of these and of Q.
 *
 * A thread reads only the part of a raw tile that it copied itself, so a tile needs two barriers:
 * one for its scales, one for the halves.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_SPLIT_TILES_CUH
#define CUSHIM_KERNELS_ATTENTION_SPLIT_TILES_CUH

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_halves.cuh"
#include "kernels/attention/attention_weight.cuh"
#include "kernels/device/arch/async_copy.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"

namespace {

/*
 * The thread's number, read anew.  Values computed from it are then computed again when they are
 * needed, and do not take the registers that outputs and sums need.
 */
DEVICE int ask_thread() {
#ifdef CUSHIM_EMULATED
    return (int)threadIdx.x;
#else
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
#endif
}

/* The rows of a block; in shared memory, for the same reason. */
struct Rows {
    int64_t begin, row, end; /* of the head; the first row; how many keys they see */
    float most_inverse;      /* of q's rows; infinite if q is hard */
    /* 0, which the compiler cannot know.  A loop while it is not 0 runs once, and keeps its
     * instructions apart from the next loop's.  Otherwise the compiler begins as many sums as
     * there are registers, and the rest runs without any. */
    int again;
};

template <int DIM, int WARPS, int ROW_TILES, int KEYS> struct SplitTiles {
    enum {
        WARP_ROWS = 16 * ROW_TILES,
        ROWS = WARP_ROWS * WARPS,
        THREADS = 32 * WARPS,
        ACROSS = DIM % 256 == 0 ? 16 : 8, /* threads that copy and split a key, four columns at a
                                             time */
        ROUND_KEYS = THREADS / ACROSS,
        N_ACROSS = DIM / 4 / ACROSS,
        N_WIDES = KEYS / ROUND_KEYS * N_ACROSS
    };
    const attention_args *args;
    int dim;
    /* in shared memory */
    uint16_t *q_high, *q_low, *halves;
    float *raw_k, *raw_v, *inverse_q;
    unsigned *peaks;          /* each warp's of K, then of V */
    int *n_small;             /* of K and V of a tile, in turn; of Q in the place of the second K */
    volatile float *inverses; /* the same; volatile, so that it is read when it is needed */
    volatile Rows *rows;

    __device__ SplitTiles(float *shared, const attention_args *args)
        : args(args), dim((int)args->head_dim) {
        raw_k = shared;
        raw_v = raw_k + KEYS * DIM;
        q_high = reinterpret_cast<uint16_t *>(raw_v + KEYS * DIM);
        q_low = q_high + ROWS * DIM;
        halves = q_low + ROWS * DIM;
        inverse_q = reinterpret_cast<float *>(halves + 4 * KEYS * DIM);
        peaks = reinterpret_cast<unsigned *>(inverse_q + ROWS);
        n_small = reinterpret_cast<int *>(peaks + 2 * WARPS);
        inverses = reinterpret_cast<float *>(n_small + 4);
        rows = reinterpret_cast<Rows *>(n_small + 8);
    }

    /* The key of 8 threads in a round.  If rows of halves are a multiple of 128 bytes, half a
     * warp stores keys that are 4 apart, because their turns are in different banks and those of
     * neighbours are not.  With 64 columns this would help too, but it made the compiler spill. */
    static __device__ int key_of_thread(int i) {
        return DIM == 128 ? (i & ~7) | (i & 1) << 2 | (i >> 1 & 3) : i;
    }

    /* Halves of K, and behind them of V: high parts, then low ones. */
    __device__ uint16_t *halves_of(int is_v) {
        return halves + 2 * is_v * (KEYS * DIM);
    }

    /* Begin to copy the keys of a tile; zeros beyond it. */
    __device__ void fetch_rows(float *raw, const float *from, int64_t n_valid) {
        int thread = ask_thread(), my_key = key_of_thread(thread / ACROSS);
        int my_column = thread % ACROSS * 4;
        if (n_valid > 0 && args->is_wide) {
#pragma unroll
            for (int i = 0; i < N_WIDES / N_ACROSS; i++) {
                int key = my_key + i * ROUND_KEYS;
                bool is_valid = key < n_valid;
                const float *row = from + (is_valid ? key * (int64_t)dim + my_column : 0);
#pragma unroll
                for (int j = 0; j < N_ACROSS; j++) /* if there are no bytes the address is not
                                                      read */
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

    /* Begin to copy both tiles of keys from `key` on. */
    __device__ void fetch(int tile) {
        int64_t key = (int64_t)tile * KEYS, at = rows->begin + key * dim, n_valid = rows->end - key;
        fetch_rows(raw_k, args->k + at, n_valid);
        fetch_rows(raw_v, args->v + at, n_valid);
        commit_copies();
    }

    /* The thread's i-th four columns of a raw tile. */
    __device__ const float4 *wide_of(const float *raw, int thread, int i) {
        return reinterpret_cast<const float4 *>(
            raw + (key_of_thread(thread / ACROSS) + i / N_ACROSS * ROUND_KEYS) * DIM +
            thread % ACROSS * 4 + i % N_ACROSS * 4 * ACROSS);
    }

    __device__ void find_peak(const float *raw, int is_v) {
        int thread = ask_thread(), lane = thread % 32, warp = thread / 32;
        float peak = 0;
#pragma unroll
        for (int i = 0; i < N_WIDES; i++)
            peak = max_magnitude(peak, *wide_of(raw, thread, i));
        unsigned of_warp = max_of_warp(__float_as_uint(peak));
        if (lane == 0)
            peaks[is_v * WARPS + warp] = of_warp;
    }

    /* Call this after the raw tiles have arrived and before a barrier. */
    __device__ void find_peaks() {
        wait_copies<0>();
        find_peak(raw_k, 0);
        find_peak(raw_v, 1);
    }

    /* Split a raw tile into halves, and store the factor that unscales these, which is infinite
     * if there is none.  Call this before a barrier. */
    __device__ void split_rows(const float *raw, int tile, int is_v) {
        int thread = ask_thread(), my_key = key_of_thread(thread / ACROSS);
        int my_column = thread % ACROSS * 4;
        uint16_t *high = halves_of(is_v);
        float least = INFINITY;
        unsigned peak = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            peak = max(peak, peaks[is_v * WARPS + w]);
        Scale scale = scale_of(peak);
#pragma unroll
        for (int i = 0; i < N_WIDES; i++) {
            float4 scaled = times(*wide_of(raw, thread, i), scale.times);
            least = fminf(fminf(least, fminf(fabsf(scaled.x), fabsf(scaled.y))),
                          fminf(fabsf(scaled.z), fabsf(scaled.w)));
            store_split<DIM>(high, high + KEYS * DIM, my_key + i / N_ACROSS * ROUND_KEYS,
                             my_column + i % N_ACROSS * 4 * ACROSS, scaled);
        }
        if (is_small_or_0(least)) { /* few threads, unless there are zeros */
            int n = 0;
#pragma unroll 1
            for (int i = 0; i < N_WIDES; i++)
                n += n_small_of(times(*wide_of(raw, thread, i), scale.times));
            if (n > 0)
                atomicAdd(n_small + tile % 2 * 2 + is_v, n);
        }
        if (thread == 0)
            inverses[tile % 2 * 2 + is_v] = scale.is_hard ? INFINITY : scale.inverse;
    }

    __device__ void split(int tile) {
        int thread = ask_thread();
        if (thread < 2) /* all have read these */
            n_small[(tile + 1) % 2 * 2 + thread] = 0;
        split_rows(raw_k, tile, 0);
        split_rows(raw_v, tile, 1);
    }

    __device__ bool is_too_many(int n, int64_t n_rows) {
        return (int64_t)n * HARD_SHARE > n_rows * dim;
    }

    /* The block's query rows as halves, a scale per row; 8 lanes per row. */
    __device__ void split_q(const float *q, int64_t n_valid) {
        int thread = ask_thread(), lane = thread % 32, warp = thread / 32;
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
                    values[i] =
                        load_columns<true>(q + (int64_t)row * dim, column, dim, args->is_wide);
                peak = max(peak, __float_as_uint(max_magnitude(0, values[i])));
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
        if (lane == 0 && n > 0)
            atomicAdd(n_small + 2, n);
        __syncthreads();
        float most_inverse = inverse_q[lane];
#pragma unroll
        for (int i = 32; i < ROWS; i += 32)
            most_inverse = fmaxf(most_inverse, inverse_q[i + lane]);
        most_inverse = max_of_lanes<32>(most_inverse);
        if (thread == 0)
            rows->most_inverse = is_too_many(n_small[2], n_valid < ROWS ? n_valid : (int64_t)ROWS)
                                     ? INFINITY
                                     : most_inverse;
    }
};

} // namespace

#endif
