/*
 * Wide accesses to global memory: 16 bytes per thread (8 for uint2), which do not take a place in
 * the caches from others.  Addresses are multiples of that size.
 */
#ifndef CUSHIM_KERNELS_VECTOR_CUH
#define CUSHIM_KERNELS_VECTOR_CUH

#include "kernels/device/device.cuh"

DEVICE float4 f32x4_of_bits(uint4 bits) {
    return make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                       __uint_as_float(bits.w));
}

/* For what is read once: it takes no place in L1, and L2 keeps it like anything else. */
DEVICE uint4 load_streamed(const uint4 *from) {
#ifdef CUSHIM_EMULATED
    return *from;
#else
    uint4 value;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from)
                 : "memory");
    return value;
#endif
}

DEVICE float4 load_streamed(const float4 *from) {
    return f32x4_of_bits(load_streamed(reinterpret_cast<const uint4 *>(from)));
}

DEVICE uint2 load_streamed(const uint2 *from) {
#ifdef CUSHIM_EMULATED
    return *from;
#else
    uint2 value;
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(value.x), "=r"(value.y)
                 : "l"(from)
                 : "memory");
    return value;
#endif
}

DEVICE double2 load_streamed(const double2 *from) {
    uint4 bits = load_streamed(reinterpret_cast<const uint4 *>(from));
    return make_double2(__hiloint2double((int)bits.y, (int)bits.x),
                        __hiloint2double((int)bits.w, (int)bits.z));
}

/*
 * The same, and its whole line of 128 bytes comes into L2.  This is for ranges that are parts of
 * lines, if others read the rest at about that time.
 */
DEVICE uint4 load_line(const uint4 *from) {
#ifdef CUSHIM_EMULATED
    return *from;
#else
    uint4 value;
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from)
                 : "memory");
    return value;
#endif
}

DEVICE float4 load_line(const float4 *from) {
    return f32x4_of_bits(load_line(reinterpret_cast<const uint4 *>(from)));
}

/* A load that the compiler leaves in its place, even before a branch that may not need it. */
DEVICE float load_now(const float *from) {
    return *static_cast<const volatile float *>(from);
}

DEVICE float4 load_now(const float4 *from) {
#ifdef CUSHIM_EMULATED
    return *from;
#else
    float4 value;
    asm volatile("ld.volatile.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(from)
                 : "memory");
    return value;
#endif
}

/* For what is written once and read by others later. */
DEVICE void store_streamed(float4 *to, float4 value) {
#ifdef CUSHIM_EMULATED
    *to = value;
#else
    __stcs(to, value);
#endif
}

DEVICE void store_streamed(uint4 *to, uint4 value) {
#ifdef CUSHIM_EMULATED
    *to = value;
#else
    __stcs(to, value);
#endif
}

DEVICE void store_streamed(double2 *to, double2 value) {
#ifdef CUSHIM_EMULATED
    *to = value;
#else
    __stcs(to, value);
#endif
}

#endif
