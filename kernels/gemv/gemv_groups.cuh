/*
 * Formats of four to six bits by ggml in parts of a matrix product: q5_0, and super-blocks of 256
 * values (q4k, q5k, q6k).
 *
 * Half a super-block is a group: 128 values, four blocks of 32, whose products are one sum.  Its
 * integers are q times the scale of their block, and d is its only float.  These products of
 * integers are below 2^11 for q4k and q5k, so they are exact in binary16.  Those of q6k have a bit
 * more, and become two binary16, the second what rounding took from the first.
 *
 * Minima are one more product: a column's sums of the four blocks, each as three bfloat16, times
 * the four minima, which are integers too.  Slots 4 i to 4 i + 2 have the sum of block i.
 */
#ifndef CUSHIM_KERNELS_GEMV_GROUPS_CUH
#define CUSHIM_KERNELS_GEMV_GROUPS_CUH

#include "kernels/device/math/bf16.cuh"
#include "kernels/device/math/q4k.cuh"
#include "kernels/gemv/gemv_staged.cuh"

enum { GROUP_BLOCKS = 4, SUPER_BLOCKS = 8 };

/* ---- sums of a column ---- */

/* The four slots of a block's sum. */
DEVICE uint2 slots_of_sum(float sum) {
    float high = __uint_as_float(__float_as_uint(sum) & 0xFFFF0000), rest = sum - high;
    float middle = __uint_as_float(__float_as_uint(rest) & 0xFFFF0000);
    return make_uint2(__byte_perm(__float_as_uint(high), __float_as_uint(middle), 0x7632),
                      Bf16::narrow(rest - middle));
}

/* The byte at a position 0 .. 3 of a word, as a float. */
DEVICE float f32_of_byte(uint32_t word, int position) {
    return __uint_as_float(__byte_perm(word, 0x4B000000, 0x7440 | position)) - 0x1p23f;
}

/* A lane's slots of minima, a byte each: of block t / 2, and of the second one behind it. */
DEVICE uint2 slots_of_minima(uint32_t minima, int t) {
    uint32_t first = __float_as_uint(f32_of_byte(minima, t / 2)),
             second = __float_as_uint(f32_of_byte(minima, 2 + t / 2));
    return make_uint2(__byte_perm(first, 0, 0x3232), __byte_perm(second, 0, 0x3232));
}

/* ---- q5_0 ---- */

/* ggml's: an fp16 scale, 32 high bits, then the nibbles in the order of q4_0's; 22 bytes. */
struct Q5_0Block : Single {
    enum { BYTES = 22, SCALE_BYTES = 2, UNIT = 2 };
};

/* Four bytes of bits 0 .. 3. */
DEVICE uint32_t bytes_of_bits(uint32_t bits) {
    return (bits & 15) * 0x00204081 & 0x01010101;
}

/* Four bytes below 64, the even ones or the odd ones, as binary16, less what `less` has of 1024 and
 * more. */
DEVICE uint32_t f16x2_of_bytes(uint32_t bytes, uint16_t less) {
    return fma_f16x2(masked_or(bytes, 0x00FF00FF, 0x64006400), (uint16_t)0x3C00, less);
}

template <> struct Staged<Q5_0Block> : StagedBlock {
    DEVICE Fragment fragment(Place block, int, int t) {
        const uint16_t less_1040 = 0xE410;
        uint32_t high = shared_word(block + 2), low = shared_word(block + 6 + 4 * t);
        uint32_t first = (low & 0x0F0F0F0F) | bytes_of_bits(high >> 4 * t) << 4;
        uint32_t second = (low >> 4 & 0x0F0F0F0F) | bytes_of_bits(high >> (16 + 4 * t)) << 4;
        return {{{f16x2_of_bytes(first, less_1040), f16x2_of_bytes(first >> 8, less_1040)},
                 {f16x2_of_bytes(second, less_1040), f16x2_of_bytes(second >> 8, less_1040)}},
                {}};
    }
    DEVICE float scale(Place block, const uint16_t *) {
        return f32_of_f16(*reinterpret_cast<const uint16_t *>(block));
    }
    DEVICE float weight(const Weights &w, int64_t block, int i) {
        const uint8_t *from = w.values + block * Q5_0Block::BYTES;
        int nibble = i < 16 ? from[6 + i] & 15 : from[6 + i - 16] >> 4;
        return scale(from, nullptr) * (float)((nibble | (from[2 + i / 8] >> i % 8 & 1) << 4) - 16);
    }
};

