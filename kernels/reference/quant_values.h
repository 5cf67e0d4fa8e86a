/* Values of every quantised format, as the references of quant and gemv read them. */
#ifndef CUSHIM_KERNELS_QUANT_VALUES_H
#define CUSHIM_KERNELS_QUANT_VALUES_H

#include <string.h>

#include "kernels/reference/half.h"
#include "kernels/shared/quant_parts.h"

/* A value is scale * q - minimum. */
struct quant_value {
    float scale, minimum;
    int q;
};

static inline float quant_f16_at(const uint8_t *from) {
    return cushim_f32_of_f16((uint16_t)(from[0] | from[1] << 8));
}

static inline struct quant_value quant_q4_0_at(const struct quant_parts *parts, int64_t n) {
    int64_t block = n / 32;
    int i = (int)(n % 32), byte = parts->low[block * parts->low_step + i % 16];
    return (struct quant_value){quant_f16_at(parts->head + block * parts->head_step), 0,
                                (i < 16 ? byte & 15 : byte >> 4) - 8};
}

/* Signed bytes behind a scale of 2 or 4 bytes. */
static inline struct quant_value quant_q8_at(const struct quant_parts *parts, int64_t n,
                                             int scale_bytes) {
    const uint8_t *block = parts->low + n / 32 * parts->low_step;
    float scale;
    memcpy(&scale, block, sizeof scale);
    return (struct quant_value){scale_bytes == 2 ? quant_f16_at(block) : scale, 0,
                                (int8_t)block[scale_bytes + n % 32]};
}

static inline struct quant_value quant_q5_0_at(const struct quant_parts *parts, int64_t n) {
    int64_t block = n / 32;
    int i = (int)(n % 32);
    const uint8_t *high = parts->high + block * parts->high_step;
    int byte = parts->low[block * parts->low_step + i % 16];
    int q = (i < 16 ? byte & 15 : byte >> 4) + 16 * (high[i / 8] >> i % 8 & 1);
    return (struct quant_value){quant_f16_at(parts->head + block * parts->head_step), 0, q - 16};
}

static inline struct quant_value quant_q4k_at(const struct quant_parts *parts, int64_t n) {
    int64_t block = n / 256;
    int i = (int)(n % 256), j = i / 32, scale, minimum;
    const uint8_t *head = parts->head + block * parts->head_step, *s = head + 4;
    if (j < 4) {
        scale = s[j] & 63;
        minimum = s[j + 4] & 63;
    } else {
        scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        minimum = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    }
    int byte = parts->low[block * parts->low_step + 32 * (i / 64) + i % 32];
    return (struct quant_value){quant_f16_at(head) * (float)scale,
                                quant_f16_at(head + 2) * (float)minimum,
                                j % 2 ? byte >> 4 : byte & 15};
}

static inline struct quant_value quant_q5k_at(const struct quant_parts *parts, int64_t n) {
    int64_t block = n / 256;
    int i = (int)(n % 256);
    struct quant_value value = quant_q4k_at(parts, n);
    value.q += 16 * (parts->high[block * parts->high_step + i % 32] >> i / 32 & 1);
    return value;
}

static inline struct quant_value quant_q6k_at(const struct quant_parts *parts, int64_t n) {
    int64_t block = n / 256;
    int i = (int)(n % 256), half = i / 128, quarter = i % 128 / 32, l = i % 32;
    const uint8_t *head = parts->head + block * parts->head_step;
    int byte = parts->low[block * parts->low_step + 64 * half + 32 * (quarter % 2) + l];
    int high = parts->high[block * parts->high_step + 32 * half + l] >> 2 * quarter & 3;
    int scale = head[i / 16] < 128 ? head[i / 16] : head[i / 16] - 256;
    return (struct quant_value){quant_f16_at(head + 16) * (float)scale, 0,
                                (quarter < 2 ? byte & 15 : byte >> 4) + 16 * high - 32};
}

static inline struct quant_value quant_value_at(const struct quant_parts *parts,
                                                enum quant_format format, int64_t n) {
    switch (format) {
    case QUANT_Q4_0:
        return quant_q4_0_at(parts, n);
    case QUANT_Q8_0:
        return quant_q8_at(parts, n, 2);
    case QUANT_Q8F:
        return quant_q8_at(parts, n, 4);
    case QUANT_Q5_0:
        return quant_q5_0_at(parts, n);
    case QUANT_Q5K:
        return quant_q5k_at(parts, n);
    case QUANT_Q6K:
        return quant_q6k_at(parts, n);
    default:
        return quant_q4k_at(parts, n);
    }
}

#endif
