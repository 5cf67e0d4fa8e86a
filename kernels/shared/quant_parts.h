/*
 * Where the parts of blocks of quantised values lie; host and device agree on it here.
 *
 * q4_0 has blocks of 32 values: 16 bytes of nibbles, and a binary16 d apart.  A value is d (q - 8).
 * Low nibbles are values 0 to 15.
 * q8_0 and q8f have d, a binary16 or a float, and 32 signed bytes behind it.  A value is d q.
 * q5_0 has blocks of 32 values: a binary16 d, 32 high bits, 16 bytes of nibbles.  A value is
 * d (q - 16).  Low nibbles are values 0 to 15.
 * q4k has super-blocks of 256: binary16 d and dmin, twelve bytes of eight 6-bit scales and eight
 * 6-bit minima, 128 bytes of nibbles.  Of bytes 32 g .. 32 g + 31 the low nibbles are values 64 g +
 * l, the high ones values 64 g + 32 + l.  A value is d scale q - dmin minimum, by its 32.
 * q5k is q4k with 32 bytes of high bits: bit j of byte l is that of value 32 j + l.
 * q6k has super-blocks of 256: 128 bytes of nibbles, 64 bytes with four pairs of high bits each, 16
 * scales of 8 bits, a binary16 d.  A value is d scale (q - 32).
 */
#ifndef CUSHIM_KERNELS_QUANT_PARTS_H
#define CUSHIM_KERNELS_QUANT_PARTS_H

#include <stddef.h>
#include <stdint.h>

enum quant_format {
    QUANT_Q4_0,
    QUANT_Q8_0,
    QUANT_Q8F,
    QUANT_Q4K,
    QUANT_Q5_0,
    QUANT_Q5K,
    QUANT_Q6K,
    QUANT_N_FORMATS
};

/* The first block's parts, and the bytes from a block's to the next one's.  The head is d, or what
 * the others have with it; the parts of q8_0 and q8f are whole blocks. */
struct quant_parts {
    const uint8_t *head, *high, *low;
    int head_step, high_step, low_step;
};

/* A block: its values, its bytes (of q4_0 without d), and at which bytes the parts begin. */
struct quant_layout {
    const char *name;
    int values, bytes, alignment, head, high, low;
};

static inline struct quant_layout cushim_quant_layout(enum quant_format format) {
    static const struct quant_layout layouts[QUANT_N_FORMATS] = {
        {"q4_0", 32, 16, 2, 0, 0, 0},      {"q8_0", 32, 34, 2, 0, 0, 0},
        {"q8f", 32, 36, 4, 0, 0, 0},       {"q4k", 256, 144, 2, 0, 0, 16},
        {"q5_0", 32, 22, 1, 0, 2, 6},      {"q5k", 256, 176, 1, 0, 16, 48},
        {"q6k", 256, 210, 1, 192, 128, 0},
    };
    return layouts[format];
}

/* The parts of blocks; scales are w, but for q4_0.  NULL has none. */
static inline struct quant_parts cushim_quant_parts(enum quant_format format, const void *scales,
                                                    const void *w) {
    const struct quant_layout layout = cushim_quant_layout(format);
    const uint8_t *head = (const uint8_t *)scales, *low = (const uint8_t *)w;
    struct quant_parts parts = {head ? head + layout.head : NULL,
                                low ? low + layout.high : NULL,
                                low ? low + layout.low : NULL,
                                layout.bytes,
                                layout.bytes,
                                layout.bytes};
    if (format == QUANT_Q4_0)
        parts.head_step = 2;
    return parts;
}

#endif
