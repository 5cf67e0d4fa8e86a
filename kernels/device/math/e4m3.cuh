/*
 * Decoding e4m3 (E4M3FN) to binary16, which holds every finite code exactly: the four codes of a
 * word become two words of two halves, in order.
 *
 * HardwareE4m3 is for sm_89 and later, BitsE4m3 for any device; both give NaN for 0x7F and 0xFF.
 * FiniteE4m3 is BitsE4m3 without a NaN; it gives 480 and -480 for these codes.
 */
#ifndef CUSHIM_KERNELS_E4M3_CUH
#define CUSHIM_KERNELS_E4M3_CUH

#include "kernels/device/device.cuh"
#include "kernels/device/math/half.cuh"

/* Each half times 256; exact if the product is finite. */
DEVICE uint32_t times_256_f16x2(uint32_t bits) {
#ifdef CUSHIM_EMULATED
    float2 value = f32x2_of_f16x2(bits);
    return f16x2_of_f32x2(value.x * 256, value.y * 256);
#else
    uint32_t product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(bits), "r"(0x5C005C00));
    return product;
#endif
}

/*
 * Two codes, each in the upper byte of its half.  Exponent and fraction move to their places in
 * binary16.  Its bias is 8 more, so the result is scaled, which also makes subnormal codes right.
 */
template <bool HAS_NAN> DEVICE uint32_t f16x2_of_spread_e4m3(uint32_t spread) {
    uint32_t magnitude = (spread & 0x7F007F00) >> 1;
    uint32_t value = times_256_f16x2((spread & 0x80008000) | magnitude);
    if (!HAS_NAN)
        return value;
    uint32_t is_nan = (magnitude + 0x00800080) & 0x40004000; /* set only by 0x3F80, which is 0x7F */
    return value | ((is_nan << 1) - (is_nan >> 14));         /* 0x7FFF in such a half */
}

template <bool HAS_NAN> DEVICE uint2 f16x4_of_e4m3x4(uint32_t codes) {
    return make_uint2(
        f16x2_of_spread_e4m3<HAS_NAN>((codes & 0xFF) << 8 | (codes & 0xFF00) << 16),
        f16x2_of_spread_e4m3<HAS_NAN>((codes & 0xFF0000) >> 8 | (codes & 0xFF000000)));
}

struct BitsE4m3 {
    DEVICE uint2 four(uint32_t codes) {
        return f16x4_of_e4m3x4<true>(codes);
    }
};

struct FiniteE4m3 {
    DEVICE uint2 four(uint32_t codes) {
        return f16x4_of_e4m3x4<false>(codes);
    }
};

struct HardwareE4m3 {
    DEVICE uint2 four(uint32_t codes) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 890
        uint2 halves;
        asm("{\n"
            ".reg .b16 low, high;\n"
            "mov.b32 {low, high}, %2;\n"
            "cvt.rn.f16x2.e4m3x2 %0, low;\n"
            "cvt.rn.f16x2.e4m3x2 %1, high;\n"
            "}"
            : "=r"(halves.x), "=r"(halves.y)
            : "r"(codes));
        return halves;
#else
        return f16x4_of_e4m3x4<true>(codes);
#endif
    }
};

/*
 * The same codes, hidden from the compiler.  Otherwise it would keep what it decoded of them
 * before, in twice as many registers, instead of decoding them again.
 */
DEVICE uint2 afresh(uint2 codes) {
#ifndef CUSHIM_EMULATED
    asm volatile("" : "+r"(codes.x), "+r"(codes.y));
#endif
    return codes;
}

/* One code, for the rest of a tensor. */
template <class Decode> DEVICE float f32_of_e4m3(uint8_t code) {
    return f32_of_f16((uint16_t)Decode::four(code).x);
}

#endif
