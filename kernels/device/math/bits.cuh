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

/* Bits of `ones` for ones of the mask, and bits of `zeros` for its zeros. */
DEVICE uint32_t select_bits(uint32_t mask, uint32_t ones, uint32_t zeros) {
#ifdef CUSHIM_EMULATED
    return (mask & ones) | (~mask & zeros);
#else
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(result) : "r"(mask), "r"(ones), "r"(zeros));
    return result;
#endif
}

/*
 * The four of the eight bytes of low and high that the selector's digits name; a digit from 8 on
 * takes the top bit of its byte eight times, which __byte_perm does not.
 */
DEVICE uint32_t bytes_or_signs(uint32_t low, uint32_t high, uint32_t selector) {
    uint32_t result;
#ifdef CUSHIM_EMULATED
    result = __byte_perm(low, high, selector);
    for (int i = 0; i < 4; i++)
        if (selector >> 4 * i & 8)
            result = (result & ~(0xFFu << 8 * i)) | (result >> (8 * i + 7) & 1) * 0xFF << 8 * i;
#else
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
#endif
    return result;
}

/* a * b + c of two halves each, rounded once. */
DEVICE uint32_t fma_f16x2_of(uint32_t a, uint32_t b, uint32_t c) {
#ifdef CUSHIM_EMULATED
    auto of_half = [&](int shift) {
        return (uint32_t)__half_as_ushort(__hfma(__ushort_as_half((uint16_t)(a >> shift)),
                                                 __ushort_as_half((uint16_t)(b >> shift)),
                                                 __ushort_as_half((uint16_t)(c >> shift))));
    };
    return of_half(0) | of_half(16) << 16;
#else
    uint32_t result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
#endif
}

/* Of two halves each; as the term of a sum it takes no instruction. */
DEVICE uint32_t negative_f16x2(uint32_t bits) {
#ifdef CUSHIM_EMULATED
    return bits ^ 0x80008000;
#else
    uint32_t result;
    asm("neg.f16x2 %0, %1;" : "=r"(result) : "r"(bits));
    return result;
#endif
}

/* The same; factor and term are each one half for both. */
DEVICE uint32_t fma_f16x2(uint32_t bits, uint16_t factor, uint16_t term) {
    return fma_f16x2_of(bits, factor * 0x10001u, term * 0x10001u);
}

#endif
