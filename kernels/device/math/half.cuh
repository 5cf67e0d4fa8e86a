/*
 * binary16 as bits: one in a uint16_t, two in a uint32_t, the first in its low half.
 *
 * Widening is exact.  Narrowing rounds to nearest even; 65520 and above become infinity.
 */
#ifndef CUSHIM_KERNELS_HALF_CUH
#define CUSHIM_KERNELS_HALF_CUH

#include "kernels/device/device.cuh"

DEVICE float f32_of_f16(uint16_t bits) {
    return __half2float(__ushort_as_half(bits));
}

DEVICE uint16_t f16_of_f32(float value) {
    return __half_as_ushort(__float2half_rn(value));
}

DEVICE float2 f32x2_of_f16x2(uint32_t bits) {
    return make_float2(f32_of_f16((uint16_t)bits), f32_of_f16((uint16_t)(bits >> 16)));
}

DEVICE uint32_t f16x2_of_f32x2(float low, float high) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 800
    uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
#else
    return f16_of_f32(low) | (uint32_t)f16_of_f32(high) << 16;
#endif
}

/* The same functions as Bf16 has. */
struct F16 {
    DEVICE float widen(uint16_t bits) {
        return f32_of_f16(bits);
    }
    DEVICE float2 widen2(uint32_t bits) {
        return f32x2_of_f16x2(bits);
    }
    DEVICE uint16_t narrow(float value) {
        return f16_of_f32(value);
    }
    DEVICE uint32_t narrow2(float low, float high) {
        return f16x2_of_f32x2(low, high);
    }
};

/* The larger of each pair of halves; of a number and NaN, the number. */
DEVICE uint32_t larger_f16x2(uint32_t a, uint32_t b) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 800
    uint32_t bits;
    asm("max.f16x2 %0, %1, %2;" : "=r"(bits) : "r"(a), "r"(b));
    return bits;
#else
    float2 x = f32x2_of_f16x2(a), y = f32x2_of_f16x2(b);
    return f16x2_of_f32x2(fmaxf(x.x, y.x), fmaxf(x.y, y.y));
#endif
}

#endif
