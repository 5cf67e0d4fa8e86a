/*
 * q4k, ggml's super-block of 256 values in 144 bytes. 144 is nine times 16, so each block is
 * aligned if the base is.
 *
 * The first 16 bytes are fp16 d and dmin, eight 6-bit scales and eight 6-bit minima.  The other 128
 * are nibbles: group g has 32 bytes, low nibbles are values 64 g + l, high ones 64 g + 32 + l.
 */
#ifndef CUSHIM_KERNELS_Q4K_CUH
#define CUSHIM_KERNELS_Q4K_CUH

#include "kernels/device/device.cuh"
#include "kernels/device/math/half.cuh"

enum { Q4K_VALUES = 256, Q4K_BYTES = 144, Q4K_HEAD_BYTES = 16 };

/* d * scale and dmin * minimum of 32 values; both products are exact. */
struct Q4kScale {
    float scale, minimum;
};

/* The scale of the 32 values from 32 j on; the head is the first 16 bytes. */
DEVICE Q4kScale q4k_scale(uint4 head, int j) {
    uint32_t low = j & 1 ? head.y >> 8 : head.y;  /* s[0..3], at bytes j & 1 and 2 + (j & 1) */
    uint32_t mid = j & 1 ? head.z >> 8 : head.z;  /* s[4..7] */
    uint32_t high = j & 1 ? head.w >> 8 : head.w; /* s[8..11] */
    int shift = j & 2 ? 16 : 0;
    low >>= shift;
    mid >>= shift;
    high >>= shift;
    uint32_t scale = low & 63, minimum = mid & 63;
    if (j & 4) {
        scale = (high & 15) | (low >> 2 & 0x30);
        minimum = (high >> 4 & 15) | (mid >> 2 & 0x30);
    }
    return {__fmul_rn(f32_of_f16((uint16_t)head.x), (float)scale),
            __fmul_rn(f32_of_f16((uint16_t)(head.x >> 16)), (float)minimum)};
}

#endif
