/*
 * The largest element's index: one cluster or one block sees all elements, or a grid of blocks
 * leaves its candidates in scratch for a second kernel.
 *
 * A candidate is a key and an index.  Keys order as the floats do, with both zeros equal and NaN
 * above all; of equal keys the lowest index is the better one, so no order of work changes the
 * result.
 */
#ifndef CUSHIM_KERNELS_REDUCE_ARGMAX_CUH
#define CUSHIM_KERNELS_REDUCE_ARGMAX_CUH

#include "kernels/device/order.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/reduce_argmax.h"
#include "kernels/reduce_fold.cuh"

namespace {

struct Candidate {
    uint32_t key; /* of a float at least 0x007FFFFF, which is -Inf's */
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
    DEVICE Candidate of_lane(Candidate part, int step) {
        Candidate candidate;
        candidate.key = __shfl_xor_sync(0xFFFFFFFF, part.key, step);
        candidate.index = __shfl_xor_sync(0xFFFFFFFF, (long long)part.index, step);
        return candidate;
    }
};

DEVICE uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* Elements come in the order of their indices: an equal one is never better. */
DEVICE void consider(Candidate &best, float value, int64_t index) {
    uint32_t key = key_of(value);
    if (key > best.key) {
        best.key = key;
        best.index = index;
    }
}

/* Four at once: seldom is one of them better than all before. */
DEVICE void consider(Candidate &best, float4 value, int64_t index) {
    uint32_t x = key_of(value.x), y = key_of(value.y), z = key_of(value.z), w = key_of(value.w);
    uint32_t most = larger(larger(x, y), larger(z, w));
    if (most > best.key) {
        best.key = most;
        best.index = index + (x == most ? 0 : y == most ? 1 : z == most ? 2 : 3);
    }
}

/* What thread number `thread` of n_threads sees: elements before the first multiple of 16 bytes,
 * fours, elements behind the last four. */
DEVICE Candidate find_best(const float *x, int64_t n, int64_t thread, int64_t n_threads) {
    constexpr int N_FLYING = 4;
    Candidate best = JoinCandidates::none();
    int64_t n_head = (int64_t)((16 - (uint64_t) reinterpret_cast<uintptr_t>(x) % 16) % 16 / 4);
    if (n_head > n)
        n_head = n;
    int64_t n_quads = (n - n_head) / 4;
    const float4 *quads = reinterpret_cast<const float4 *>(x + n_head);
    if (thread < n_head)
        consider(best, x[thread], thread);
    for (int64_t at = thread; at < n_quads; at += N_FLYING * n_threads) {
        float4 values[N_FLYING];
#pragma unroll
        for (int k = 0; k < N_FLYING; k++) {
            if (at + k * n_threads < n_quads)
                values[k] = load_streamed(quads + at + k * n_threads);
        }
#pragma unroll
        for (int k = 0; k < N_FLYING; k++) {
            if (at + k * n_threads < n_quads)
                consider(best, values[k], n_head + 4 * (at + k * n_threads));
        }
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
    Candidate best = fold_block<JoinCandidates>(places, find_best(x, n, threadIdx.x, blockDim.x));
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
    Candidate best = find_best(x, n, thread_of_grid(), threads_of_grid());
    best = fold_block<JoinCandidates>(places + 32, best);
    best = fold_cluster<JoinCandidates>(places, best);
    if (cluster_rank() == 0 && threadIdx.x == 0)
        write_index(index, is_narrow, best.index);
}

/* Scratch has three words a block: the key, the low and the high half of the index. */
KERNEL_OF(REDUCE_ARGMAX_THREADS, 1, reduce_argmax_parts)
(const float *x, uint32_t *scratch, int64_t n) {
    __shared__ Candidate places[32];
    wait_for_earlier();
    let_next_start();
    Candidate best =
        fold_block<JoinCandidates>(places, find_best(x, n, thread_of_grid(), threads_of_grid()));
    if (threadIdx.x == 0) {
        uint32_t *words = scratch + REDUCE_ARGMAX_WORDS * (int64_t)blockIdx.x;
        words[0] = best.key;
        words[1] = (uint32_t)best.index;
        words[2] = (uint32_t)((uint64_t)best.index >> 32);
    }
}

KERNEL_OF(REDUCE_ARGMAX_THREADS, 1, reduce_argmax_last)
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
