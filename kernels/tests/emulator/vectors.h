/* CUDA's short vectors, with its alignments: an access to a float4 needs a multiple of 16. */
#ifndef CUSHIM_EMULATOR_VECTORS_H
#define CUSHIM_EMULATOR_VECTORS_H

#define EMULATED_VECTORS(base, type, align2, align4)                                               \
    struct base##1 {                                                                               \
        type x;                                                                                    \
    };                                                                                             \
    struct alignas(align2) base##2 {                                                               \
        type x, y;                                                                                 \
    };                                                                                             \
    struct base##3 {                                                                               \
        type x, y, z;                                                                              \
    };                                                                                             \
    struct alignas(align4) base##4 {                                                               \
        type x, y, z, w;                                                                           \
    };                                                                                             \
    static inline base##1 make_##base##1(type x) {                                                 \
        return {x};                                                                                \
    }                                                                                              \
    static inline base##2 make_##base##2(type x, type y) {                                         \
        return {x, y};                                                                             \
    }                                                                                              \
    static inline base##3 make_##base##3(type x, type y, type z) {                                 \
        return {x, y, z};                                                                          \
    }                                                                                              \
    static inline base##4 make_##base##4(type x, type y, type z, type w) {                         \
        return {x, y, z, w};                                                                       \
    }

EMULATED_VECTORS(char, signed char, 2, 4)
EMULATED_VECTORS(uchar, unsigned char, 2, 4)
EMULATED_VECTORS(short, short, 4, 8)
EMULATED_VECTORS(ushort, unsigned short, 4, 8)
EMULATED_VECTORS(int, int, 8, 16)
EMULATED_VECTORS(uint, unsigned, 8, 16)
EMULATED_VECTORS(long, long, 16, 16)
EMULATED_VECTORS(ulong, unsigned long, 16, 16)
EMULATED_VECTORS(longlong, long long, 16, 16)
EMULATED_VECTORS(ulonglong, unsigned long long, 16, 16)
EMULATED_VECTORS(float, float, 8, 16)
EMULATED_VECTORS(double, double, 16, 16)

struct dim3 {
    unsigned x, y, z;
};

#endif
