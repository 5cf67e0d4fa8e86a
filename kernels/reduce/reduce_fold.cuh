/*
 * Fold many parts into one, in an order that the shape of the launch fixes: over lanes of a warp,
 * then over the warps of a block, then over the blocks of a cluster.
 *
 * Join defines a part (Join::Part), what stands for none (none()), how two make one (of()), and how
 * a part comes from another lane (of_lane()).
 */
#ifndef CUSHIM_KERNELS_REDUCE_FOLD_CUH
#define CUSHIM_KERNELS_REDUCE_FOLD_CUH

#include "kernels/device/arch/cluster.cuh"
#include "kernels/device/device.cuh"

namespace {

/* Over aligned groups of n_lanes, a power of 2; each lane has the result.  Whole warps call this.
 */
template <class Join> DEVICE typename Join::Part fold_lanes(typename Join::Part part, int n_lanes) {
    for (int step = n_lanes / 2; step > 0; step /= 2)
        part = Join::of(part, Join::of_lane(part, step));
    return part;
}

/* Parts of n places; the first warp has the result. */
template <class Join>
DEVICE typename Join::Part fold_places(const typename Join::Part *places, int n) {
    return fold_lanes<Join>((int)threadIdx.x < n ? places[threadIdx.x] : Join::none(), 32);
}

/*
 * Over a block of whole warps; `places` holds 32 parts and may be in use for the last fold.  The
 * first warp has the result.
 */
template <class Join>
DEVICE typename Join::Part fold_block(typename Join::Part *places, typename Join::Part part) {
    part = fold_lanes<Join>(part, 32);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        places[threadIdx.x / 32] = part;
    __syncthreads();
    if (threadIdx.x < 32)
        part = fold_places<Join>(places, (int)blockDim.x / 32);
    return part;
}

/*
 * Call this before the blocks' work on what the cluster folds.  When they have waited, they know
 * that the first block runs and, after another fold, that it no longer uses that fold's places.
 */
DEVICE void begin_fold(bool is_first) {
    if (is_first)
        cluster_arrive_relaxed();
    else
        cluster_arrive();
}

/*
 * Over a cluster, whose blocks have folded their parts since begin_fold(): thread 0 of each puts
 * its part into its place of the first block's `places`.  The first warp of the first block has the
 * result.
 */
template <class Join>
DEVICE typename Join::Part fold_cluster(typename Join::Part *places, typename Join::Part part) {
    cluster_wait();
    if (threadIdx.x == 0)
        cluster_shared(places, 0)[cluster_rank()] = part;
    __syncwarp();
    cluster_sync();
    if (cluster_rank() == 0 && threadIdx.x < 32)
        part = fold_places<Join>(places, (int)cluster_size());
    return part;
}

} // namespace

#endif
