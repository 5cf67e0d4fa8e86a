/*
 * The formats of quantised weights, blocks of 32 values: how a lane loads one, and how its integers
 * become floats or binary16, exactly.
 *
 * Every conversion puts an integer into the low bits of a power of two's fraction, and subtracts
 * that power.  This has full rate, because it needs no instruction from integer to float.
 */
#ifndef CUSHIM_KERNELS_GEMV_FORMATS_CUH
#define CUSHIM_KERNELS_GEMV_FORMATS_CUH

#include "kernels/device/math/bits.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/math/half.cuh"
#include "kernels/device/vector.cuh"

/* A member function for the device. */
#define MEMBER __device__ __forceinline__

enum { BLOCK_VALUES = 32 };

/* The place of a matrix of weights; only q4_0 has separate scales. */
struct Weights {
    const uint8_t *scales, *values;
};

/* ---- integers to floats ---- */

/* The nibble at a position 0 .. 7 of a word, less OFFSET. */
template <int OFFSET> DEVICE float f32_of_nibble(uint32_t word, int position) {
    /* Five nibbles fit below the exponent; 2^23 + nibble * 16^position is exact, and so is this. */
    const float unit[5] = {1.0f, 0x1p-4f, 0x1p-8f, 0x1p-12f, 0x1p-16f};
    int at = position < 5 ? position : position - 3;
    uint32_t bits = position < 5 ? word : word >> 12;
    float value = __uint_as_float(masked_or(bits, 0xFu << 4 * at, 0x4B000000));
    return __fmaf_rn(value, unit[at], -(0x1p23f * unit[at] + OFFSET));
}

/* The signed byte at a position 0 .. 3 of a word in which each byte's top bit is flipped. */
DEVICE float f32_of_flipped_byte(uint32_t flipped, int position) {
    return __uint_as_float(__byte_perm(flipped, 0x4B000000, 0x7440 | position)) - (0x1p23f + 128);
}

/* ---- the formats ---- */

/* A block with its own scale, whose integers are exact in binary16. */
struct Single {
    enum { GROUP = 1, HAS_MINIMA = 0, HAS_REST = 0 };
};

/* An fp16 scale and 32 nibbles, less 8; byte j has values j and j + 16. */
struct Q4_0 : Single {
    enum { WORDS = 4, BYTES = 16, IS_STAGED = 0, SCALE_BYTES = 0, UNIT = 1 };

    struct Block {
        uint32_t words[WORDS];
        float scale;
    };

    template <bool IS_WIDE> DEVICE Block load(const Weights &w, int64_t i) {
        Block block;
        block.scale = f32_of_f16(__ldg(reinterpret_cast<const uint16_t *>(w.scales) + i));
        const uint8_t *from = w.values + i * BYTES;
        if (IS_WIDE) {
            uint4 words = load_streamed(reinterpret_cast<const uint4 *>(from));
            block.words[0] = words.x;
            block.words[1] = words.y;
            block.words[2] = words.z;
            block.words[3] = words.w;
        } else {
#pragma unroll
            for (int word = 0; word < WORDS; word++)
                block.words[word] = from[4 * word] | from[4 * word + 1] << 8 |
                                    from[4 * word + 2] << 16 | (uint32_t)from[4 * word + 3] << 24;
        }
        return block;
    }

    /* Values 4 i .. 4 i + 3 as floats. */
    DEVICE float4 four(const Block &block, int i) {
        uint32_t word = block.words[i % 4];
        int high = i / 4;
        return make_float4(f32_of_nibble<8>(word, high), f32_of_nibble<8>(word, 2 + high),
                           f32_of_nibble<8>(word, 4 + high), f32_of_nibble<8>(word, 6 + high));
    }
};

/* The two formats of bytes share this: 32 signed ones in words whose top bits are flipped. */
struct Bytes : Single {
    enum { WORDS = 8, IS_STAGED = 1 };

    struct Block {
        uint32_t words[WORDS];
        float scale;
    };

    DEVICE float4 four(const Block &block, int i) {
        uint32_t flipped = block.words[i] ^ 0x80808080;
        return make_float4(f32_of_flipped_byte(flipped, 0), f32_of_flipped_byte(flipped, 1),
                           f32_of_flipped_byte(flipped, 2), f32_of_flipped_byte(flipped, 3));
    }
};

/* ggml's: an fp16 scale, then the bytes, 34 in all. */
struct Q8_0 : Bytes {
    enum { BYTES = 34, SCALE_BYTES = 2, UNIT = 2 };

    template <bool IS_WIDE> DEVICE Block load(const Weights &w, int64_t i) {
        const uint16_t *from = reinterpret_cast<const uint16_t *>(w.values + i * BYTES);
        Block block;
        block.scale = f32_of_f16(__ldg(from));
#pragma unroll
        for (int word = 0; word < WORDS; word++)
            block.words[word] = __ldg(from + 1 + 2 * word) | (uint32_t)__ldg(from + 2 + 2 * word)
                                                                 << 16;
        return block;
    }

    /* From shared memory: block i after a multiple of 4 bytes, read by aligned words. */
    DEVICE Block unpack(const uint32_t *from, int i) {
        const uint32_t *at = from + i * BYTES / 4;
        /* Selects the bytes after the scale in a pair of words.  A condition would make the
         * compiler split all that follows into two branches, one for odd lanes. */
        uint32_t is_odd = (uint32_t)i & 1, selector = 0x5432 + is_odd * 0x2222;
        Block block;
        uint32_t low = at[0];
        block.scale = f32_of_f16((uint16_t)(low >> 16 * is_odd));
#pragma unroll
        for (int word = 0; word < WORDS; word++) {
            uint32_t high = at[word + 1];
            block.words[word] = __byte_perm(low, high, selector);
            low = high;
        }
        return block;
    }
};

/* An fp32 scale, then the bytes, 36 in all. */
struct Q8f : Bytes {
    enum { BYTES = 36, SCALE_BYTES = 4, UNIT = 4 };

    template <bool IS_WIDE> DEVICE Block load(const Weights &w, int64_t i) {
        const uint32_t *from = reinterpret_cast<const uint32_t *>(w.values + i * BYTES);
        Block block;
        block.scale = __uint_as_float(__ldg(from));
#pragma unroll
        for (int word = 0; word < WORDS; word++)
            block.words[word] = __ldg(from + 1 + word);
        return block;
    }

    DEVICE Block unpack(const uint32_t *from, int i) {
        const uint32_t *at = from + i * BYTES / 4;
        Block block;
        block.scale = __uint_as_float(at[0]);
#pragma unroll
        for (int word = 0; word < WORDS; word++)
            block.words[word] = at[word + 1];
        return block;
    }
};

#endif
