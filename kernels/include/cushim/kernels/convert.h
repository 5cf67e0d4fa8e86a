/*
 * Conversions between float, binary16 and FP8, and sums and products of FP8 tensors.
 *
 * FP8 is E4M3FN: a sign, an exponent of four bits with bias 7 and a fraction of three.  The
 * exponent 0 means fraction/8 * 2^-6, else (1 + fraction/8) * 2^(exponent - 7).  There are no
 * infinities; NaN is 0x7F and 0xFF alone, the largest number 448, the least 2^-9, and 0x80 is -0.
 * (Source: "FP8 Formats for Deep Learning", Micikevicius et al., 2022.)  Binary16 holds each of its
 * numbers.
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
 * @param dst     [n] on the device, out; a multiple of 2 bytes; overlaps nothing
 * @param n       >= 0; 0: nothing is done, and the pointers may be NULL
 * @param stream  NULL: the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, a NULL or misaligned pointer) | a status of
 *         the driver; nothing was queued then
 * Accuracy  to nearest even; from 65520 up an infinity; subnormals, infinities and NaN are kept
 * Threads   any
 * Stream    queued on `stream`; the buffers live until that work ends
 */
CUSHIM_API enum cushim_status cushim_convert_f32_f16(const float *src, uint16_t *dst, int64_t n,
                                                     struct CUstream_st *stream);

/**
 * Widen binary16 to float.
 * @param src     [n] on the device; a multiple of 2 bytes
 * @param dst     [n] on the device, out; a multiple of 4 bytes; overlaps nothing
 * @param n       >= 0; 0: nothing is done, and the pointers may be NULL
 * @param stream  NULL: the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, a NULL or misaligned pointer) | a status of
 *         the driver; nothing was queued then
 * Accuracy  exact, subnormals and infinities too; a NaN stays one
 * Threads   any
 * Stream    queued on `stream`; the buffers live until that work ends
 */
CUSHIM_API enum cushim_status cushim_convert_f16_f32(const uint16_t *src, float *dst, int64_t n,
                                                     struct CUstream_st *stream);

/**
 * Decode e4m3 with a scale: dst[i] = half(value(src[i]) * scale).
 * @param src     [n] codes on the device, at any address
 * @param dst     [n] binary16 on the device, out; a multiple of 2 bytes; overlaps nothing
 * @param scale   any float; the product follows IEEE
 * @param n       >= 0; 0: nothing is done, and the pointers may be NULL
 * @param stream  NULL: the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, a NULL or misaligned pointer) | a status of
 *         the driver; nothing was queued then
 * Accuracy  the product is rounded to float, then to binary16, both to nearest even: one result,
 * bit by bit; the codes 0x7F and 0xFF give NaN Threads   any      Stream  queued on `stream`; the
 * buffers live until that work ends
 */
CUSHIM_API enum cushim_status cushim_dequant_e4m3_f16(const uint8_t *src, uint16_t *dst,
                                                      float scale, int64_t n,
                                                      struct CUstream_st *stream);

/**
 * Add or multiply e4m3 tensors, each with a scale:
 * c[i] = half(value(a[i]) * scale_a op value(b[i]) * scale_b).
 * @param a, b              [n] codes on the device, at any address
 * @param c                 [n] binary16 on the device, out; a multiple of 2 bytes; overlaps nothing
 * @param scale_a, scale_b  any floats
 * @param n                 >= 0; 0: nothing is done, and the pointers may be NULL
 * @param stream            NULL: the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, a NULL or misaligned pointer) | a status of
 *         the driver; nothing was queued then
 * Accuracy  either product, the result of op, and its half are rounded, each to nearest even,
 *           nothing is contracted: one result, bit by bit; the codes 0x7F and 0xFF give NaN
 * Threads   any
 * Stream    queued on `stream`; the buffers live until that work ends
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
