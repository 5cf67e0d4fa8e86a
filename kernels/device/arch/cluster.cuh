/*
 * Thread block clusters (sm_90 and later): blocks that run at the same time and reach each other's
 * shared memory.
 *
 * Every thread of every block of the cluster takes part in each barrier, with its whole warp;
 * either half of a barrier reconverges the warp.  A block's shared memory lasts as long as the
 * block, so a barrier must lie between the last access to another block's and the end.  Arriving
 * also waits for the thread's stores to global memory, so arrive before the results are stored.
 * Compiled for an older device, a cluster is one block.
 */
#ifndef CUSHIM_KERNELS_CLUSTER_CUH
#define CUSHIM_KERNELS_CLUSTER_CUH

#include "kernels/device/arch/mbarrier.cuh"
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

/* The number of blocks in the cluster. */
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

/* The two halves of a barrier: a write before the arrival is seen after the wait. */
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

/*
 * An arrival that orders and waits for nothing.  It is for the barrier before the first access to
 * other blocks' shared memory, which only says that these blocks run.
 */
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

/* The same variable in the shared memory of the block with this rank, to read and to write. */
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

/*
 * Values of 4 or 8 bytes that blocks send into each other's shared memory (sm_90).  A thread that
 * waits for them needs no barrier of the cluster, and reads them in its own block.  Each block has
 * an Arrival for what it receives.  One thread makes it before a barrier of the cluster, which lies
 * before the first send.  Rounds of an Arrival are counted from 0.  In each, one thread says how
 * many bytes come, and every thread may wait.  A block that has received from all others may end,
 * because nothing more comes in.
 */
typedef uint64_t Arrival;

DEVICE void make_arrival(Arrival *arrival) {
#ifdef CUSHIM_EMULATED
    *arrival = 0;
#elif __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.init.shared.b64 [%0], 1;\n\t"
        "fence.mbarrier_init.release.cluster;" ::"r"((unsigned)__cvta_generic_to_shared(arrival))
        : "memory");
#endif
}

DEVICE void expect_arrival([[maybe_unused]] Arrival *arrival, [[maybe_unused]] unsigned n_bytes) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 900
    arrive_at_mbarrier(arrival, n_bytes);
#endif
}

/*
 * Send to the block with this rank, which may be the calling block.  `place` and `arrival` are
 * named by their addresses in the calling block.  A cluster of one block must not call this,
 * because it is not allowed there.
 */
template <class T>
DEVICE void send_to(unsigned rank, T *place, [[maybe_unused]] Arrival *arrival, const T &value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes are sent");
#ifdef CUSHIM_EMULATED
    *cluster_shared(place, rank) = value;
    emulated::send_bytes(rank, arrival, sizeof value);
#elif __CUDA_ARCH__ >= 900
    unsigned to, at;
    uint32_t words[sizeof(T) / 4];
    memcpy(words, &value, sizeof value);
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(to)
        : "r"((unsigned)__cvta_generic_to_shared(place)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(at)
        : "r"((unsigned)__cvta_generic_to_shared(arrival)), "r"(rank));
    if constexpr (sizeof(T) == 4)
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
            "r"(words[0]), "r"(at)
            : "memory");
    else
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::
                "r"(to),
            "r"(words[0]), "r"(words[1]), "r"(at)
            : "memory");
#else
    *place = value;
#endif
}

/* Every thread of the cluster calls this, because the emulator has a barrier here. */
DEVICE void wait_for_arrival([[maybe_unused]] Arrival *arrival, [[maybe_unused]] unsigned round) {
#ifdef CUSHIM_EMULATED
    cluster_sync();
#elif __CUDA_ARCH__ >= 900
    asm volatile("{\n\t"
                 ".reg .pred is_over;\n\t"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 is_over, [%0], %1;\n\t"
                 "@!is_over bra again;\n\t"
                 "}" ::"r"((unsigned)__cvta_generic_to_shared(arrival)),
                 "r"(round & 1)
                 : "memory");
#else
    __syncthreads();
#endif
}

