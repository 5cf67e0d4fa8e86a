/*
 * Elements of every type as numbers, and back.  The formats are those of kernels/docs/kernels.md
 * and IEEE 754, done by arithmetic and not by the tables or instructions that kernels use.
 */
#include <math.h>
#include <string.h>

#include "kernels/tests/frame/case.h"

size_t bytes_of(enum kernel_type type) {
    static const size_t bytes[] = {
        [TYPE_F32] = 4, [TYPE_F64] = 8, [TYPE_F16] = 2, [TYPE_BF16] = 2, [TYPE_E4M3] = 1,
        [TYPE_U8] = 1,  [TYPE_U16] = 2, [TYPE_I32] = 4, [TYPE_I64] = 8,
    };
    return bytes[type];
}

/* ---- small floats: a sign, bits of an exponent, bits of a fraction ---- */

struct format {
    int fraction_bits, bias;
    unsigned sign;     /* its bit */
    double largest;    /* what rounds beyond it is an infinity, or NaN if there is none */
    unsigned infinity; /* its code; codes above it are NaN */
};

static const struct format f16 = {10, 15, 0x8000, 65504, 0x7C00};
static const struct format bf16 = {7, 127, 0x8000, 0x1.FEp127, 0x7F80};
/* no infinity: its code is the only NaN */
static const struct format e4m3 = {3, 7, 0x80, 448, 0x7F};

static double read_small(const struct format *format, unsigned code) {
    unsigned magnitude = code & (format->sign - 1);
    unsigned exponent = magnitude >> format->fraction_bits;
    unsigned fraction = magnitude & ((1u << format->fraction_bits) - 1);
    double value;
    if (magnitude >= format->infinity) {
        value = magnitude == format->infinity && format != &e4m3 ? INFINITY : NAN;
    } else {
        unsigned hidden = exponent ? 1u << format->fraction_bits : 0;
        int power = (exponent ? (int)exponent : 1) - format->bias - format->fraction_bits;
        value = ldexp(fraction + hidden, power);
    }
    return code & format->sign ? -value : value;
}

static unsigned write_small(const struct format *format, double value) {
    unsigned sign = signbit(value) ? format->sign : 0;
    double magnitude = fabs(value);
    int least = 1 - format->bias, exponent;
    if (isnan(value))
        return sign | format->infinity | (format == &e4m3 ? 0 : 1u << (format->fraction_bits - 1));
    if (magnitude == 0)
        return sign;
    exponent = isinf(magnitude) ? 999 : ilogb(magnitude);
    if (exponent > format->bias + 1)
        return sign | format->infinity;
    if (exponent < least)
        exponent = least;
    /* steps of the exponent's range, to nearest even; a carry goes into the exponent by itself */
    unsigned steps = (unsigned)rint(ldexp(magnitude, format->fraction_bits - exponent));
    unsigned code = ((unsigned)(exponent - least) << format->fraction_bits) + steps;
    return sign | (code > format->infinity ? format->infinity : code);
}

/* ---- any ---- */

#define LOAD(type, values, i)                                                                      \
    __extension__({                                                                                \
        type loaded;                                                                               \
        memcpy(&loaded, (const unsigned char *)(values) + (i) * sizeof(type), sizeof loaded);      \
        loaded;                                                                                    \
    })
#define STORE(type, values, i, value)                                                              \
    do {                                                                                           \
        type stored = (type)(value);                                                               \
        memcpy((unsigned char *)(values) + (i) * sizeof(type), &stored, sizeof stored);            \
    } while (0)

double value_of(enum kernel_type type, const void *values, size_t i) {
    switch (type) {
    case TYPE_F32:
        return LOAD(float, values, i);
    case TYPE_F64:
        return LOAD(double, values, i);
    case TYPE_F16:
        return read_small(&f16, LOAD(uint16_t, values, i));
    case TYPE_BF16:
        return read_small(&bf16, LOAD(uint16_t, values, i));
    case TYPE_E4M3:
        return read_small(&e4m3, LOAD(uint8_t, values, i));
    case TYPE_U8:
        return LOAD(uint8_t, values, i);
    case TYPE_U16:
        return LOAD(uint16_t, values, i);
    case TYPE_I32:
        return LOAD(int32_t, values, i);
    default:
        return (double)LOAD(int64_t, values, i);
    }
}

void value_set(enum kernel_type type, void *values, size_t i, double value) {
    switch (type) {
    case TYPE_F32:
        STORE(float, values, i, value);
        break;
    case TYPE_F64:
        STORE(double, values, i, value);
        break;
    case TYPE_F16:
        STORE(uint16_t, values, i, write_small(&f16, value));
        break;
    case TYPE_BF16:
        STORE(uint16_t, values, i, write_small(&bf16, value));
        break;
    case TYPE_E4M3:
        STORE(uint8_t, values, i, write_small(&e4m3, value));
        break;
    case TYPE_U8:
        STORE(uint8_t, values, i, value);
        break;
    case TYPE_U16:
        STORE(uint16_t, values, i, value);
        break;
    case TYPE_I32:
        STORE(int32_t, values, i, value);
        break;
    default:
        STORE(int64_t, values, i, value);
    }
}
