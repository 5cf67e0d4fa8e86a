/*
 * Quantisers for the tests' weights, and the weights as numbers.
 *
 * A block is made of 32 floats (q4k: 256), by the rules of the formats' source: the scale from the
 * largest magnitude, rounded as the format stores it, then each value to the nearest integer.
 */
#ifndef CUSHIM_KERNELS_TESTS_QUANTISE_H
#define CUSHIM_KERNELS_TESTS_QUANTISE_H

#include <stdint.h>

enum { Q_VALUES = 32, Q4_0_BYTES = 16, Q8_0_BYTES = 34, Q8F_BYTES = 36 };
enum { Q4K_VALUES = 256, Q4K_BYTES = 144 };

void quantise_q4_0(const float *values, uint16_t *scale, uint8_t *nibbles);
void quantise_q8_0(const float *values, uint8_t *block);
void quantise_q8f(const float *values, uint8_t *block);
void quantise_q4k(const float *values, uint8_t *block);

/* Pack eight scales and eight minima of 6 bits into the twelve bytes of a super-block. */
void pack_q4k(const uint8_t scales[8], const uint8_t minima[8], uint8_t packed[12]);

/* Value i of a matrix. */
double weight_q4_0(const uint16_t *scales, const uint8_t *nibbles, int64_t i);
double weight_q8_0(const uint8_t *blocks, int64_t i);
double weight_q8f(const uint8_t *blocks, int64_t i);

#endif
