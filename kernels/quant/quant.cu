/*
 * Dequantising q4k: two super-blocks a warp, both in flight.
 *
 * Moves 0.5625 bytes in and 4 bytes out a value, so stores bound it: each of a warp's two stores of
 * a super-block is 512 bytes without a gap.  Lane i has values 4 i .. 4 i + 3 of each half of a
 * super-block.  Every operation is rounded by itself, as the reference's.
 */
#include "kernels/device/device.cuh"
#include "kernels/device/math/q4k.cuh"
#include "kernels/device/vector.cuh"

namespace {

/* The head and a lane's two words of nibbles. */
struct Part {
    uint4 head;
    uint32_t nibbles[2];
};

/* Bytes of words at any multiple of 2. */
DEVICE uint32_t load_word_by_halves(const uint8_t *from) {
    const uint16_t *halves = reinterpret_cast<const uint16_t *>(from);
    return halves[0] | (uint32_t)halves[1] << 16;
}

template <bool IS_WIDE> DEVICE Part load_part(const uint8_t *block, int word) {
    const uint8_t *nibbles = block + Q4K_HEAD_BYTES + 4 * word;
    Part part;
    if (IS_WIDE) {
        part.head = __ldg(reinterpret_cast<const uint4 *>(block));
        part.nibbles[0] = __ldg(reinterpret_cast<const uint32_t *>(nibbles));
        part.nibbles[1] = __ldg(reinterpret_cast<const uint32_t *>(nibbles + 64));
    } else {
        part.head = make_uint4(load_word_by_halves(block), load_word_by_halves(block + 4),
                               load_word_by_halves(block + 8), load_word_by_halves(block + 12));
        part.nibbles[0] = load_word_by_halves(nibbles);
        part.nibbles[1] = load_word_by_halves(nibbles + 64);
    }
    return part;
}

DEVICE float value_of(Q4kScale scale, uint32_t nibble) {
    return __fsub_rn(__fmul_rn(scale.scale, (float)nibble), scale.minimum);
}

template <bool IS_WIDE> DEVICE void store_part(float *y, const Part &part, int lane) {
    int j = lane / 8, shift = j & 1 ? 4 : 0;
    for (int half = 0; half < 2; half++) {
        Q4kScale scale = q4k_scale(part.head, j + 4 * half);
        uint32_t nibbles = part.nibbles[half] >> shift;
        float4 values =
            make_float4(value_of(scale, nibbles & 15), value_of(scale, nibbles >> 8 & 15),
                        value_of(scale, nibbles >> 16 & 15), value_of(scale, nibbles >> 24 & 15));
        float *to = y + 128 * half + 4 * lane;
        if (IS_WIDE) {
            store_streamed(reinterpret_cast<float4 *>(to), values);
        } else {
            to[0] = values.x;
            to[1] = values.y;
            to[2] = values.z;
            to[3] = values.w;
        }
    }
}

template <bool IS_WIDE> DEVICE void dequant_q4k(const uint8_t *w, float *y, int64_t n_blocks) {
    int lane = threadIdx.x % 32, word = lane / 16 * 8 + lane % 8;
    int64_t i = thread_of_grid() / 32 * 2;
    w += i * Q4K_BYTES;
    y += i * Q4K_VALUES;
    if (i + 1 < n_blocks) {
        Part first = load_part<IS_WIDE>(w, word);
        Part second = load_part<IS_WIDE>(w + Q4K_BYTES, word);
        store_part<IS_WIDE>(y, first, lane);
        store_part<IS_WIDE>(y + Q4K_VALUES, second, lane);
    } else if (i < n_blocks) {
        store_part<IS_WIDE>(y, load_part<IS_WIDE>(w, word), lane);
    }
}

} // namespace

KERNEL(quant_dequant_q4k_f32)(const uint8_t *w, float *y, int64_t n_blocks) {
    dequant_q4k<false>(w, y, n_blocks);
}

KERNEL(quant_dequant_q4k_f32_wide)(const uint8_t *w, float *y, int64_t n_blocks) {
    dequant_q4k<true>(w, y, n_blocks);
}
