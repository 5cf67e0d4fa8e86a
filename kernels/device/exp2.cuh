/*
 * 2^x as the hardware has it: to 2^-22 of the value, 0 below 2^-126.  Emulated it is that far off:
 * what cannot bear it shows.
 */
#ifndef CUSHIM_KERNELS_EXP2_CUH
#define CUSHIM_KERNELS_EXP2_CUH

#include "kernels/device/device.cuh"

DEVICE float quick_exp2(float x) {
#ifdef CUSHIM_EMULATED
    return exp2f(x) * (1.0f + 0x1p-22f);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

#endif
