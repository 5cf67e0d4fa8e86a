#include "tests/kernels/emulator/half.h"

#include <math.h>
#include <string.h>

namespace emulated {

/* In units of the last place of the result, which nearbyint rounds to even. */
uint16_t f16_of_double(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    int exponent;
    if (isnan(value))
        return 0x7fff;
    value = fabs(value);
    if (value >= 65520.0)
        return sign | 0x7c00;
    if (value < 0x1p-14)
        return sign | (uint16_t)nearbyint(value * 0x1p24);
    frexp(value, &exponent); /* value = [0.5, 1) * 2^exponent */
    double units = nearbyint(ldexp(value, 11 - exponent));
    return (uint16_t)(sign | (((exponent + 14) << 10) + ((int)units - 1024)));
}

/* A number's bits in their places of a float's, whose exponent counts from 127 in place of 15. */
float float_of_f16(uint16_t bits) {
    uint32_t placed = (uint32_t)(bits & 0x7fff) << 13;
    float magnitude;
    memcpy(&magnitude, &placed, sizeof magnitude);
    magnitude *= 0x1p112f;
    if ((bits & 0x7c00) == 0x7c00)
        magnitude = bits & 1023 ? NAN : INFINITY;
    return bits & 0x8000 ? -magnitude : magnitude;
}

} // namespace emulated
