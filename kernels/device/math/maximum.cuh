/*
 * The larger of two floats, with NaN above all, and the extremes of a warp's numbers.  Devices
 * before sm_80 have no instruction for either and take several steps.
 */
#ifndef CUSHIM_KERNELS_MAXIMUM_CUH
#define CUSHIM_KERNELS_MAXIMUM_CUH

#include "kernels/device/device.cuh"

/* Of zeros with different signs it may return either. */
DEVICE float larger_or_nan(float a, float b) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 800
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
#else
    return a > b || a != a ? a : b;
#endif
}

/* Whole warps call these; each lane has the result. */
DEVICE uint32_t max_of_warp_in_steps(uint32_t value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        value = max(value, __shfl_xor_sync(0xFFFFFFFF, value, step));
    return value;
}

DEVICE uint32_t max_of_warp(uint32_t value) {
#if defined(CUSHIM_EMULATED) || __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xFFFFFFFF, value);
#else
    return max_of_warp_in_steps(value);
#endif
}

DEVICE uint32_t min_of_warp(uint32_t value) {
#if defined(CUSHIM_EMULATED) || __CUDA_ARCH__ >= 800
    return __reduce_min_sync(0xFFFFFFFF, value);
#else
    return ~max_of_warp_in_steps(~value);
#endif
}

#endif
