#include "kernels/tests/emulator/half.h"

#include <math.h>

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

} // namespace emulated
