/*
 * Conversions between float, binary16, bfloat16 and e4m3, and sums and products of e4m3.
 *
 * One side of each is twice as large as the other.  A wide piece is 16 bytes of the large side and
 * 8 of the small one, so that neighbouring lanes have neighbouring addresses on both.
 */
#include "kernels/device/math/e4m3.cuh"
#include "kernels/device/each.cuh"
#include "kernels/device/math/bf16.cuh"
#include "kernels/device/math/half.cuh"
#include "kernels/device/math/arithmetic.cuh"

namespace {

/* ---- float to half or bfloat16 ---- */

template <class Format> struct NarrowOne {
    typedef float Value;
    enum { WIDTH = 1 };
    const float *src;
    uint16_t *dst;
    __device__ float load(int64_t i) const {
        return src[i];
    }
    __device__ void store(int64_t i, float value) const {
        dst[i] = Format::narrow(value);
    }
};

template <class Format> struct NarrowFour {
    typedef float4 Value;
    enum { WIDTH = 4 };
    NarrowOne<Format> of;
    __device__ float4 load(int64_t i) const {
        return reinterpret_cast<const float4 *>(of.src)[i];
    }
    __device__ void store(int64_t i, float4 value) const {
        reinterpret_cast<uint2 *>(of.dst)[i] =
            make_uint2(Format::narrow2(value.x, value.y), Format::narrow2(value.z, value.w));
    }
};

/* ---- half or bfloat16 to float, e4m3 to half ---- */

template <class Format> struct SmallToFloat {
    typedef uint16_t In;
    typedef float Out;
    DEVICE float one(uint16_t bits, float) {
        return Format::widen(bits);
    }
    DEVICE uint4 some(uint2 bits, float) {
        float2 low = Format::widen2(bits.x), high = Format::widen2(bits.y);
        return make_uint4(__float_as_uint(low.x), __float_as_uint(low.y), __float_as_uint(high.x),
                          __float_as_uint(high.y));
    }
};

DEVICE float2 scaled(uint32_t halves, float scale) {
    float2 value = f32x2_of_f16x2(halves);
    return make_float2(__fmul_rn(value.x, scale), __fmul_rn(value.y, scale));
}

template <class Decode> struct E4m3ToHalf {
    typedef uint8_t In;
    typedef uint16_t Out;
    DEVICE uint16_t one(uint8_t code, float scale) {
        return f16_of_f32(__fmul_rn(f32_of_e4m3<Decode>(code), scale));
    }
    DEVICE uint2 four(uint32_t codes, float scale) {
        uint2 halves = Decode::four(codes);
        float2 low = scaled(halves.x, scale), high = scaled(halves.y, scale);
        return make_uint2(f16x2_of_f32x2(low.x, low.y), f16x2_of_f32x2(high.x, high.y));
    }
    DEVICE uint4 some(uint2 codes, float scale) {
        uint2 low = four(codes.x, scale), high = four(codes.y, scale);
        return make_uint4(low.x, low.y, high.x, high.y);
    }
};

template <class Op> struct WidenOne {
    typedef typename Op::In Value;
    enum { WIDTH = 1 };
    const typename Op::In *src;
    typename Op::Out *dst;
    float scale;
    __device__ Value load(int64_t i) const {
        return src[i];
    }
    __device__ void store(int64_t i, Value value) const {
        dst[i] = Op::one(value, scale);
    }
};

template <class Op> struct WidenSome {
    typedef uint2 Value;
    enum { WIDTH = sizeof(uint2) / sizeof(typename Op::In) };
    WidenOne<Op> of;
    __device__ uint2 load(int64_t i) const {
        return reinterpret_cast<const uint2 *>(of.src)[i];
    }
    __device__ void store(int64_t i, uint2 value) const {
        reinterpret_cast<uint4 *>(of.dst)[i] = Op::some(value, of.scale);
    }
};

/* ---- sums and products of e4m3 ---- */

struct Scales {
    float a, b;
};

template <class Op, class Decode> struct Codes {
    DEVICE uint16_t one(uint8_t a, uint8_t b, Scales scales) {
        return f16_of_f32(Op::of(__fmul_rn(f32_of_e4m3<Decode>(a), scales.a),
                                 __fmul_rn(f32_of_e4m3<Decode>(b), scales.b)));
    }
    DEVICE uint32_t two(uint32_t a, uint32_t b, Scales scales) {
        float2 left = scaled(a, scales.a), right = scaled(b, scales.b);
        return f16x2_of_f32x2(Op::of(left.x, right.x), Op::of(left.y, right.y));
    }
    DEVICE uint4 eight(uint2 a, uint2 b, Scales scales) {
        uint2 a_low = Decode::four(a.x), a_high = Decode::four(a.y);
        uint2 b_low = Decode::four(b.x), b_high = Decode::four(b.y);
        return make_uint4(two(a_low.x, b_low.x, scales), two(a_low.y, b_low.y, scales),
                          two(a_high.x, b_high.x, scales), two(a_high.y, b_high.y, scales));
    }
};

template <class Of> struct BinaryOne {
    struct Value {
        uint8_t a, b;
    };
    enum { WIDTH = 1 };
    const uint8_t *a, *b;
    uint16_t *c;
    Scales scales;
    __device__ Value load(int64_t i) const {
        Value value = {a[i], b[i]};
        return value;
    }
    __device__ void store(int64_t i, Value value) const {
        c[i] = Of::one(value.a, value.b, scales);
    }
};

template <class Of> struct BinaryEight {
    struct Value {
        uint2 a, b;
    };
    enum { WIDTH = 8 };
    BinaryOne<Of> of;
    __device__ Value load(int64_t i) const {
        Value value = {reinterpret_cast<const uint2 *>(of.a)[i],
                       reinterpret_cast<const uint2 *>(of.b)[i]};
        return value;
    }
    __device__ void store(int64_t i, const Value &value) const {
        reinterpret_cast<uint4 *>(of.c)[i] = Of::eight(value.a, value.b, of.scales);
    }
};

/* ---- the loops ---- */

template <class One> DEVICE void convert_each(const One &one, int64_t n) {
    each_tile<EACH_ELEMENTS, EACH_ELEMENTS>(one, one, n);
}

template <class Some, class One> DEVICE void convert_wide(const One &one, int64_t n) {
    each_tile<EACH_PIECES, EACH_PIECES>(Some{one}, one, n);
}

} // namespace