/* ---- super-blocks ---- */

/*
 * In a stage a group has PIECES of 16 bytes, which are source() bytes behind the super-block's
 * first: what both halves need, and what is its own.
 */
struct Super {
    enum { GROUP = GROUP_BLOCKS, SCALE_BYTES = 2, UNIT = 2 };
};

/* Where a group's parts lie, and which half of the super-block it is. */
struct Parts {
    const uint8_t *head, *high, *low;
    int half;
    uint32_t scales = 0; /* of q4k and q5k in a stage: a byte for each block */
};

struct Q4kHalf : Super {
    enum { SUPER_BYTES = Q4K_BYTES, PIECES = 5, HAS_MINIMA = 1, HAS_REST = 0, HAS_HIGH = 0 };
    enum { SHARES_WITH = 1 };

    DEVICE int source(int half, int piece) {
        return 16 * piece + (piece > 0 ? 64 * half : 0);
    }
    DEVICE Parts staged(const uint8_t *group, int half) {
        return {group, nullptr, group + 16, half};
    }
    DEVICE Parts whole(const uint8_t *block, int half) {
        return {block, nullptr, block + 16 + 64 * half, half};
    }
};

struct Q5kHalf : Super {
    enum { SUPER_BYTES = 176, PIECES = 7, HAS_MINIMA = 1, HAS_REST = 0, HAS_HIGH = 1 };
    enum { SHARES_WITH = 1 };

    DEVICE int source(int half, int piece) {
        return 16 * piece + (piece > 2 ? 64 * half : 0);
    }
    DEVICE Parts staged(const uint8_t *group, int half) {
        return {group, group + 16, group + 48, half};
    }
    DEVICE Parts whole(const uint8_t *block, int half) {
        return {block, block + 16, block + 48 + 64 * half, half};
    }
};

/* Its parts may begin up to 14 bytes behind a multiple of 16, so that they have a piece more. */
struct Q6kHalf : Super {
    enum { SUPER_BYTES = 210, PIECES = 10, HAS_MINIMA = 0, HAS_REST = 1 };
    enum { SHARES_WITH = 2 };

    DEVICE int source(int half, int piece) {
        return piece < 5   ? 16 * piece + 64 * half
               : piece < 8 ? 16 * (piece + 3) + 32 * half
                           : 16 * (piece + 4);
    }
    DEVICE Parts staged(const uint8_t *group, int half) {
        return {group + 128, group + 80, group, half};
    }
    DEVICE Parts whole(const uint8_t *block, int half) {
        return {block + 192, block + 128 + 32 * half, block + 64 * half, half};
    }
};