/*
 * Gates open round by round, counted from 0.  A round ends when the set number of threads has
 * arrived, from any block of the cluster, and all bytes that they announced are there, copied or
 * sent by send_to().  One thread makes a gate, before a barrier of the cluster that lies before the
 * first use.
 *
 * A thread that waits for a round sees these bytes, and what threads of its own block wrote before
 * they arrived.  It may not see what other blocks wrote otherwise; an arrival from there only says
 * that something was read.  Arrivals and waits have the scope of a block, because those of a
 * cluster cost more (as an Arrival's wait does).
 */
typedef uint64_t Gate;

DEVICE void make_gate(Gate *gate, unsigned n_arrivals) {
#ifdef CUSHIM_EMULATED
    emulated::make_gate(gate, n_arrivals);
#elif __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], %1;\n\t"
        "fence.mbarrier_init.release.cluster;" ::"r"((unsigned)__cvta_generic_to_shared(gate)),
        "r"(n_arrivals)
        : "memory");
#endif
}

/* Arrive at the calling block's gate; n_bytes more will come in this round. */
DEVICE void arrive_at_gate(Gate *gate, unsigned n_bytes) {
#ifdef CUSHIM_EMULATED
    emulated::arrive_at_gate(gate, n_bytes);
#elif __CUDA_ARCH__ >= 900
    arrive_at_mbarrier(gate, n_bytes);
#endif
}

/* Arrive at the calling block's gate when the thread's copies by copy_async_16() and the like are
 * there, which this does not wait for. */
DEVICE void arrive_behind_copies(Gate *gate) {
#ifdef CUSHIM_EMULATED
    emulated::end_copy_group();
    emulated::wait_for_copies(0);
    emulated::arrive_at_gate(gate, 0);
#elif __CUDA_ARCH__ >= 900
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(
                     (unsigned)__cvta_generic_to_shared(gate))
                 : "memory");
#endif
}

/* Arrive at the gate of the block with this rank, which may be the calling block. */
DEVICE void arrive_at_gate_of(unsigned rank, Gate *gate) {
#ifdef CUSHIM_EMULATED
    emulated::arrive_at_gate((uint64_t *)emulated::shared_of_block(gate, rank), 0);
#elif __CUDA_ARCH__ >= 900
    asm volatile("{\n\t"
                 ".reg .b32 at;\n\t"
                 "mapa.shared::cluster.u32 at, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [at];\n\t"
                 "}" ::"r"((unsigned)__cvta_generic_to_shared(gate)),
                 "r"(rank)
                 : "memory");
#endif
}

/*
 * Copy shared memory to the same place of another block, for its gate. n_bytes and the place are
 * multiples of 16, and the threads that wrote the bytes have called fence_tiles().
 */
DEVICE void copy_bulk_to(unsigned rank, void *place, unsigned n_bytes, Gate *gate) {
#ifdef CUSHIM_EMULATED
    emulated::copy_to_block(rank, place, n_bytes, gate);
#elif __CUDA_ARCH__ >= 900
    asm volatile("{\n\t"
                 ".reg .b32 to, at;\n\t"
                 "mapa.shared::cluster.u32 to, %0, %3;\n\t"
                 "mapa.shared::cluster.u32 at, %2, %3;\n\t"
                 "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], "
                 "[%0], %1, [at];\n\t"
                 "}" ::"r"((unsigned)__cvta_generic_to_shared(place)),
                 "r"(n_bytes), "r"((unsigned)__cvta_generic_to_shared(gate)), "r"(rank)
                 : "memory");
#endif
}

/*
 * Copy from global memory, for the calling block's gate; n_bytes and both addresses are multiples
 * of 16.
 */
DEVICE void copy_bulk_for(void *shared, const void *global, unsigned n_bytes, Gate *gate) {
#ifdef CUSHIM_EMULATED
    emulated::copy_for_gate(shared, global, n_bytes, gate);
#elif __CUDA_ARCH__ >= 900
    copy_for_mbarrier(shared, global, n_bytes, gate);
#endif
}

DEVICE void wait_for_gate(Gate *gate, unsigned round) {
#ifdef CUSHIM_EMULATED
    emulated::wait_for_gate(gate, round);
#elif __CUDA_ARCH__ >= 900
    wait_for_mbarrier(gate, round);
#endif
    __syncwarp();
}

#endif
