/*
 * Operations on the bits of a word, and arithmetic on the two binary16 in one, as single
 * instructions.  Without these the compiler splits a word into two halves, and uses two
 * instructions for two immediates.
 */
#ifndef CUSHIM_KERNELS_BITS_CUH
#define CUSHIM_KERNELS_BITS_CUH

#include "kernels/device/device.cuh"

/* (bits & mask) | with. */
DEVICE uint32_t masked_or(uint32_t bits, uint32_t mask, uint32_t with) {
#ifdef CUSHIM_EMULATED
    return (bits & mask) | with;
#else
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(result) : "r"(bits), "r"(mask), "r"(with));
    return result;
#endif
}

/* (bits & mask) ^ with. */
DEVICE uint32_t masked_xor(uint32_t bits, uint32_t mask, uint32_t with) {
#ifdef CUSHIM_EMULATED
    return (bits & mask) ^ with;
#else
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(result) : "r"(bits), "r"(mask), "r"(with));
    return result;
#endif
}

/* (bits as halves) * factor + term; factor and term are each one half for both.  Rounded once. */
DEVICE uint32_t fma_f16x2(uint32_t bits, uint16_t factor, uint16_t term) {
#ifdef CUSHIM_EMULATED
    __half by = __ushort_as_half(factor), plus = __ushort_as_half(term);
    return __half_as_ushort(__hfma(__ushort_as_half((uint16_t)bits), by, plus)) |
           (uint32_t)__half_as_ushort(__hfma(__ushort_as_half((uint16_t)(bits >> 16)), by, plus))
               << 16;
#else
    uint32_t result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(bits), "r"(factor * 0x10001u), "r"(term * 0x10001u));
    return result;
#endif
}

#endif
