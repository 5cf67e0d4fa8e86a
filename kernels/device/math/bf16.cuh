/*
 * bfloat16 as bits: one in a uint16_t, two in a uint32_t, the first in its low half.
 *
 * It is the upper half of a float.  Widening is exact, narrowing rounds to nearest even.
 */
#ifndef CUSHIM_KERNELS_BF16_CUH
#define CUSHIM_KERNELS_BF16_CUH

#include "kernels/device/device.cuh"

/* An element in memory; a uint16_t is a half. */
struct bf16 {
    uint16_t bits;
};

struct Bf16 {
    DEVICE float widen(uint16_t bits) {
        return __uint_as_float((uint32_t)bits << 16);
    }
    DEVICE float2 widen2(uint32_t bits) {
        return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xFFFF0000));
    }
    DEVICE uint16_t narrow(float value) {
        uint32_t bits = __float_as_uint(value);
        if ((bits & 0x7FFFFFFF) > 0x7F800000)
            return 0x7FFF;
        return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    }
    DEVICE uint32_t narrow2(float low, float high) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 800
        uint32_t bits;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
        return bits;
#else
        return narrow(low) | (uint32_t)narrow(high) << 16;
#endif
    }
};

#endif