/* What q4k and q5k share: the head, and integers from bytes below 32. */
template <class Format> struct StagedOf5k {
    typedef Parts Place;
    DEVICE Place staged(const uint8_t *group, int half) {
        Place place = Format::staged(group, half);
        place.scales = scales_of(place);
        return place;
    }

    /* The four scales or minima of a half, a byte each. */
    DEVICE uint32_t scales_of(const Place &group) {
        uint4 head = *reinterpret_cast<const uint4 *>(group.head);
        return group.half ? (head.w & 0x0F0F0F0F) | (head.y >> 2 & 0x30303030)
                          : head.y & 0x3F3F3F3F;
    }
    DEVICE uint32_t minima_of(const Place &group) {
        uint4 head = *reinterpret_cast<const uint4 *>(group.head);
        return group.half ? (head.w >> 4 & 0x0F0F0F0F) | (head.z >> 2 & 0x30303030)
                          : head.z & 0x3F3F3F3F;
    }

    /* (1024 + q) * scale - 1024 * scale is exact; high nibbles of q4k are taken 16 times. */
    DEVICE Fragment fragment(const Place &group, int i, int t) {
        const uint32_t *low = reinterpret_cast<const uint32_t *>(group.low) + i / 2 * 8 + t;
        const bool is_times_16 = !Format::HAS_HIGH && i % 2;
        uint32_t words[2] = {low[0], low[4]};
        uint32_t mask = is_times_16 ? 0x00F000F0 : 0x000F000F;
        if (Format::HAS_HIGH) {
            const uint32_t *high = reinterpret_cast<const uint32_t *>(group.high) + t;
            mask = 0x001F001F;
#pragma unroll
            for (int half = 0; half < 2; half++) { /* the block's bits to bit 4 of bytes */
                uint32_t bits = high[4 * half];
                bits = __funnelshift_r(bits, bits, 4 * group.half + i - 4);
                words[half] = select_bits(0x0F0F0F0F, words[half] >> i % 2 * 4, bits);
            }
        }
        uint32_t scale = __byte_perm(group.scales, 0x64646464, 0x4040 | i * 0x101);
        scale = fma_f16x2(scale, is_times_16 ? 0x2C00 : 0x3C00, is_times_16 ? 0xD400 : 0xE400);
        uint32_t less = fma_f16x2(scale, 0xE400, 0);
        auto scaled = [&](uint32_t word) {
            return fma_f16x2_of(masked_or(word, mask, 0x64006400), scale, less);
        };
        return {
            {{scaled(words[0]), scaled(words[0] >> 8)}, {scaled(words[1]), scaled(words[1] >> 8)}},
            {}};
    }
    DEVICE float scale(const Place &group, const uint16_t *) {
        return f32_of_f16(*reinterpret_cast<const uint16_t *>(group.head));
    }
    DEVICE float least(const Place &group) {
        return f32_of_f16(reinterpret_cast<const uint16_t *>(group.head)[1]);
    }
    DEVICE uint2 minima(const Place &group, int t) {
        return slots_of_minima(minima_of(group), t);
    }

    DEVICE float weight(const Weights &w, int64_t block, int i) {
        const uint8_t *from = w.values + block / SUPER_BLOCKS * Format::SUPER_BYTES, *s = from + 4;
        int j = (int)(block % SUPER_BLOCKS);
        Parts group = Format::whole(from, j / 4);
        int byte = group.low[j % 4 / 2 * 32 + i], q = j % 2 ? byte >> 4 : byte & 15;
        if (Format::HAS_HIGH)
            q |= (group.high[i] >> j & 1) << 4;
        int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        int minimum = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
        const uint16_t *d = reinterpret_cast<const uint16_t *>(from);
        return fmaf(f32_of_f16(d[0]) * (float)scale, (float)q,
                    -(f32_of_f16(d[1]) * (float)minimum));
    }
};
template <> struct Staged<Q4kHalf> : StagedOf5k<Q4kHalf> {};
template <> struct Staged<Q5kHalf> : StagedOf5k<Q5kHalf> {};

/*
 * Of a row's super-block a lane has blocks 2t and 2t + 1, which are the nibbles of 32 bytes: a
 * scale and a minimum for each of them, and 16-byte loads.
 */
