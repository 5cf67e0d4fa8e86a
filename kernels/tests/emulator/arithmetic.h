/*
 * Arithmetic by CUDA's names, with the roundings that they promise.
 *
 * The folder is built without contraction, so that only what asked for an fma becomes one.
 * Functions that are approximate on a device are as exact here as in the C library; a test that
 * needs such an error has to add it.
 */
#ifndef CUSHIM_EMULATOR_ARITHMETIC_H
#define CUSHIM_EMULATOR_ARITHMETIC_H

#include "kernels/tests/emulator/half.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace emulated {

template <class To, class From> static inline To bits_of(From value) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A conversion to an integer: NaN becomes 0, and what is too large the nearest. */
template <class To> static inline To saturated(double value, double lowest, double highest) {
    if (isnan(value))
        return 0;
    return value <= lowest ? (To)lowest : value >= highest ? (To)(highest - 1) : (To)value;
}

} // namespace emulated

/* ---- bits ---- */

#define EMULATED_BITS(name, to, from)                                                              \
    static inline to name(from value) {                                                            \
        return emulated::bits_of<to>(value);                                                       \
    }
EMULATED_BITS(__float_as_uint, unsigned, float)
EMULATED_BITS(__float_as_int, int, float)
EMULATED_BITS(__uint_as_float, float, unsigned)
EMULATED_BITS(__int_as_float, float, int)
EMULATED_BITS(__double_as_longlong, long long, double)
EMULATED_BITS(__longlong_as_double, double, long long)

static inline double __hiloint2double(int high, int low) {
    return emulated::bits_of<double>((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}

static inline int __double2hiint(double value) {
    return (int)(emulated::bits_of<uint64_t>(value) >> 32);
}

static inline int __double2loint(double value) {
    return (int)emulated::bits_of<uint64_t>(value);
}

static inline int __popc(unsigned bits) {
    return __builtin_popcount(bits);
}

static inline int __popcll(unsigned long long bits) {
    return __builtin_popcountll(bits);
}

static inline int __clz(int bits) {
    return bits ? __builtin_clz((unsigned)bits) : 32;
}

static inline int __clzll(long long bits) {
    return bits ? __builtin_clzll((unsigned long long)bits) : 64;
}

static inline int __ffs(int bits) {
    return __builtin_ffs(bits);
}

static inline int __ffsll(long long bits) {
    return __builtin_ffsll(bits);
}

static inline unsigned __brev(unsigned bits) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (bits >> i & 1) << (31 - i);
    return reversed;
}

/* The four of the eight bytes of low and high that the selector's digits name. */
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    uint64_t bytes = (uint64_t)high << 32 | low;
    unsigned picked = 0;
    for (int i = 0; i < 4; i++)
        picked |= (unsigned)(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return picked;
}

static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((uint64_t)high << 32 | low) << (by & 31) >> 32);
}

static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (by & 31));
}

/* ---- integers ---- */

static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}

static inline int __mulhi(int a, int b) {
    return (int)((int64_t)a * b >> 32);
}

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

static inline long long __mul64hi(long long a, long long b) {
    return (long long)((__int128)a * b >> 64);
}

/* The sum of four products of bytes. */
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 32; i += 8)
        c += (int)(signed char)(a >> i) * (signed char)(b >> i);
    return c;
}

static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 32; i += 8)
        c += (a >> i & 0xff) * (b >> i & 0xff);
    return c;
}

#define EMULATED_MIN_MAX(type)                                                                     \
    static inline type min(type a, type b) {                                                       \
        return b < a ? b : a;                                                                      \
    }                                                                                              \
    static inline type max(type a, type b) {                                                       \
        return a < b ? b : a;                                                                      \
    }
EMULATED_MIN_MAX(int)
EMULATED_MIN_MAX(unsigned)
EMULATED_MIN_MAX(long)
EMULATED_MIN_MAX(unsigned long)
EMULATED_MIN_MAX(long long)
EMULATED_MIN_MAX(unsigned long long)

static inline float min(float a, float b) {
    return fminf(a, b);
}

static inline float max(float a, float b) {
    return fmaxf(a, b);
}

static inline double min(double a, double b) {
    return fmin(a, b);
}

static inline double max(double a, double b) {
    return fmax(a, b);
}

/* ---- float and double: one rounding, to the nearest ---- */

