/*
 * Deliveries and gates on the device (sm_90 and later) are barriers in shared memory.  A round of
 * one ends when the set number of threads has arrived and all bytes that they announced are there.
 */
#ifndef CUSHIM_KERNELS_MBARRIER_CUH
#define CUSHIM_KERNELS_MBARRIER_CUH

#include "kernels/device/device.cuh"

#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 900
/* Arrive at a barrier of the calling block; n_bytes more will come in this round. */
DEVICE void arrive_at_mbarrier(uint64_t *mbarrier, unsigned n_bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(mbarrier)),
                 "r"(n_bytes)
                 : "memory");
}

/* Copy from global memory for a barrier; n_bytes and both addresses are multiples of 16. */
DEVICE void copy_for_mbarrier(void *shared, const void *global, unsigned n_bytes,
                              uint64_t *mbarrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
                 "l"(global), "r"(n_bytes), "r"((unsigned)__cvta_generic_to_shared(mbarrier))
                 : "memory");
}

/* Wait for the end of a round, counted from 0. */
DEVICE void wait_for_mbarrier(uint64_t *mbarrier, unsigned round) {
    asm volatile("{\n\t"
                 ".reg .pred is_over;\n\t"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 is_over, [%0], %1;\n\t"
                 "@!is_over bra again;\n\t"
                 "}" ::"r"((unsigned)__cvta_generic_to_shared(mbarrier)),
                 "r"(round & 1)
                 : "memory");
}
#endif

#endif
