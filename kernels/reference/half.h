/*
 * The small formats on the host, for references: binary16 and bfloat16 as bits in a uint16_t, and
 * e4m3.
 *
 * Widening is exact.  Narrowing starts from a double, so that a result is rounded once, to nearest
 * even; a float is exact in a double.
 */
#ifndef CUSHIM_KERNELS_HALF_H
#define CUSHIM_KERNELS_HALF_H

#include <math.h>
#include <stdint.h>

/* A magnitude of 65520 or more is closer to 2^16 than to the largest number, 65504. */
static inline uint16_t cushim_f16_of(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    int exponent;
    if (isnan(value))
        return sign | 0x7E00;
    if (size >= 65520)
        return sign | 0x7C00;
    if (size < 0x1p-14) /* steps of 2^-24; the largest may round up to the least normal number */
        return sign | (uint16_t)rint(size * 0x1p24);
    double fraction = frexp(size, &exponent); /* [1/2, 1) */
    return sign | (uint16_t)(((exponent + 13) << 10) + (int)rint(fraction * 2048));
}

static inline float cushim_f32_of_f16(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 0x3FF;
    float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent     ? (float)(1024 + fraction) * (float)(1 << exponent) * 0x1p-25f
                                : (float)fraction * 0x1p-24f;
    return bits & 0x8000 ? -size : size;
}

/* Half-way from the largest number to 2^128 is 0x1.FFp127. */
static inline uint16_t cushim_bf16_of(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    int exponent;
    if (isnan(value))
        return sign | 0x7FC0;
    if (size >= 0x1.FFp127)
        return sign | 0x7F80;
    if (size < 0x1p-126)
        return sign | (uint16_t)rint(size * 0x1p133);
    double fraction = frexp(size, &exponent);
    return sign | (uint16_t)(((exponent + 125) << 7) + (int)rint(fraction * 256));
}

static inline float cushim_f32_of_bf16(uint16_t bits) {
    union {
        uint32_t bits;
        float value;
    } both = {(uint32_t)bits << 16};
    return both.value;
}

/*
 * E4M3FN has no infinities, and NaN is only 0x7F and 0xFF.  If has_nan is 0 these are 480 and -480.
 */
static inline float cushim_f32_of_e4m3(uint8_t code, int has_nan) {
    int exponent = code >> 3 & 15, fraction = code & 7;
    float size = exponent ? (float)(8 + fraction) * (float)(1 << exponent) * 0x1p-10f
                          : (float)fraction * 0x1p-9f;
    if (has_nan && (code & 0x7F) == 0x7F)
        size = NAN;
    return code & 0x80 ? -size : size;
}

#endif
