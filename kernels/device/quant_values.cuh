/*
 * Values of q4k, q5_0, q5k and q6k, eight neighbours at a time; kernels/shared/quant_parts.h says
 * how they are packed.
 */
#ifndef CUSHIM_KERNELS_QUANT_VALUES_CUH
#define CUSHIM_KERNELS_QUANT_VALUES_CUH

#include "kernels/device/device.cuh"
#include "kernels/device/math/half.cuh"
#include "kernels/shared/quant_parts.h"

namespace {

enum { AT_ONCE = 8 };

/* AT_ONCE values: scale * q[i] - minimum. */
struct Values {
    float q[AT_ONCE], scale, minimum;
};

DEVICE float half_at(const uint8_t *from) {
    return f32_of_f16((uint16_t)(from[0] | from[1] << 8));
}

DEVICE void read_nibbles(const uint8_t *from, bool is_high, int (&q)[AT_ONCE]) {
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        q[i] = is_high ? from[i] >> 4 : from[i] & 15;
}

/* The values from `at` in a block on. */
struct Q5_0 {
    enum { BLOCK = 32 };
    DEVICE Values read(const struct quant_parts &parts, int64_t block, int at) {
        const uint8_t *high = parts.high + block * parts.high_step;
        int q[AT_ONCE];
        Values values = {{}, half_at(parts.head + block * parts.head_step), 0};
        read_nibbles(parts.low + block * parts.low_step + at % 16, at >= 16, q);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            values.q[i] = (float)((q[i] | (high[at / 8] >> i & 1) << 4) - 16);
        return values;
    }
};

template <bool HAS_HIGH> struct Q4KOr5K {
    enum { BLOCK = 256 };
    DEVICE Values read(const struct quant_parts &parts, int64_t block, int at) {
        const uint8_t *head = parts.head + block * parts.head_step, *s = head + 4;
        const uint8_t *high = parts.high + block * parts.high_step + at % 32; /* of q5k */
        int q[AT_ONCE], j = at / 32;
        int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        int minimum = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
        Values values = {{},
                         __fmul_rn(half_at(head), (float)scale),
                         __fmul_rn(half_at(head + 2), (float)minimum)};
        read_nibbles(parts.low + block * parts.low_step + 32 * (at / 64) + at % 32, j & 1, q);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            values.q[i] = (float)(q[i] | (HAS_HIGH ? (high[i] >> j & 1) << 4 : 0));
        return values;
    }
};
typedef Q4KOr5K<false> Q4K;
typedef Q4KOr5K<true> Q5K;

struct Q6K {
    enum { BLOCK = 256 };
    DEVICE Values read(const struct quant_parts &parts, int64_t block, int at) {
        const uint8_t *head = parts.head + block * parts.head_step;
        int half = at / 128, quarter = at % 128 / 32, l = at % 32, q[AT_ONCE];
        const uint8_t *high = parts.high + block * parts.high_step + 32 * half + l;
        float scale = (float)(int8_t)head[8 * half + 2 * quarter + l / 16];
        Values values = {{}, __fmul_rn(half_at(head + 16), scale), 0};
        read_nibbles(parts.low + block * parts.low_step + 64 * half + 32 * (quarter & 1) + l,
                     quarter >= 2, q);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            values.q[i] = (float)((q[i] | (high[i] >> 2 * quarter & 3) << 4) - 32);
        return values;
    }
};

} // namespace

#endif
