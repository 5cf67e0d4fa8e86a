/*
 * Where the parts of blocks of four, five and six bits lie; host and device agree on it here.
 *
 * q5_0 has blocks of 32 values: a binary16 d, 32 high bits, 16 bytes of nibbles.  A value is
 * d (q - 16).  Low nibbles are values 0 to 15.
 * q4k is q5k without high bits.
 * q5k has super-blocks of 256: binary16 d and dmin and twelve bytes of 6-bit scales and minima, as
 * in q4k; 128 bytes of nibbles in the order of q4k; bit j of high byte l is that of value 32 j + l.
 * q6k has super-blocks of 256: 128 bytes of nibbles, 64 bytes with four pairs of high bits each, 16
 * scales of 8 bits, a binary16 d.  A value is d scale (q - 32).
 */
#ifndef CUSHIM_KERNELS_QUANT_PARTS_H
#define CUSHIM_KERNELS_QUANT_PARTS_H

#include <stdint.h>

/* One column of q4k, and its values, have kernels of their own. */
enum quant_format { QUANT_Q5_0, QUANT_Q5K, QUANT_Q6K, QUANT_Q4K, QUANT_N_FORMATS };

/* The first block's parts, and the bytes from a block's to the next one's.  The head is d, or what
 * the others have with it. */
struct quant_parts {
    const uint8_t *head, *high, *low;
    int head_step, high_step, low_step;
};

#endif
