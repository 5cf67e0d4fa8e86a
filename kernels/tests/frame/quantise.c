/*
 * The functions of kernels/tests/frame/quantise.h, by the formats' own rules; nothing here is fast.
 */
#include "kernels/tests/frame/quantise.h"

#include <math.h>
#include <string.h>

#include "kernels/tests/frame/case.h"

static uint16_t half_of(double value) {
    uint16_t bits;
    value_set(TYPE_F16, &bits, 0, value);
    return bits;
}

static double of_half(uint16_t bits) {
    return value_of(TYPE_F16, &bits, 0);
}

/* The value with the largest magnitude, the first of equals. */
static float extreme(const float *values, int n) {
    float most = 0;
    for (int i = 0; i < n; i++) {
        if (fabsf(values[i]) > fabsf(most))
            most = values[i];
    }
    return most;
}

void quantise_q4_0(const float *values, uint16_t *scale, uint8_t *nibbles) {
    float d = extreme(values, Q_VALUES) / -8, inverse = d != 0 ? 1 / d : 0;
    int q[Q_VALUES];
    for (int i = 0; i < Q_VALUES; i++) {
        q[i] = (int)(values[i] * inverse + 8.5f);
        q[i] = q[i] > 15 ? 15 : q[i];
    }
    *scale = half_of(d);
    for (int i = 0; i < Q_VALUES / 2; i++)
        nibbles[i] = (uint8_t)(q[i] | q[i + Q_VALUES / 2] << 4);
}

static float to_bytes(const float *values, uint8_t *bytes) {
    float d = fabsf(extreme(values, Q_VALUES)) / 127, inverse = d != 0 ? 1 / d : 0;
    for (int i = 0; i < Q_VALUES; i++)
        bytes[i] = (uint8_t)(int)roundf(values[i] * inverse);
    return d;
}

void quantise_q8_0(const float *values, uint8_t *block) {
    uint16_t scale = half_of(to_bytes(values, block + 2));
    memcpy(block, &scale, sizeof scale);
}

void quantise_q8f(const float *values, uint8_t *block) {
    float scale = to_bytes(values, block + 4);
    memcpy(block, &scale, sizeof scale);
}

void pack_q4k(const uint8_t scales[8], const uint8_t minima[8], uint8_t packed[12]) {
    for (int j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(scales[j] | scales[j + 4] >> 4 << 6);
        packed[j + 4] = (uint8_t)(minima[j] | minima[j + 4] >> 4 << 6);
        packed[j + 8] = (uint8_t)((scales[j + 4] & 15) | (minima[j + 4] & 15) << 4);
    }
}

static uint8_t six_bits(double value) {
    return (uint8_t)fmin(63, fmax(0, round(value)));
}

void quantise_q4k(const float *values, uint8_t *block) {
    double steps[8], depths[8], d = 0, dmin = 0;
    uint8_t scales[8], minima[8];
    for (int j = 0; j < 8; j++) {
        double least = 0, most = 0;
        for (int i = 0; i < 32; i++) {
            least = fmin(least, values[32 * j + i]);
            most = fmax(most, values[32 * j + i]);
        }
        steps[j] = (most - least) / 15;
        depths[j] = -least;
        d = fmax(d, steps[j] / 63);
        dmin = fmax(dmin, depths[j] / 63);
    }
    uint16_t halves[2] = {half_of(d), half_of(dmin)};
    memset(block, 0, Q4K_BYTES);
    memcpy(block, halves, sizeof halves);
    d = of_half(halves[0]);
    dmin = of_half(halves[1]);
    for (int j = 0; j < 8; j++) {
        scales[j] = d > 0 ? six_bits(steps[j] / d) : 0;
        minima[j] = dmin > 0 ? six_bits(depths[j] / dmin) : 0;
        double step = d * scales[j];
        for (int i = 0; i < 32; i++) {
            double q = step > 0 ? round((values[32 * j + i] + dmin * minima[j]) / step) : 0;
            int nibble = (int)fmin(15, fmax(0, q));
            block[16 + 32 * (j / 2) + i] |= (uint8_t)(nibble << 4 * (j % 2));
        }
    }
    pack_q4k(scales, minima, block + 4);
}

double weight_q4_0(const uint16_t *scales, const uint8_t *nibbles, int64_t i) {
    int64_t block = i / Q_VALUES;
    int at = (int)(i % Q_VALUES), byte = nibbles[16 * block + at % 16];
    return of_half(scales[block]) * ((at < 16 ? byte & 15 : byte >> 4) - 8);
}

double weight_q8_0(const uint8_t *blocks, int64_t i) {
    const uint8_t *block = blocks + i / Q_VALUES * Q8_0_BYTES;
    uint16_t scale;
    memcpy(&scale, block, sizeof scale);
    return of_half(scale) * (int8_t)block[2 + i % Q_VALUES];
}

double weight_q8f(const uint8_t *blocks, int64_t i) {
    const uint8_t *block = blocks + i / Q_VALUES * Q8F_BYTES;
    float scale;
    memcpy(&scale, block, sizeof scale);
    return (double)scale * (int8_t)block[4 + i % Q_VALUES];
}
