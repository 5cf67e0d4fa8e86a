/*
 * W neighbouring elements of a tensor as floats: one access of up to 16 bytes, or W = 1.  A Piece
 * is what one access moves, in registers as it is in memory; spread() makes floats of it.
 *
 * load() is for what is read once and may be the output's own memory. load_kept() is for what other
 * rows read too, such as weights and tables.  It is not __ldg(), because that needs memory which
 * nobody writes while the kernel runs.  A kernel launched dependent
 * (kernels/device/arch/dependent_launch.cuh) runs beside the one ahead of it, which may be writing
 * the table.  If W is above 1, addresses must be multiples of W elements.
 */
#ifndef CUSHIM_KERNELS_ACCESS_CUH
#define CUSHIM_KERNELS_ACCESS_CUH

#include "kernels/device/device.cuh"
#include "kernels/device/math/bf16.cuh"
#include "kernels/device/math/half.cuh"
#include "kernels/device/vector.cuh"

template <class Element, int W> struct Access;

/*
 * The same address, hidden from the compiler.  A load from it stays in its place instead of being
 * done once for all rows of a loop, which would take as many registers as a row.  The compiler
 * still knows that it is global memory.
 */
template <class T> DEVICE const T *afresh(const T *address) {
#ifdef CUSHIM_EMULATED
    return address;
#else
    size_t global = __cvta_generic_to_global(address);
    asm volatile("" : "+l"(global));
    return static_cast<const T *>(__cvta_global_to_generic(global));
#endif
}

DEVICE void spread(float4 value, float *to) {
    to[0] = value.x, to[1] = value.y, to[2] = value.z, to[3] = value.w;
}

template <class Format> DEVICE void spread_of(uint4 piece, float *to) {
    uint32_t pairs[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 pair = Format::widen2(pairs[i]);
        to[2 * i] = pair.x, to[2 * i + 1] = pair.y;
    }
}

/* of halves */
DEVICE void spread(uint4 halves, float *to) {
    spread_of<F16>(halves, to);
}

template <> struct Access<float, 1> {
    typedef float Element;
    typedef float Piece;
    enum { WIDTH = 1 };
    DEVICE Piece read(const float *from) {
        return *from;
    }
    DEVICE Piece read_kept(const float *from) {
        return *from;
    }
    DEVICE void spread(Piece piece, float *to) {
        *to = piece;
    }
    DEVICE Piece pack(const float *values) {
        return *values;
    }
    DEVICE void load(const float *from, float *to) {
        *to = *from;
    }
    DEVICE void load_kept(const float *from, float *to) {
        *to = *from;
    }
    DEVICE void store(float *to, const float *values) {
        *to = *values;
    }
};

template <> struct Access<float, 4> {
    typedef float Element;
    typedef float4 Piece;
    enum { WIDTH = 4 };
    DEVICE Piece read(const float *from) {
        return load_streamed(reinterpret_cast<const float4 *>(from));
    }
    DEVICE Piece read_kept(const float *from) {
        return *reinterpret_cast<const float4 *>(from);
    }
    DEVICE void spread(Piece piece, float *to) {
        ::spread(piece, to);
    }
    DEVICE Piece pack(const float *values) {
        return make_float4(values[0], values[1], values[2], values[3]);
    }
    DEVICE void load(const float *from, float *to) {
        spread(load_streamed(reinterpret_cast<const float4 *>(from)), to);
    }
    DEVICE void load_kept(const float *from, float *to) {
        spread(*reinterpret_cast<const float4 *>(from), to);
    }
    DEVICE void store(float *to, const float *values) {
        store_streamed(reinterpret_cast<float4 *>(to),
                       make_float4(values[0], values[1], values[2], values[3]));
    }
};

/* Of elements of 16 bits: halves or bfloat16. */
template <class T, class Format> struct AccessOfOne {
    typedef T Element;
    typedef uint16_t Piece;
    enum { WIDTH = 1 };
    DEVICE Piece read(const T *from) {
        return *reinterpret_cast<const uint16_t *>(from);
    }
    DEVICE Piece read_kept(const T *from) {
        return read(from);
    }
    DEVICE void spread(Piece piece, float *to) {
        *to = Format::widen(piece);
    }
    DEVICE Piece pack(const float *values) {
        return Format::narrow(*values);
    }
    DEVICE void load(const T *from, float *to) {
        spread(read(from), to);
    }
    DEVICE void load_kept(const T *from, float *to) {
        spread(read(from), to);
    }
    DEVICE void store(T *to, const float *values) {
        *reinterpret_cast<uint16_t *>(to) = pack(values);
    }
};

template <class T, class Format> struct AccessOfEight {
    typedef T Element;
    typedef uint4 Piece;
    enum { WIDTH = 8 };
    DEVICE Piece read(const T *from) {
        return load_streamed(reinterpret_cast<const uint4 *>(from));
    }
    DEVICE Piece read_kept(const T *from) {
        return *reinterpret_cast<const uint4 *>(from);
    }
    DEVICE void spread(Piece piece, float *to) {
        spread_of<Format>(piece, to);
    }
    DEVICE Piece pack(const float *values) {
        return make_uint4(
            Format::narrow2(values[0], values[1]), Format::narrow2(values[2], values[3]),
            Format::narrow2(values[4], values[5]), Format::narrow2(values[6], values[7]));
    }
    DEVICE void load(const T *from, float *to) {
        spread(read(from), to);
    }
    DEVICE void load_kept(const T *from, float *to) {
        spread(read_kept(from), to);
    }
    DEVICE void store(T *to, const float *values) {
        store_streamed(reinterpret_cast<uint4 *>(to), pack(values));
    }
};

template <> struct Access<uint16_t, 1> : AccessOfOne<uint16_t, F16> {};
template <> struct Access<uint16_t, 8> : AccessOfEight<uint16_t, F16> {};
template <> struct Access<bf16, 1> : AccessOfOne<bf16, Bf16> {};
template <> struct Access<bf16, 8> : AccessOfEight<bf16, Bf16> {};

#endif