#define EMULATED_OPERATION(name, type, op)                                                         \
    static inline type name(type a, type b) {                                                      \
        return a op b;                                                                             \
    }
EMULATED_OPERATION(__fadd_rn, float, +)
EMULATED_OPERATION(__fsub_rn, float, -)
EMULATED_OPERATION(__fmul_rn, float, *)
EMULATED_OPERATION(__fdiv_rn, float, /)
EMULATED_OPERATION(__fdividef, float, /)
EMULATED_OPERATION(__dadd_rn, double, +)
EMULATED_OPERATION(__dsub_rn, double, -)
EMULATED_OPERATION(__dmul_rn, double, *)
EMULATED_OPERATION(__ddiv_rn, double, /)

#define EMULATED_FUNCTION(name, type, result)                                                      \
    static inline type name(type x) {                                                              \
        return result;                                                                             \
    }
EMULATED_FUNCTION(__fsqrt_rn, float, sqrtf(x))
EMULATED_FUNCTION(__dsqrt_rn, double, sqrt(x))
EMULATED_FUNCTION(__frcp_rn, float, 1.0f / x)
EMULATED_FUNCTION(__drcp_rn, double, 1.0 / x)
EMULATED_FUNCTION(__frsqrt_rn, float, (float)(1.0 / sqrt((double)x)))
EMULATED_FUNCTION(rsqrtf, float, (float)(1.0 / sqrt((double)x)))
EMULATED_FUNCTION(rsqrt, double, 1.0 / sqrt(x))
EMULATED_FUNCTION(rsqrt, float, rsqrtf(x))
EMULATED_FUNCTION(__saturatef, float, x > 0.0f ? fminf(x, 1.0f) : 0.0f)

/* The C library has functions of these names. */
#define __expf   expf
#define __exp10f exp10f
#define __logf   logf
#define __log2f  log2f
#define __log10f log10f
#define __sinf   sinf
#define __cosf   cosf
#define __tanhf  tanhf
#define __powf   powf

static inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}

static inline double __fma_rn(double a, double b, double c) {
    return fma(a, b, c);
}

/* ---- conversions ---- */

#define EMULATED_CONVERSION(name, to, from)                                                        \
    static inline to name(from value) {                                                            \
        return (to)value;                                                                          \
    }
EMULATED_CONVERSION(__int2float_rn, float, int)
EMULATED_CONVERSION(__uint2float_rn, float, unsigned)
EMULATED_CONVERSION(__ll2float_rn, float, long long)
EMULATED_CONVERSION(__ull2float_rn, float, unsigned long long)
EMULATED_CONVERSION(__int2double_rn, double, int)
EMULATED_CONVERSION(__uint2double_rn, double, unsigned)
EMULATED_CONVERSION(__ll2double_rn, double, long long)
EMULATED_CONVERSION(__ull2double_rn, double, unsigned long long)
EMULATED_CONVERSION(__double2float_rn, float, double)

#define EMULATED_TO_INTEGER(name, to, from, round, lowest, highest)                                \
    static inline to name##_##round(from value) {                                                  \
        return emulated::saturated<to>(EMULATED_##round((double)value), lowest, highest);          \
    }
#define EMULATED_rn nearbyint
#define EMULATED_rz trunc
#define EMULATED_rd floor
#define EMULATED_ru ceil
#define EMULATED_TO_INTEGERS(name, to, from, lowest, highest)                                      \
    EMULATED_TO_INTEGER(name, to, from, rn, lowest, highest)                                       \
    EMULATED_TO_INTEGER(name, to, from, rz, lowest, highest)                                       \
    EMULATED_TO_INTEGER(name, to, from, rd, lowest, highest)                                       \
    EMULATED_TO_INTEGER(name, to, from, ru, lowest, highest)
EMULATED_TO_INTEGERS(__float2int, int, float, -0x1p31, 0x1p31)
EMULATED_TO_INTEGERS(__float2uint, unsigned, float, 0.0, 0x1p32)
EMULATED_TO_INTEGERS(__double2int, int, double, -0x1p31, 0x1p31)
EMULATED_TO_INTEGERS(__double2uint, unsigned, double, 0.0, 0x1p32)

static inline long long __float2ll_rn(float value) {
    return isnan(value)        ? INT64_MIN
           : value >= 0x1p63f  ? INT64_MAX
           : value <= -0x1p63f ? INT64_MIN
                               : llrintf(value);
}

#endif
