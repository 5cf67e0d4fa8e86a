/*
 * Blocks of quantised weights in shared memory as parts of a matrix product: a lane's integers of a
 * row, exact in binary16, and the row's scale.
 */
#ifndef CUSHIM_KERNELS_GEMV_FRAGMENTS_CUH
#define CUSHIM_KERNELS_GEMV_FRAGMENTS_CUH

#include "kernels/gemv/gemv_formats.cuh"

/* ---- a word of integers to four rows of a fragment ---- */

/*
 * The k slots of a product are values in an order of our own: of the 16 values v of a half block,
 * slots 2t, 2t + 1 are v = 4t, 4t + 2, slots 2t + 8, 2t + 9 are v = 4t + 1, 4t + 3.  So a lane's
 * are four neighbours, as the formats have them.
 */
struct Fragment {
    uint32_t of[2][2]; /* [half of the block][slots below 8, from 8 on] */
};

/* Word t of 32 nibbles has values 4t .. 4t + 3 and 16 more than those. */
DEVICE Fragment fragment_of_nibbles(uint32_t word) {
    const uint16_t one = 0x3C00, sixteenth = 0x2C00, less_1032 = 0xE408, less_72 = 0xD480;
    uint32_t next = word >> 8;
    return {{{fma_f16x2(masked_or(word, 0x000F000F, 0x64006400), one, less_1032),
              fma_f16x2(masked_or(next, 0x000F000F, 0x64006400), one, less_1032)},
             {fma_f16x2(masked_or(word, 0x00F000F0, 0x64006400), sixteenth, less_72),
              fma_f16x2(masked_or(next, 0x00F000F0, 0x64006400), sixteenth, less_72)}}};
}

/* Words t and t + 4 of 32 bytes. */
DEVICE Fragment fragment_of_bytes(uint32_t first, uint32_t second) {
    const uint16_t one = 0x3C00, less_1152 = 0xE480;
    first ^= 0x80808080;
    second ^= 0x80808080;
    return {{{fma_f16x2(__byte_perm(first, 0x64646464, 0x4240), one, less_1152),
              fma_f16x2(__byte_perm(first, 0x64646464, 0x4341), one, less_1152)},
             {fma_f16x2(__byte_perm(second, 0x64646464, 0x4240), one, less_1152),
              fma_f16x2(__byte_perm(second, 0x64646464, 0x4341), one, less_1152)}}};
}

/* ---- a block in shared memory, at a multiple of 2 bytes ---- */

DEVICE uint32_t shared_word(const uint8_t *from) {
    const uint16_t *halves = reinterpret_cast<const uint16_t *>(from);
    return halves[0] | (uint32_t)halves[1] << 16;
}

template <class Format> struct Staged;

template <> struct Staged<Q4_0> {
    DEVICE Fragment fragment(const uint8_t *block, int t) {
        return fragment_of_nibbles(reinterpret_cast<const uint32_t *>(block)[t]);
    }
    DEVICE float scale(const uint8_t *, const uint16_t *scales) {
        return f32_of_f16(*scales);
    }
    DEVICE int value(const uint8_t *block, int i) {
        return (i < 16 ? block[i] & 15 : block[i - 16] >> 4) - 8;
    }
};

template <> struct Staged<Q8_0> {
    DEVICE Fragment fragment(const uint8_t *block, int t) {
        const uint8_t *values = block + Q8_0::SCALE_BYTES;
        return fragment_of_bytes(shared_word(values + 4 * t), shared_word(values + 4 * t + 16));
    }
    DEVICE float scale(const uint8_t *block, const uint16_t *) {
        return f32_of_f16(*reinterpret_cast<const uint16_t *>(block));
    }
    DEVICE int value(const uint8_t *block, int i) {
        return (int8_t)block[Q8_0::SCALE_BYTES + i];
    }
};

template <> struct Staged<Q8f> {
    DEVICE Fragment fragment(const uint8_t *block, int t) {
        const uint32_t *words = reinterpret_cast<const uint32_t *>(block + Q8f::SCALE_BYTES);
        return fragment_of_bytes(words[t], words[t + 4]);
    }
    DEVICE float scale(const uint8_t *block, const uint16_t *) {
        return *reinterpret_cast<const float *>(block);
    }
    DEVICE int value(const uint8_t *block, int i) {
        return (int8_t)block[Q8f::SCALE_BYTES + i];
    }
};

#endif
