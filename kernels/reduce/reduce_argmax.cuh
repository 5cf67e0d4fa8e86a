/*
 * The largest element's index: one cluster or one block sees all elements, or a grid of blocks
 * leaves its candidates in scratch for a second kernel.
 *
 * A candidate is a key and an index.  Keys order as the floats do, with both zeros equal and NaN
 * above all.  Of equal keys the lowest index is better, so the order of work does not change the
 * result.
 */
#ifndef CUSHIM_KERNELS_REDUCE_ARGMAX_CUH
#define CUSHIM_KERNELS_REDUCE_ARGMAX_CUH

#include "kernels/device/math/maximum.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/reduce/reduce_argmax.h"
#include "kernels/reduce/reduce_fold.cuh"

namespace {

struct Candidate {
    uint32_t key; /* of a float, and at least 0x007FFFFF, which is that of -Inf */
    int64_t index;
};

DEVICE uint32_t key_of(float value) {
    uint32_t bits = __float_as_uint(value + 0.0f); /* -0 becomes +0 */
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return 0xFFFFFFFF;
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

struct JoinCandidates {
    typedef Candidate Part;
    DEVICE Candidate none() {
        Candidate candidate = {0, INT64_MAX};
        return candidate;
    }
    DEVICE Candidate of(Candidate a, Candidate b) {
        return b.key > a.key || (b.key == a.key && b.index < a.index) ? b : a;
    }
};

/* The highest key, then the lowest of its indices by halves. */
template <> __device__ __forceinline__ Candidate fold_lanes<JoinCandidates>(Candidate part, int) {
    Candidate best;
    best.key = max_of_warp(part.key);
    uint64_t index = part.key == best.key ? (uint64_t)part.index : UINT64_MAX;
    uint32_t high = min_of_warp((uint32_t)(index >> 32));
    uint32_t low = min_of_warp(index >> 32 == high ? (uint32_t)index : UINT32_MAX);
    best.index = (int64_t)((uint64_t)high << 32 | low);
    return best;
}

/* Elements come in the order of their indices, so an equal one is never better. */
DEVICE void consider(Candidate &best, float value, int64_t index) {
    uint32_t key = key_of(value);
    if (key > best.key) {
        best.key = key;
        best.index = index;
    }
}

/* The best four values so far of a thread; which of them is the best is found at the end. */
struct BestFour {
    uint32_t key;
    uint32_t turn; /* of the thread's fours, or NO_TURN if none is better than what was before */
    float4 values;
};

const uint32_t NO_TURN = 0xFFFFFFFF;

DEVICE void consider(BestFour &best, float4 values, uint32_t turn) {
    float most =
        larger_or_nan(larger_or_nan(values.x, values.y), larger_or_nan(values.z, values.w));
    uint32_t key = key_of(most);
    if (key > best.key) {
        best.key = key;
        best.turn = turn;
        best.values = values;
    }
}

DEVICE int place_in(const BestFour &best) {
    return key_of(best.values.x) == best.key   ? 0
           : key_of(best.values.y) == best.key ? 1
           : key_of(best.values.z) == best.key ? 2
                                               : 3;
}

/*
 * What thread number `thread` of n_threads sees: elements before the first multiple of 16 bytes,
 * fours, elements behind the last four.
 */
template <int N_FLYING>
DEVICE Candidate find_best(const float *x, int64_t n, int64_t thread, int64_t n_threads) {
    Candidate best = JoinCandidates::none();
    int64_t n_head = (int64_t)((16 - (uint64_t) reinterpret_cast<uintptr_t>(x) % 16) % 16 / 4);
    if (n_head > n)
        n_head = n;
    int64_t n_quads = (n - n_head) / 4, at = thread;
    const float4 *quads = reinterpret_cast<const float4 *>(x + n_head);
    float4 values[N_FLYING];
    if (thread < n_head)
        consider(best, x[thread], thread);
    BestFour four = {best.key, NO_TURN, {}};
    uint32_t turn = 0;
    for (; at + (N_FLYING - 1) * n_threads < n_quads; at += N_FLYING * n_threads) {
#pragma unroll
        for (int k = 0; k < N_FLYING; k++)
            values[k] = load_streamed(quads + at + k * n_threads);
#pragma unroll
        for (int k = 0; k < N_FLYING; k++)
            consider(four, values[k], turn++);
    }
#pragma unroll
    for (int k = 0; k < N_FLYING - 1; k++) {
        if (at + k * n_threads < n_quads)
            values[k] = load_streamed(quads + at + k * n_threads);
    }
#pragma unroll
    for (int k = 0; k < N_FLYING - 1; k++) {
        if (at + k * n_threads < n_quads)
            consider(four, values[k], turn++);
    }
    if (four.turn != NO_TURN) {
        best.key = four.key;
        best.index = n_head + 4 * (thread + four.turn * n_threads) + place_in(four);
    }
    int64_t behind = n_head + 4 * n_quads + thread;
    if (behind < n)
        consider(best, x[behind], behind);
    return best;
}

DEVICE void write_index(void *index, int is_narrow, int64_t value) {
    if (is_narrow)
        *static_cast<int32_t *>(index) = (int32_t)value;
    else
        *static_cast<int64_t *>(index) = value;
}

} // namespace

KERNEL_OF(REDUCE_ARGMAX_THREADS, 1, reduce_argmax_block)
(const float *x, void *index, int is_narrow, int64_t n) {
    __shared__ Candidate places[32];
    wait_for_earlier();
    let_next_start();
    Candidate best =
        fold_block<JoinCandidates>(places, find_best<4>(x, n, threadIdx.x, blockDim.x));
    if (threadIdx.x == 0)
        write_index(index, is_narrow, best.index);
}

/* One cluster. */
KERNEL_OF(REDUCE_ARGMAX_THREADS, 1, reduce_argmax_cluster)
(const float *x, void *index, int is_narrow, int64_t n) {
    DYNAMIC_SHARED(Candidate, places);
    begin_fold(true);
    wait_for_earlier();
    let_next_start();
    Candidate best = find_best<4>(x, n, thread_of_grid(), threads_of_grid());
    best = fold_block<JoinCandidates>(places + 32, best);
    best = fold_cluster<JoinCandidates>(places, best);
    if (cluster_rank() == 0 && threadIdx.x == 0)
        write_index(index, is_narrow, best.index);
}

/* Scratch has three words per block: the key, the low and the high half of the index. */
KERNEL_OF(REDUCE_ARGMAX_PARTS_THREADS, REDUCE_ARGMAX_PARTS_PER_SM, reduce_argmax_parts)
(const float *x, uint32_t *scratch, int64_t n) {
    __shared__ Candidate places[32];
    wait_for_earlier();
    let_next_start();
    Candidate best =
        fold_block<JoinCandidates>(places, find_best<8>(x, n, thread_of_grid(), threads_of_grid()));
    if (threadIdx.x == 0) {
        uint32_t *words = scratch + REDUCE_ARGMAX_WORDS * (int64_t)blockIdx.x;
        words[0] = best.key;
        words[1] = (uint32_t)best.index;
        words[2] = (uint32_t)((uint64_t)best.index >> 32);
    }
}

KERNEL_OF(REDUCE_ARGMAX_LAST_THREADS, 1, reduce_argmax_last)
(const uint32_t *scratch, void *index, int is_narrow, int n_parts) {
    __shared__ Candidate places[32];
    wait_for_earlier();
    let_next_start();
    Candidate best = JoinCandidates::none();
    for (int k = (int)threadIdx.x; k < n_parts; k += (int)blockDim.x) {
        const uint32_t *words = scratch + REDUCE_ARGMAX_WORDS * k;
        Candidate part = {words[0], (int64_t)(words[1] | (uint64_t)words[2] << 32)};
        best = JoinCandidates::of(best, part);
    }
    best = fold_block<JoinCandidates>(places, best);
    if (threadIdx.x == 0)
        write_index(index, is_narrow, best.index);
}

#endif
