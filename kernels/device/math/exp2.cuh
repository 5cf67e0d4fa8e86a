/*
 * 2^x by the hardware, to 2 ULP; 0 below 2^-126.  The emulator makes it wrong by 2^-22.5 of the
 * value, 1.4 to 2.8 ULP, so that tests find code which needs more accuracy.
 */
#ifndef CUSHIM_KERNELS_EXP2_CUH
#define CUSHIM_KERNELS_EXP2_CUH

#include "kernels/device/device.cuh"

DEVICE float quick_exp2(float x) {
#ifdef CUSHIM_EMULATED
    return (float)(exp2((double)x) * (1.0 + 0x1.6Ap-23));
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

#endif
