/*
 * Sums and maxima over a group of threads: some lanes of a warp, a block, a cluster of blocks.
 *
 * Every thread of the group gets the same bits, because partners of a step add the same two
 * numbers.  Above a warp, each warp leaves its part in a Meeting in shared memory, and each block
 * sends its own to all of the cluster.  The places of two successive meetings differ, so that one
 * barrier each is enough.  All threads of the blocks take part in every meeting, in the same order.
 */
#ifndef CUSHIM_KERNELS_GROUP_CUH
#define CUSHIM_KERNELS_GROUP_CUH

#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/device.cuh"
#include "kernels/shared/row.h"

enum { WARP_LANES = 32, MOST_WARPS = 32 };

/* Over aligned groups of N lanes, a power of 2; whole warps call these. */
template <int N> DEVICE float sum_of_lanes(float value) {
#pragma unroll
    for (int step = 1; step < N; step *= 2)
        value += __shfl_xor_sync(0xFFFFFFFF, value, step);
    return value;
}

/* NaN is ignored, unless all are NaN. */
template <int N> DEVICE float max_of_lanes(float value) {
#pragma unroll
    for (int step = 1; step < N; step *= 2)
        value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFF, value, step));
    return value;
}

template <class Part> struct Meeting {
    Part of_warp[2][MOST_WARPS];
    Part of_block[2][CUSHIM_ROW_MOST_CLUSTER];
    Arrival arrival[2];
};

/* Call this before the blocks of a cluster meet; their first loads may lie between the two. */
template <class Part> DEVICE void begin_meetings(Meeting<Part> *meeting) {
    if (threadIdx.x == 0) {
        make_arrival(&meeting->arrival[0]);
        make_arrival(&meeting->arrival[1]);
    }
    cluster_arrive_relaxed();
}

/*
 * Join the parts: Join::lanes<N>(part) does so over groups of N lanes, and Join::none() is for a
 * lane without a part.  A block has T threads; `part` is the warp's, in each of its lanes; n_met
 * counts the meetings.
 */
template <int T, class Join, class Part>
DEVICE Part meet_block(Meeting<Part> *meeting, int n_met, const Join &join, Part part) {
    enum { N_WARPS = T / WARP_LANES };
    Part *places = meeting->of_warp[n_met & 1];
    if (threadIdx.x % WARP_LANES == 0)
        places[threadIdx.x / WARP_LANES] = part;
    __syncthreads();
    return join.template lanes<N_WARPS>(places[threadIdx.x % N_WARPS]);
}

/*
 * Blocks that met before go on into the cluster, in which all have begun the meetings.  Two rounds
 * of places are enough: a block sends for the second meeting from now only after it has heard all
 * blocks in the next, and those had finished this one when they sent.
 */
template <class Join, class Part>
DEVICE Part meet_cluster(Meeting<Part> *meeting, int n_met, const Join &join, Part part) {
    unsigned lane = threadIdx.x % WARP_LANES, n_blocks = cluster_size();
    Part *places = meeting->of_block[n_met & 1];
    Arrival *arrival = &meeting->arrival[n_met & 1];
    if (n_met == 0)
        cluster_wait();
    if (threadIdx.x == 0)
        expect_arrival(arrival, n_blocks * (unsigned)sizeof part);
    if (threadIdx.x < n_blocks)
        send_to(lane, &places[cluster_rank()], arrival, part);
    __syncwarp();
    wait_for_arrival(arrival, (unsigned)n_met / 2);
    Part of_other = join.none();
    if (lane % CUSHIM_ROW_MOST_CLUSTER < n_blocks)
        of_other = places[lane % CUSHIM_ROW_MOST_CLUSTER];
    return join.template lanes<CUSHIM_ROW_MOST_CLUSTER>(of_other);
}

struct JoinSums {
    DEVICE float none() {
        return 0;
    }
    template <int N> DEVICE float lanes(float part) {
        return sum_of_lanes<N>(part);
    }
};

#endif