#define SMALL(name, Format)                                                                        \
    EACH_KERNEL(convert_f32_##name)(const float *src, uint16_t *dst, int64_t n) {                  \
        convert_each(NarrowOne<Format>{src, dst}, n);                                              \
    }                                                                                              \
    EACH_KERNEL(convert_f32_##name##_wide)(const float *src, uint16_t *dst, int64_t n) {           \
        convert_wide<NarrowFour<Format>>(NarrowOne<Format>{src, dst}, n);                          \
    }                                                                                              \
    EACH_KERNEL(convert_##name##_f32)(const uint16_t *src, float *dst, int64_t n) {                \
        convert_each(WidenOne<SmallToFloat<Format>>{src, dst, 1}, n);                              \
    }                                                                                              \
    EACH_KERNEL(convert_##name##_f32_wide)(const uint16_t *src, float *dst, int64_t n) {           \
        typedef SmallToFloat<Format> To;                                                           \
        convert_wide<WidenSome<To>>(WidenOne<To>{src, dst, 1}, n);                                 \
    }

SMALL(f16, F16)
SMALL(bf16, Bf16)

#define DEQUANT(suffix, Decode)                                                                    \
    EACH_KERNEL(convert_dequant_e4m3_##suffix)                                                     \
    (const uint8_t *src, uint16_t *dst, float scale, int64_t n) {                                  \
        convert_each(WidenOne<E4m3ToHalf<Decode>>{src, dst, scale}, n);                            \
    }                                                                                              \
    EACH_KERNEL(convert_dequant_e4m3_##suffix##_wide)                                              \
    (const uint8_t *src, uint16_t *dst, float scale, int64_t n) {                                  \
        typedef E4m3ToHalf<Decode> To;                                                             \
        convert_wide<WidenSome<To>>(WidenOne<To>{src, dst, scale}, n);                             \
    }

#define OF_TWO(word, Op, suffix, Decode)                                                           \
    EACH_KERNEL(convert_##word##_e4m3_##suffix)                                                    \
    (const uint8_t *a, const uint8_t *b, uint16_t *c, Scales scales, int64_t n) {                  \
        typedef Codes<Op, Decode> Of;                                                              \
        convert_each(BinaryOne<Of>{a, b, c, scales}, n);                                           \
    }                                                                                              \
    EACH_KERNEL(convert_##word##_e4m3_##suffix##_wide)                                             \
    (const uint8_t *a, const uint8_t *b, uint16_t *c, Scales scales, int64_t n) {                  \
        typedef Codes<Op, Decode> Of;                                                              \
        convert_wide<BinaryEight<Of>>(BinaryOne<Of>{a, b, c, scales}, n);                          \
    }

#define DECODED(suffix, Decode)                                                                    \
    DEQUANT(suffix, Decode)                                                                        \
    OF_TWO(add, Add, suffix, Decode)                                                               \
    OF_TWO(mul, Mul, suffix, Decode)

DECODED(bits, BitsE4m3)
DECODED(hardware, HardwareE4m3)
DECODED(finite, FiniteE4m3)
