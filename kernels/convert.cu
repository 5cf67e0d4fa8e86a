/*
 * Conversions between float, binary16 and e4m3, and sums and products of e4m3.
 *
 * One side of each is twice as large as the other.  The wide kernels have 16-byte accesses of
 * neighbouring lanes to neighbouring addresses on both sides: a warp goes by chunks of 32 such
 * accesses on the narrow side and 64 on the wide one, two chunks in flight, and lanes of a pair
 * exchange halves of what is narrow.
 */
#include "kernels/device/device.cuh"
#include "kernels/device/e4m3.cuh"
#include "kernels/device/half.cuh"
#include "kernels/device/operation.cuh"
#include "kernels/device/vector.cuh"

namespace {

enum { LANES = 32 };

DEVICE int lane_of_warp() {
    return (int)(threadIdx.x % LANES);
}

/* Where a lane has its 16 bytes of a narrow chunk: even lanes in the first half of it. */
DEVICE int narrow_place() {
    return lane_of_warp() % 2 * (LANES / 2) + lane_of_warp() / 2;
}

/* What belongs to the lane's place of a wide chunk, and to the place 32 further on. */
struct Halves {
    uint2 near, far;
};

DEVICE uint2 exchange(uint2 given) {
    return make_uint2(__shfl_xor_sync(0xFFFFFFFF, given.x, 1),
                      __shfl_xor_sync(0xFFFFFFFF, given.y, 1));
}

DEVICE Halves to_wide_order(uint4 value) {
    bool is_odd = lane_of_warp() % 2;
    uint2 low = make_uint2(value.x, value.y), high = make_uint2(value.z, value.w);
    uint2 got = exchange(is_odd ? low : high);
    Halves halves = {is_odd ? got : low, is_odd ? high : got};
    return halves;
}

DEVICE uint4 to_narrow_order(Halves halves) {
    bool is_odd = lane_of_warp() % 2;
    uint2 got = exchange(is_odd ? halves.near : halves.far);
    uint2 low = is_odd ? got : halves.near, high = is_odd ? halves.far : got;
    return make_uint4(low.x, low.y, high.x, high.y);
}

/* ---- float to half ---- */

DEVICE uint2 narrow_four(float4 value) {
    return make_uint2(f16x2_of_f32x2(value.x, value.y), f16x2_of_f32x2(value.z, value.w));
}

DEVICE uint4 narrow_eight(float4 near, float4 far) {
    Halves halves = {narrow_four(near), narrow_four(far)};
    return to_narrow_order(halves);
}

DEVICE void narrow_wide(const float *src, uint16_t *dst, int64_t n) {
    enum { N_PER_CHUNK = 2 * LANES * 4 };
    int64_t n_chunks = n / N_PER_CHUNK, step = threads_of_grid() / LANES;
    int64_t chunk = thread_of_grid() / LANES;
    const float4 *from = reinterpret_cast<const float4 *>(src) + lane_of_warp();
    uint4 *to = reinterpret_cast<uint4 *>(dst) + narrow_place();
    for (; chunk + step < n_chunks; chunk += 2 * step) {
        const float4 *from0 = from + chunk * 2 * LANES, *from1 = from0 + step * 2 * LANES;
        float4 near0 = load_streamed(from0), far0 = load_streamed(from0 + LANES);
        float4 near1 = load_streamed(from1), far1 = load_streamed(from1 + LANES);
        store_streamed(to + chunk * LANES, narrow_eight(near0, far0));
        store_streamed(to + (chunk + step) * LANES, narrow_eight(near1, far1));
    }
    if (chunk < n_chunks) {
        const float4 *from0 = from + chunk * 2 * LANES;
        float4 near = load_streamed(from0), far = load_streamed(from0 + LANES);
        store_streamed(to + chunk * LANES, narrow_eight(near, far));
    }
    for (int64_t i = n_chunks * N_PER_CHUNK + thread_of_grid(); i < n; i += threads_of_grid())
        dst[i] = f16_of_f32(src[i]);
}

/* ---- half to float, e4m3 to half ---- */

struct HalfToFloat {
    typedef uint16_t In;
    typedef float Out;
    DEVICE float one(uint16_t bits, float) {
        return f32_of_f16(bits);
    }
    DEVICE uint4 some(uint2 bits, float) {
        float2 low = f32x2_of_f16x2(bits.x), high = f32x2_of_f16x2(bits.y);
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

template <class Op>
DEVICE void widen(const typename Op::In *src, typename Op::Out *dst, float scale, int64_t n,
                  int64_t begin) {
    for (int64_t i = begin + thread_of_grid(); i < n; i += threads_of_grid())
        dst[i] = Op::one(src[i], scale);
}

template <class Op> DEVICE void widen_chunk(uint4 value, uint4 *to, float scale) {
    Halves halves = to_wide_order(value);
    store_streamed(to, Op::some(halves.near, scale));
    store_streamed(to + LANES, Op::some(halves.far, scale));
}

template <class Op>
DEVICE void widen_wide(const typename Op::In *src, typename Op::Out *dst, float scale, int64_t n) {
    enum { N_PER_CHUNK = LANES * 16 / sizeof(typename Op::In) };
    int64_t n_chunks = n / N_PER_CHUNK, step = threads_of_grid() / LANES;
    int64_t chunk = thread_of_grid() / LANES;
    const uint4 *from = reinterpret_cast<const uint4 *>(src) + narrow_place();
    uint4 *to = reinterpret_cast<uint4 *>(dst) + lane_of_warp();
    for (; chunk + step < n_chunks; chunk += 2 * step) {
        uint4 value0 = load_streamed(from + chunk * LANES);
        uint4 value1 = load_streamed(from + (chunk + step) * LANES);
        widen_chunk<Op>(value0, to + chunk * 2 * LANES, scale);
        widen_chunk<Op>(value1, to + (chunk + step) * 2 * LANES, scale);
    }
    if (chunk < n_chunks)
        widen_chunk<Op>(load_streamed(from + chunk * LANES), to + chunk * 2 * LANES, scale);
    widen<Op>(src, dst, scale, n, n_chunks * N_PER_CHUNK);
}

/* ---- sums and products of e4m3 ---- */

struct Scales {
    float a, b;
};

template <class Op, class Decode> struct OfTwo {
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

template <class Of>
DEVICE void binary(const uint8_t *a, const uint8_t *b, uint16_t *c, Scales scales, int64_t n,
                   int64_t begin) {
    for (int64_t i = begin + thread_of_grid(); i < n; i += threads_of_grid())
        c[i] = Of::one(a[i], b[i], scales);
}

template <class Of> DEVICE void binary_chunk(uint4 a, uint4 b, uint4 *to, Scales scales) {
    Halves left = to_wide_order(a), right = to_wide_order(b);
    store_streamed(to, Of::eight(left.near, right.near, scales));
    store_streamed(to + LANES, Of::eight(left.far, right.far, scales));
}

template <class Of>
DEVICE void binary_wide(const uint8_t *a, const uint8_t *b, uint16_t *c, Scales scales, int64_t n) {
    enum { N_PER_CHUNK = LANES * 16 };
    int64_t n_chunks = n / N_PER_CHUNK, step = threads_of_grid() / LANES;
    int64_t chunk = thread_of_grid() / LANES;
    const uint4 *from_a = reinterpret_cast<const uint4 *>(a) + narrow_place(),
                *from_b = reinterpret_cast<const uint4 *>(b) + narrow_place();
    uint4 *to = reinterpret_cast<uint4 *>(c) + lane_of_warp();
    for (; chunk + step < n_chunks; chunk += 2 * step) {
        uint4 a0 = load_streamed(from_a + chunk * LANES),
              b0 = load_streamed(from_b + chunk * LANES);
        uint4 a1 = load_streamed(from_a + (chunk + step) * LANES);
        uint4 b1 = load_streamed(from_b + (chunk + step) * LANES);
        binary_chunk<Of>(a0, b0, to + chunk * 2 * LANES, scales);
        binary_chunk<Of>(a1, b1, to + (chunk + step) * 2 * LANES, scales);
    }
    if (chunk < n_chunks)
        binary_chunk<Of>(load_streamed(from_a + chunk * LANES),
                         load_streamed(from_b + chunk * LANES), to + chunk * 2 * LANES, scales);
    binary<Of>(a, b, c, scales, n, n_chunks * N_PER_CHUNK);
}

} // namespace

KERNEL(convert_f32_f16)(const float *src, uint16_t *dst, int64_t n) {
    for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid())
        dst[i] = f16_of_f32(src[i]);
}

KERNEL(convert_f32_f16_wide)(const float *src, uint16_t *dst, int64_t n) {
    narrow_wide(src, dst, n);
}

KERNEL(convert_f16_f32)(const uint16_t *src, float *dst, int64_t n) {
    widen<HalfToFloat>(src, dst, 1, n, 0);
}

KERNEL(convert_f16_f32_wide)(const uint16_t *src, float *dst, int64_t n) {
    widen_wide<HalfToFloat>(src, dst, 1, n);
}

#define DEQUANT(suffix, Decode)                                                                    \
    KERNEL(convert_dequant_e4m3_##suffix)                                                          \
    (const uint8_t *src, uint16_t *dst, float scale, int64_t n) {                                  \
        widen<E4m3ToHalf<Decode>>(src, dst, scale, n, 0);                                          \
    }                                                                                              \
    KERNEL(convert_dequant_e4m3_##suffix##_wide)                                                   \
    (const uint8_t *src, uint16_t *dst, float scale, int64_t n) {                                  \
        widen_wide<E4m3ToHalf<Decode>>(src, dst, scale, n);                                        \
    }

#define OF_TWO(word, Op, suffix, Decode)                                                           \
    KERNEL(convert_##word##_e4m3_##suffix)                                                         \
    (const uint8_t *a, const uint8_t *b, uint16_t *c, Scales scales, int64_t n) {                  \
        binary<OfTwo<Op, Decode>>(a, b, c, scales, n, 0);                                          \
    }                                                                                              \
    KERNEL(convert_##word##_e4m3_##suffix##_wide)                                                  \
    (const uint8_t *a, const uint8_t *b, uint16_t *c, Scales scales, int64_t n) {                  \
        binary_wide<OfTwo<Op, Decode>>(a, b, c, scales, n);                                        \
    }

#define DECODED(suffix, Decode)                                                                    \
    DEQUANT(suffix, Decode)                                                                        \
    OF_TWO(add, Add, suffix, Decode)                                                               \
    OF_TWO(mul, Mul, suffix, Decode)

DECODED(bits, BitsE4m3)
DECODED(hardware, HardwareE4m3)
DECODED(finite, FiniteE4m3)