template <class Format> struct LaneBlocks {
    const uint8_t *row;
    float d, least;
    uint32_t minima[2];   /* all slots of a product */
    uint32_t scale, less; /* halves for low nibbles and for high ones */

    MEMBER explicit LaneBlocks(const uint8_t *row) : row(row) {
        int t = threadIdx.x % 4;
        uint4 head = *reinterpret_cast<const uint4 *>(row);
        d = f32_of_f16((uint16_t)head.x);
        least = f32_of_f16((uint16_t)(head.x >> 16));
        /* both scales and both minima, a byte each */
        uint32_t pair = t % 2 ? 0x7632 : 0x5410;
        uint32_t first = __byte_perm(head.y, head.z, pair);
        uint32_t last = __byte_perm(head.w, head.w >> 4, pair);
        uint32_t of = t < 2 ? first & 0x3F3F3F3F : (first >> 2 & 0x30303030) | (last & 0x0F0F0F0F);
#pragma unroll
        for (int i = 0; i < 2; i++)
            minima[i] = __byte_perm(__float_as_uint(f32_of_byte(of, 2 + i)), 0, 0x3232);
        /* High nibbles of q4k are taken 16 times. */
        const uint32_t by = Format::HAS_HIGH ? 0x3C003C00 : 0x2C003C00,
                       less_1024 = Format::HAS_HIGH ? 0xE400E400 : 0xD400E400;
        scale = fma_f16x2_of(__byte_perm(of, 0x64646464, 0x4140), by, less_1024);
        less = fma_f16x2(scale, 0xE400, 0);
    }

    struct Words {
        uint4 of, high;
    };
    MEMBER Words words(int part) const {
        const uint4 *from = reinterpret_cast<const uint4 *>(row) + part;
        Words words = {from[(Format::HAS_HIGH ? 3 : 1) + threadIdx.x % 4 * 2], {}};
        if (Format::HAS_HIGH)
            words.high = from[1];
        return words;
    }

    /* Of word i: four values of the first block, then of the second. */
    MEMBER Fragment fragment(const Words &words, int i) const {
        uint32_t low = word_of(words.of, i), high = low;
        if (Format::HAS_HIGH) {
            uint32_t bits = word_of(words.high, i); /* the lane's to bits 4 and 5 of bytes */
            bits = __funnelshift_l(bits, bits, 4 - threadIdx.x % 4 * 2);
            low = select_bits(0x0F0F0F0F, low, bits);
            high = select_bits(0x0F0F0F0F, high >> 4, bits >> 1);
        }
        uint32_t mask = Format::HAS_HIGH ? 0x001F001F : 0x000F000F,
                 mask_high = Format::HAS_HIGH ? 0x001F001F : 0x00F000F0;
        uint32_t scales[2] = {__byte_perm(scale, 0, 0x1010), __byte_perm(scale, 0, 0x3232)};
        uint32_t lesses[2] = {__byte_perm(less, 0, 0x1010), __byte_perm(less, 0, 0x3232)};
        return {{{fma_f16x2_of(masked_or(low, mask, 0x64006400), scales[0], lesses[0]),
                  fma_f16x2_of(masked_or(low >> 8, mask, 0x64006400), scales[0], lesses[0])},
                 {fma_f16x2_of(masked_or(high, mask_high, 0x64006400), scales[1], lesses[1]),
                  fma_f16x2_of(masked_or(high >> 8, mask_high, 0x64006400), scales[1], lesses[1])}},
                {}};
    }
    MEMBER static uint32_t word_of(const uint4 &four, int i) {
        return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
    }
};

template <> struct Staged<Q6kHalf> {
    typedef Parts Place;
    DEVICE Place staged(const uint8_t *group, int half) {
        return Q6kHalf::staged(group, half);
    }
    DEVICE Place whole(const uint8_t *block, int half) {
        return Q6kHalf::whole(block, half);
    }

    /* Scales are of 16 values: those of each half of a block. */
    DEVICE Fragment fragment(const Place &group, int i, int t) {
        const uint16_t one = 0x3C00, less_1056 = 0xE420, less_1152 = 0xE480;
        const uint8_t *low = group.low + i % 2 * 32 + 4 * t, *high = group.high + 4 * t;
        uint32_t scales = *reinterpret_cast<const uint16_t *>(group.head + 8 * group.half + 2 * i);
        Fragment of;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t bits = shared_word(high + 16 * half), q = shared_word(low + 16 * half);
            bits = i < 2 ? bits << (4 - 2 * i) : bits >> (2 * i - 4); /* to 4 and 5 of bytes */
            q = select_bits(0x0F0F0F0F, q >> i / 2 * 4, bits);
            uint32_t scale = __byte_perm(scales ^ 0x8080, 0x64646464, half ? 0x4141 : 0x4040);
            scale = fma_f16x2(scale, one, less_1152);
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                uint32_t value =
                    fma_f16x2(masked_or(q >> 8 * odd, 0x003F003F, 0x64006400), one, less_1056);
                of.of[half][odd] = fma_f16x2_of(value, scale, 0);
                of.rest[half][odd] = fma_f16x2_of(value, scale, negative_f16x2(of.of[half][odd]));
            }
        }
        return of;
    }
    DEVICE float scale(const Place &group, const uint16_t *) {
        return f32_of_f16(*reinterpret_cast<const uint16_t *>(group.head + 16));
    }

    DEVICE float weight(const Weights &w, int64_t block, int i) {
        int j = (int)(block % SUPER_BLOCKS), quarter = j % 4;
        Place group = whole(w.values + block / SUPER_BLOCKS * Q6kHalf::SUPER_BYTES, j / 4);
        int byte = group.low[quarter % 2 * 32 + i], q = quarter < 2 ? byte & 15 : byte >> 4;
        q |= (group.high[i] >> 2 * quarter & 3) << 4;
        int scale = (int8_t)group.head[8 * group.half + 2 * quarter + i / 16];
        return Staged<Q6kHalf>::scale(group, nullptr) * (float)scale * (float)(q - 32);
    }
};

#endif
