/* 1 / x by the hardware, to 2^-23 of the value, for 2^-126 <= |x| <= 2^126. */
#ifndef CUSHIM_KERNELS_RECIPROCAL_CUH
#define CUSHIM_KERNELS_RECIPROCAL_CUH

#include "kernels/device/device.cuh"

DEVICE float reciprocal(float x) {
#ifdef CUSHIM_EMULATED
    return 1.0f / x;
#else
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

#endif
