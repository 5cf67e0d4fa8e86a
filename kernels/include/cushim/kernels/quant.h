/*
 * Dequantisation: blocks of small integers with shared scales, as floats.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_QUANT_H
#define CUSHIM_KERNELS_QUANT_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Write the values of a q4k matrix as floats.
 *
 * A super-block has 256 values in 144 bytes, little-endian: fp16 d, fp16 dmin; s[12], eight scales
 * sc and eight minima mn of 6 bits; qs[128], nibbles.  For j < 4 sc[j] = s[j] & 63 and mn[j] =
 * s[j+4] & 63, else sc[j] = (s[j+4] & 15) | (s[j-4] >> 6) << 4 and mn[j] = (s[j+4] >> 4) | (s[j] >>
 * 6) << 4.  Group g = 0 .. 3 has qs[32g .. 32g+31]: value 64g + l is (d * sc[2g]) * low nibble -
 * dmin * mn[2g], value 64g + 32 + l is (d * sc[2g+1]) * high nibble - dmin * mn[2g+1].
 * @param w       [rows][k / 256] super-blocks on the device; a multiple of 2 bytes, faster at 16
 * @param y       [rows][k] on the device, out; a multiple of 4 bytes, faster at 16
 * @param rows    >= 0
 * @param k       >= 0, a multiple of 256; if rows or k is 0, nothing is done and the pointers may
 *                be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, k not a multiple of 256, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  exact to the bit: each product is rounded, then the difference
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    ggml's Q4_K
 */
CUSHIM_API enum cushim_status cushim_dequant_q4k_f32(const void *w, float *y, int64_t rows,
                                                     int64_t k, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
