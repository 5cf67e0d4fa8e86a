/*
 * q4k, ggml's super-block of 256 values in 144 bytes, as the references of quant and gemv read it.
 *
 * It has fp16 d and dmin, twelve bytes of eight 6-bit scales and eight 6-bit minima, and 128 bytes
 * of nibbles.  Group g = 0 .. 3 is in bytes 32 g .. 32 g + 31: the low nibbles are values 64 g + l,
 * the high ones values 64 g + 32 + l.  A value is d * scale * nibble - dmin * minimum of its 32.
 */
#ifndef CUSHIM_KERNELS_Q4K_H
#define CUSHIM_KERNELS_Q4K_H

#include "kernels/reference/half.h"

enum { Q4K_VALUES = 256, Q4K_BYTES = 144 };

struct q4k_value {
    double scale;   /* d * scale, which is exact in float too */
    double minimum; /* dmin * minimum, likewise */
    int nibble;     /* 0 .. 15 */
};

static inline uint16_t q4k_u16(const uint8_t *from) {
    return (uint16_t)(from[0] | from[1] << 8);
}

static inline struct q4k_value q4k_value_at(const uint8_t *block, int i) {
    const uint8_t *s = block + 4, *nibbles = block + 16;
    int j = i / 32, scale, minimum;
    if (j < 4) {
        scale = s[j] & 63;
        minimum = s[j + 4] & 63;
    } else {
        scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        minimum = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    }
    int byte = nibbles[32 * (i / 64) + i % 32];
    return (struct q4k_value){.scale = (double)cushim_f32_of_f16(q4k_u16(block)) * scale,
                              .minimum = (double)cushim_f32_of_f16(q4k_u16(block + 2)) * minimum,
                              .nibble = j % 2 ? byte >> 4 : byte & 15};
}

#endif
