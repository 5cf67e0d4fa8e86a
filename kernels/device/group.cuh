/*
 * Sums and maxima over a group of threads: some lanes of a warp, a block, a cluster of blocks.
 *
 * Every thread of the group gets the same bits: partners of a step add the same two numbers.  Above
 * a warp each warp leaves its part in a Meeting in shared memory, each block its own for the
 * cluster; the places of two successive meetings differ, so that one barrier each is enough.  All
 * threads of the blocks take part in every meeting, in the same order.  Blocks of a cluster end
 * together, since others may still read what a block left for them: cluster_arrive() behind the
 * last meeting and ahead of the stores of its result, cluster_wait() behind those.
 */
#ifndef CUSHIM_KERNELS_GROUP_CUH
#define CUSHIM_KERNELS_GROUP_CUH

#include "kernels/device/cluster.cuh"
#include "kernels/device/device.cuh"

enum { WARP_LANES = 32, MOST_WARPS = 32 };

/* Over aligned groups of N lanes, a power of 2; whole warps call these. */
template <int N> DEVICE float sum_of_lanes(float value) {
#pragma unroll
    for (int step = 1; step < N; step *= 2)
        value += __shfl_xor_sync(0xFFFFFFFF, value, step);
    return value;
}

/* NaN is passed over, but where all are NaN. */
template <int N> DEVICE float most_of_lanes(float value) {
#pragma unroll
    for (int step = 1; step < N; step *= 2)
        value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFF, value, step));
    return value;
}

template <class Part> struct Meeting {
    Part of_warp[2][MOST_WARPS];
    Part of_block[2];
};

/*
 * What joins the parts: Join::lanes<N>(part) over groups of N lanes, Join::none() for a lane
 * without a part.  T threads a block; `part` is the warp's, in each of its lanes; n_met counts the
 * meetings.
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

/* Blocks that met before go on into the cluster. */
template <class Join, class Part>
DEVICE Part meet_cluster(Meeting<Part> *meeting, int n_met, const Join &join, Part part) {
    int lane = (int)threadIdx.x % WARP_LANES;
    Part *place = &meeting->of_block[n_met & 1];
    if (threadIdx.x == 0)
        *place = part;
    __syncwarp();
    cluster_sync();
    Part of_other = join.none();
    if (lane < (int)cluster_size())
        of_other = *cluster_shared(place, lane);
    return join.template lanes<WARP_LANES>(of_other);
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
