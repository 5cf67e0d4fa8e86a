/*
 * Dequantising, and products of two bits.
 *
 * q4k: half a super-block per warp.
 *
 * Moves 0.5625 bytes in and 4 bytes out per value, so stores are the limit; those of a warp are 512
 * bytes without a gap.  Many small blocks in the order of memory were faster than fewer that stay
 * and load ahead, and than more work per warp.  Lane i has values 4 i .. 4 i + 3 of the half.
 * Every operation is rounded separately, as in the reference.
 */
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/math/q4k.cuh"
#include "kernels/device/quant_values.cuh"
#include "kernels/device/vector.cuh"

namespace {

/* The head and a lane's word of nibbles. */
struct Part {
    uint4 head;
    uint32_t nibbles;
};

/* A word of bytes at any multiple of 2. */
DEVICE uint32_t load_word_by_halves(const uint8_t *from) {
    const uint16_t *halves = reinterpret_cast<const uint16_t *>(from);
    return halves[0] | (uint32_t)halves[1] << 16;
}

template <bool IS_WIDE> DEVICE Part load_part(const uint8_t *block, int word) {
    const uint8_t *nibbles = block + Q4K_HEAD_BYTES + 4 * word;
    Part part;
    if (IS_WIDE) {
        part.head = *reinterpret_cast<const uint4 *>(block);
        part.nibbles = *reinterpret_cast<const uint32_t *>(nibbles);
    } else {
        part.head = make_uint4(load_word_by_halves(block), load_word_by_halves(block + 4),
                               load_word_by_halves(block + 8), load_word_by_halves(block + 12));
        part.nibbles = load_word_by_halves(nibbles);
    }
    return part;
}

DEVICE float value_of(Q4kScale scale, uint32_t nibble) {
    return __fsub_rn(__fmul_rn(scale.scale, (float)nibble), scale.minimum);
}

/* Of n_halves of super-blocks. */
template <bool IS_WIDE> DEVICE void dequant_q4k(const uint8_t *w, float *y, int64_t n_halves) {
    int64_t i = thread_of_grid() / 32;
    int lane = threadIdx.x % 32, half = (int)(i & 1), j = lane / 8;
    wait_for_earlier();
    let_next_start();
    if (i >= n_halves)
        return;
    Part part = load_part<IS_WIDE>(w + i / 2 * Q4K_BYTES, 16 * half + j / 2 * 8 + lane % 8);
    Q4kScale scale = q4k_scale(part.head, j + 4 * half);
    uint32_t nibbles = j & 1 ? part.nibbles >> 4 : part.nibbles;
    float4 values =
        make_float4(value_of(scale, nibbles & 15), value_of(scale, nibbles >> 8 & 15),
                    value_of(scale, nibbles >> 16 & 15), value_of(scale, nibbles >> 24 & 15));
    float *to = y + i * (Q4K_VALUES / 2) + 4 * lane;
    if (IS_WIDE) {
        store_streamed(reinterpret_cast<float4 *>(to), values);
    } else {
        to[0] = values.x;
        to[1] = values.y;
        to[2] = values.z;
        to[3] = values.w;
    }
}

/* Of the other formats, n values. */
template <class Format> DEVICE void dequant(const struct quant_parts &parts, float *y, int64_t n) {
    int64_t at = thread_of_grid() * AT_ONCE;
    wait_for_earlier();
    let_next_start();
    if (at >= n)
        return;
    Values values = Format::read(parts, at / Format::BLOCK, (int)(at % Format::BLOCK));
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        y[at + i] = __fsub_rn(__fmul_rn(values.scale, values.q[i]), values.minimum);
}

/* y[m] = w[m][k] * x[k] of values of two bits, less 1; 3 is 0.  A lane has a byte of each 32. */
DEVICE void gemv_ternary(const uint8_t *w, const float *x, float *y, int64_t m, int64_t k) {
    int64_t row = thread_of_grid() / WARP_LANES, n_bytes = (k + 3) / 4;
    int lane = (int)threadIdx.x % WARP_LANES;
    double total = 0;
    wait_for_earlier();
    let_next_start();
    if (row >= m)
        return;
    for (int64_t at = lane; at < n_bytes; at += WARP_LANES) {
        int byte = w[row * n_bytes + at], n = (int)(k - 4 * at < 4 ? k - 4 * at : 4);
        float sum = 0;
        for (int i = 0; i < n; i++) {
            int q = byte >> 2 * i & 3;
            if (q % 2 == 0)
                sum += q ? x[4 * at + i] : -x[4 * at + i];
        }
        total += sum;
    }
    float result = sum_of_lanes<WARP_LANES>((float)total);
    if (lane == 0)
        y[row] = result;
}

/*
 * The same for codes of e2m1 and halves.  The bits of a code are those of a half times 2^-14, so
 * the scale makes up for it.
 */
DEVICE void gemv_e2m1(const uint8_t *w, const uint16_t *scales, const uint16_t *x, float *y,
                      int64_t m, int64_t k) {
    int64_t row = thread_of_grid() / WARP_LANES;
    int lane = (int)threadIdx.x % WARP_LANES;
    double total = 0;
    wait_for_earlier();
    let_next_start();
    if (row >= m)
        return;
    for (int64_t at = lane * AT_ONCE; at < k; at += WARP_LANES * AT_ONCE) {
        int64_t first = row * k + at;
        float dot = 0;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int code = w[(first + i) / 2] >> 4 * (i % 2);
            float value = f32_of_f16((uint16_t)((code & 7) << 9 | (code & 8) << 12));
            dot = fmaf(value, f32_of_f16(x[at + i]), dot);
        }
        total += f32_of_f16(scales[first / 16]) * 0x1p14f * dot;
    }
    float result = sum_of_lanes<WARP_LANES>((float)total);
    if (lane == 0)
        y[row] = result;
}

} // namespace

KERNEL_OF(256, 4, quant_dequant_q4k_f32)
(const uint8_t *w, float *y, int64_t n_halves) {
    dequant_q4k<false>(w, y, n_halves);
}

KERNEL_OF(256, 4, quant_dequant_q4k_f32_wide)
(const uint8_t *w, float *y, int64_t n_halves) {
    dequant_q4k<true>(w, y, n_halves);
}

#define DEQUANT(name, Format)                                                                      \
    KERNEL(quant_dequant_##name##_f32)                                                             \
    (const struct quant_parts parts, float *y, int64_t n) {                                        \
        dequant<Format>(parts, y, n);                                                              \
    }

DEQUANT(q5_0, Q5_0)
DEQUANT(q5k, Q5K)
DEQUANT(q6k, Q6K)

KERNEL(quant_gemv_ternary_f32)
(const uint8_t *w, const float *x, float *y, int64_t m, int64_t k) {
    gemv_ternary(w, x, y, m, k);
}

KERNEL(quant_gemv_e2m1_f16_f32)
(const uint8_t *w, const uint16_t *scales, const uint16_t *x, float *y, int64_t m, int64_t k) {
    gemv_e2m1(w, scales, x, y, m, k);
}
