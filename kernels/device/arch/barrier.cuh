/* A barrier of the block for warps that come from different places of the code. */
#ifndef CUSHIM_KERNELS_BARRIER_CUH
#define CUSHIM_KERNELS_BARRIER_CUH

#include "kernels/device/device.cuh"

/*
 * The form that is not aligned, because bar.sync requires one place (PTX ISA, bar and barrier;
 * compute-sanitizer's synccheck checks it).  Whole warps call this.
 */
DEVICE void meet_block() {
#ifdef CUSHIM_EMULATED
    __syncthreads();
#else
    asm volatile("barrier.sync 0;" ::: "memory");
#endif
}

#endif
