/*
 * Conversions between float, binary16 and FP8, and sums and products of FP8 tensors.
 *
 * FP8 is E4M3FN: a sign, an exponent of four bits with bias 7 and a fraction of three.  The
 * exponent 0 means fraction/8 * 2^-6, else (1 + fraction/8) * 2^(exponent - 7).  There are no
 * infinities.  NaN is 0x7F or 0xFF, the largest number is 448, the least is 2^-9, and 0x80 is -0.
 * (Source: "FP8 Formats for Deep Learning", Micikevicius et al., 2022.) Each of its numbers is
 * exact in binary16.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_CONVERT_H
#define CUSHIM_KERNELS_CONVERT_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Round float to binary16.
 * @param src     [n] on the device; a multiple of 4 bytes
 * @param dst     [n] on the device, out; a multiple of 2 bytes; must not overlap an input
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  to nearest even; 65520 and above become infinity; subnormals, infinities and NaN are
 *           kept
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_convert_f32_f16(const float *src, uint16_t *dst, int64_t n,
                                                     struct CUstream_st *stream);

/**
 * Widen binary16 to float.
 * @param src     [n] on the device; a multiple of 2 bytes
 * @param dst     [n] on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  exact, subnormals and infinities included; a NaN stays a NaN
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_convert_f16_f32(const uint16_t *src, float *dst, int64_t n,
                                                     struct CUstream_st *stream);

/**
 * Decode e4m3 with a scale: dst[i] = half(value(src[i]) * scale).
 * @param src     [n] codes on the device, at any address
 * @param dst     [n] binary16 on the device, out; a multiple of 2 bytes; must not overlap an input
 * @param scale   any float; the product follows IEEE
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  the product is rounded to float, then to binary16, both to nearest even; the result is
 *           exact to the bit.  The codes 0x7F and 0xFF give NaN
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_dequant_e4m3_f16(const uint8_t *src, uint16_t *dst,
                                                      float scale, int64_t n,
                                                      struct CUstream_st *stream);

/**
 * Add or multiply e4m3 tensors, each with a scale: c[i] = half(value(a[i]) * scale_a op value(b[i])
 * * scale_b).
 * @param a, b              [n] codes on the device, at any address
 * @param c                 [n] binary16 on the device, out; a multiple of 2 bytes; must not overlap
 *                          an input
 * @param scale_a, scale_b  any floats
 * @param n                 >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream            NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  either product, the result of op and its half are each rounded to nearest even, and
 *           nothing is contracted; the result is exact to the bit.  The codes 0x7F and 0xFF give
 *           NaN
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_add_e4m3_f16(const uint8_t *a, const uint8_t *b, uint16_t *c,
                                                  float scale_a, float scale_b, int64_t n,
                                                  struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_mul_e4m3_f16(const uint8_t *a, const uint8_t *b, uint16_t *c,
                                                  float scale_a, float scale_b, int64_t n,
                                                  struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
