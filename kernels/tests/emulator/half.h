/*
 * binary16, as in <cuda_fp16.h>: bits in a struct, and functions by CUDA's names.
 *
 * Sums, products and quotients are computed in float and rounded once more, which gives the
 * correctly rounded result for all four; a fused product and sum takes double.
 */
#ifndef CUSHIM_EMULATOR_HALF_H
#define CUSHIM_EMULATOR_HALF_H

#include "kernels/tests/emulator/vectors.h"

#include <stdint.h>
#include <string.h>

namespace emulated {

/* To nearest even; a NaN gets the payload that the device's conversion gives. */
uint16_t f16_of_double(double value);

/* A number's bits at their places in a float, whose exponent has the bias 127 instead of 15. */
inline float float_of_f16(uint16_t bits) {
    uint32_t magnitude = bits & 0x7fffu, placed = (magnitude << 13) + (112u << 23);
    float value;
    if (magnitude < 0x400) /* by hand, because the machine is slow at subnormal floats */
        value = (float)magnitude * 0x1p-24f;
    else if (magnitude >= 0x7c00)
        value = magnitude > 0x7c00 ? __builtin_nanf("") : __builtin_inff();
    else
        memcpy(&value, &placed, sizeof value);
    return bits & 0x8000 ? -value : value;
}

} // namespace emulated

struct __half_raw {
    unsigned short x;
};

struct __half2_raw {
    unsigned short x, y;
};

struct __half {
    unsigned short bits;
    __half() = default;
    __half(__half_raw raw) : bits(raw.x) {
    }
    __half(float value) : bits(emulated::f16_of_double(value)) {
    }
    operator float() const {
        return emulated::float_of_f16(bits);
    }
    operator __half_raw() const {
        return {bits};
    }
};

struct alignas(4) __half2 {
    __half x, y;
    __half2() = default;
    __half2(__half x, __half y) : x(x), y(y) {
    }
};

typedef __half half;
typedef __half2 half2;

/* ---- bits ---- */

static inline __half __ushort_as_half(unsigned short bits) {
    return __half_raw{bits};
}

static inline __half __short_as_half(short bits) {
    return __half_raw{(unsigned short)bits};
}

static inline unsigned short __half_as_ushort(__half value) {
    return value.bits;
}

static inline short __half_as_short(__half value) {
    return (short)value.bits;
}

/* ---- conversions ---- */

static inline float __half2float(__half value) {
    return emulated::float_of_f16(value.bits);
}

static inline __half __float2half_rn(float value) {
    return __ushort_as_half(emulated::f16_of_double(value));
}

static inline __half __float2half(float value) {
    return __float2half_rn(value);
}

static inline __half __double2half(double value) {
    return __ushort_as_half(emulated::f16_of_double(value));
}

static inline __half __int2half_rn(int value) {
    return __double2half(value);
}

static inline __half2 __floats2half2_rn(float low, float high) {
    return {__float2half_rn(low), __float2half_rn(high)};
}

static inline __half2 __float22half2_rn(float2 value) {
    return __floats2half2_rn(value.x, value.y);
}

static inline __half2 __float2half2_rn(float value) {
    return __floats2half2_rn(value, value);
}

static inline float2 __half22float2(__half2 value) {
    return {__half2float(value.x), __half2float(value.y)};
}

static inline __half2 __halves2half2(__half low, __half high) {
    return {low, high};
}

static inline __half2 make_half2(__half low, __half high) {
    return {low, high};
}

static inline __half2 __half2half2(__half value) {
    return {value, value};
}

static inline __half __low2half(__half2 value) {
    return value.x;
}

static inline __half __high2half(__half2 value) {
    return value.y;
}

static inline float __low2float(__half2 value) {
    return __half2float(value.x);
}

static inline float __high2float(__half2 value) {
    return __half2float(value.y);
}

/* ---- arithmetic ---- */

static inline __half __hadd(__half a, __half b) {
    return __float2half_rn(__half2float(a) + __half2float(b));
}

static inline __half __hsub(__half a, __half b) {
    return __float2half_rn(__half2float(a) - __half2float(b));
}

static inline __half __hmul(__half a, __half b) {
    return __float2half_rn(__half2float(a) * __half2float(b));
}

static inline __half __hdiv(__half a, __half b) {
    return __float2half_rn(__half2float(a) / __half2float(b));
}

static inline __half __hfma(__half a, __half b, __half c) {
    return __double2half((double)__half2float(a) * (double)__half2float(b) +
                         (double)__half2float(c));
}

static inline __half __hneg(__half a) {
    return __ushort_as_half(a.bits ^ 0x8000);
}

static inline __half __habs(__half a) {
    return __ushort_as_half(a.bits & 0x7fff);
}

static inline bool __hisnan(__half a) {
    return (a.bits & 0x7fff) > 0x7c00;
}

static inline int __hisinf(__half a) {
    return (a.bits & 0x7fff) != 0x7c00 ? 0 : a.bits & 0x8000 ? -1 : 1;
}

/* Of a NaN and a number, the number. */
static inline __half __hmax(__half a, __half b) {
    return __hisnan(a) ? b : __hisnan(b) ? a : __half2float(a) > __half2float(b) ? a : b;
}

static inline __half __hmin(__half a, __half b) {
    return __hisnan(a) ? b : __hisnan(b) ? a : __half2float(a) < __half2float(b) ? a : b;
}

#define EMULATED_HALF2(name, one)                                                                  \
    static inline __half2 name(__half2 a, __half2 b) {                                             \
        return {one(a.x, b.x), one(a.y, b.y)};                                                     \
    }
EMULATED_HALF2(__hadd2, __hadd)
EMULATED_HALF2(__hsub2, __hsub)
EMULATED_HALF2(__hmul2, __hmul)
EMULATED_HALF2(__h2div, __hdiv)
EMULATED_HALF2(__hmax2, __hmax)
EMULATED_HALF2(__hmin2, __hmin)

static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

static inline __half2 __hneg2(__half2 a) {
    return {__hneg(a.x), __hneg(a.y)};
}

static inline bool __hgt(__half a, __half b) {
    return __half2float(a) > __half2float(b);
}

static inline bool __hlt(__half a, __half b) {
    return __half2float(a) < __half2float(b);
}

static inline bool __heq(__half a, __half b) {
    return __half2float(a) == __half2float(b);
}

#endif
