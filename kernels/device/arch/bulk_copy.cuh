/*
 * Bulk copies from global to shared memory (sm_90 and later): one thread asks for many bytes, and
 * no thread's registers or instructions move them.
 *
 * A Delivery, in shared memory, knows when copies are there.  One thread makes it, before a barrier
 * of the threads that use it.  Rounds are counted from 0.  In each, one thread says how many bytes
 * come.  After a barrier any threads ask for copies of that many bytes, and whole warps may wait.
 * The next round begins after a barrier of the threads that read the bytes of this one.  On an
 * older device a copy is done when it is asked for, and only the warp that asked may wait.
 */
#ifndef CUSHIM_KERNELS_BULK_COPY_CUH
#define CUSHIM_KERNELS_BULK_COPY_CUH

#include "kernels/device/arch/mbarrier.cuh"
#include "kernels/device/device.cuh"

typedef uint64_t Delivery;

DEVICE void make_delivery(Delivery *delivery) {
#ifdef CUSHIM_EMULATED
    *delivery = 0;
#elif __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;\n\t"
        "fence.mbarrier_init.release.cluster;\n\t"
        "fence.proxy.async.shared::cta;" ::"r"((unsigned)__cvta_generic_to_shared(delivery))
        : "memory");
#endif
}

DEVICE void expect_delivery([[maybe_unused]] Delivery *delivery,
                            [[maybe_unused]] unsigned n_bytes) {
#ifdef CUSHIM_EMULATED
    emulated::expect_bytes(delivery, n_bytes);
#elif __CUDA_ARCH__ >= 900
    arrive_at_mbarrier(delivery, n_bytes);
#endif
}

/* n_bytes and both addresses are multiples of 16. */
DEVICE void copy_bulk(void *shared, const void *global, unsigned n_bytes,
                      [[maybe_unused]] Delivery *delivery) {
#ifdef CUSHIM_EMULATED
    emulated::copy_bulk_later(shared, global, n_bytes, delivery);
#elif __CUDA_ARCH__ >= 900
    copy_for_mbarrier(shared, global, n_bytes, delivery);
#else
    for (unsigned i = 0; i < n_bytes / 16; i++)
        static_cast<uint4 *>(shared)[i] = __ldg(static_cast<const uint4 *>(global) + i);
#endif
}

DEVICE void wait_for_delivery([[maybe_unused]] Delivery *delivery,
                              [[maybe_unused]] unsigned round) {
#ifdef CUSHIM_EMULATED
    __syncwarp();
    emulated::wait_for_bytes(delivery, round);
#elif __CUDA_ARCH__ >= 900
    wait_for_mbarrier(delivery, round);
#endif
    __syncwarp();
}

#endif
