/*
 * Programmatic dependent launch (sm_90 and later): a kernel launched with is_dependent may start
 * while the kernel ahead of it runs.
 *
 * Such a kernel calls wait_for_earlier() in every thread before its first access to global memory,
 * without exception: one that skips it lets its successor overtake its predecessor.  A prefetch
 * into L2 may come before it, because what the kernel ahead still writes is written there.  A
 * kernel that was launched without is_dependent does not wait.
 */
#ifndef CUSHIM_KERNELS_DEPENDENT_LAUNCH_CUH
#define CUSHIM_KERNELS_DEPENDENT_LAUNCH_CUH

#include "kernels/device/device.cuh"

DEVICE void wait_for_earlier() {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Bring the line of this address, which is in the caller's memory, into L2. */
DEVICE void prefetch_early(const void *address) {
#ifdef CUSHIM_EMULATED
    (void)*static_cast<const volatile char *>(address); /* the address must be readable */
#elif __CUDA_ARCH__ >= 900
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(address)));
#endif
}

/* The same for n_bytes; both are multiples of 16. */
DEVICE void prefetch_early(const void *address, unsigned n_bytes) {
#ifdef CUSHIM_EMULATED
    prefetch_early(address);
    prefetch_early(static_cast<const char *>(address) + n_bytes - 1);
#elif __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(address)),
        "r"(n_bytes)
        : "memory");
#endif
}

/* Let the next kernel start; it still waits for the end of this one before it touches memory. */
DEVICE void let_next_start() {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif
