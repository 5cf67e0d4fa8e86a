/*
 * Thread block clusters (sm_90 and later): blocks that run at the same time and reach each other's
 * shared memory.
 *
 * Every thread of every block of the cluster takes part in each barrier, with its whole warp, which
 * either half of a barrier brings together where it was parted.  A block's shared memory lasts as
 * long as the block: a barrier lies between the last access to another's and the end.  Arriving
 * waits for the thread's stores to global memory, too, so that one belongs ahead of the results.
 * Compiled for an older device, a cluster is the block alone.
 */
#ifndef CUSHIM_KERNELS_CLUSTER_CUH
#define CUSHIM_KERNELS_CLUSTER_CUH

#include "kernels/device/device.cuh"

/* The block's number in its cluster. */
DEVICE unsigned cluster_rank() {
#ifdef CUSHIM_EMULATED
    return emulated::block_of_cluster();
#elif __CUDA_ARCH__ >= 900
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
#else
    return 0;
#endif
}

/* How many blocks a cluster has. */
DEVICE unsigned cluster_size() {
#ifdef CUSHIM_EMULATED
    return emulated::blocks_of_cluster();
#elif __CUDA_ARCH__ >= 900
    unsigned size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
#else
    return 1;
#endif
}

/* The two halves of a barrier: what was written before the arrival is seen after the wait. */
DEVICE void cluster_arrive() {
#ifdef CUSHIM_EMULATED
    emulated::arrive_at_cluster();
#elif __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

/* An arrival that orders nothing, for a barrier which only says that the other blocks run, before
 * the first access to their shared memory: it waits for nothing. */
DEVICE void cluster_arrive_relaxed() {
#ifdef CUSHIM_EMULATED
    emulated::arrive_at_cluster();
#elif __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

DEVICE void cluster_wait() {
#ifdef CUSHIM_EMULATED
    emulated::wait_for_cluster();
#elif __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

DEVICE void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

/* The same variable in the shared memory of the block of a rank: to read and to write. */
template <class T> DEVICE T *cluster_shared(T *own, unsigned rank) {
#ifdef CUSHIM_EMULATED
    return (T *)emulated::shared_of_block(own, rank);
#elif __CUDA_ARCH__ >= 900
    uint64_t address;
    asm volatile("mapa.u64 %0, %1, %2;"
                 : "=l"(address)
                 : "l"(reinterpret_cast<uint64_t>(own)), "r"(rank));
    return reinterpret_cast<T *>(address);
#else
    return own;
#endif
}

#endif
