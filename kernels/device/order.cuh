/*
 * Programmatic dependent launch (sm_90 and later): a kernel launched with is_dependent may start
 * while the kernel ahead of it runs.
 *
 * Such a kernel calls wait_for_earlier() in every thread before its first access to global memory,
 * without exception: one that skips it lets its successor overtake its predecessor.  A kernel that
 * was not launched so finds nothing to wait for.
 */
#ifndef CUSHIM_KERNELS_ORDER_CUH
#define CUSHIM_KERNELS_ORDER_CUH

#include "kernels/device/device.cuh"

DEVICE void wait_for_earlier() {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The next kernel may start; it still waits for the end of this one before it touches memory. */
DEVICE void let_next_start() {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif
