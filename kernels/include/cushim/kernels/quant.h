/*
 * Dequantisation: blocks of small integers with shared scales, as floats; and products with them.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_QUANT_H
#define CUSHIM_KERNELS_QUANT_H

#include <stddef.h>
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
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, k not a multiple of 256, more elements than
 *         can be counted, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK,
 *         nothing was queued
 * Accuracy  exact to the bit: each product is rounded, then the difference
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    ggml's Q4_K
 */
CUSHIM_API enum cushim_status cushim_dequant_q4k_f32(const void *w, float *y, int64_t rows,
                                                     int64_t k, struct CUstream_st *stream);

/**
 * Write the values of a matrix of five or six bits as floats.
 *
 * q5_0 has blocks of 32 values in 22 bytes: fp16 d; qh[4], 32 high bits; qs[16], nibbles.  Value l
 * is d * (q - 16), whose low bits are the low nibble of qs[l], or the high one of qs[l - 16].
 *
 * q5k has super-blocks of 256 values in 176 bytes: what q4k has before its nibbles; qh[32];
 * qs[128].  Values are as in q4k, with 16 more if bit j of qh[l] is set for value 32 j + l.
 *
 * q6k has super-blocks of 256 values in 210 bytes: ql[128], qh[64], sc[16], fp16 d.  Of each 128,
 * value 32 q + l is d * sc[2q + l / 16] * (v - 32): v has the low nibble of ql[32 (q & 1) + l], or
 * the high one if q is 2 or 3, and bits 2q and 2q + 1 of qh[l].
 * @param w       [rows][k / 32 or 256] blocks on the device, at any address
 * @param y       [rows][k] on the device, out; a multiple of 4 bytes
 * @param rows    >= 0
 * @param k       >= 0, a multiple of the block's values; if rows or k is 0, nothing is done and the
 *                pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, k not such a multiple, more elements than
 *         can be counted, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK,
 *         nothing was queued
 * Accuracy  exact to the bit: each product is rounded, then the difference
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    ggml's Q5_0, Q5_K and Q6_K
 */
CUSHIM_API enum cushim_status cushim_dequant_q5_0_f32(const void *w, float *y, int64_t rows,
                                                      int64_t k, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_dequant_q5k_f32(const void *w, float *y, int64_t rows,
                                                     int64_t k, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_dequant_q6k_f32(const void *w, float *y, int64_t rows,
                                                     int64_t k, struct CUstream_st *stream);

/**
 * Multiply such a matrix with a column: y[m] = w[m][k] * x[k].
 * @param w       [m][k / 32 or 256] blocks on the device, at any address
 * @param x       [k] on the device; a multiple of 4 bytes
 * @param y       [m] on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param m       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param k       >= 0, a multiple of the block's values; if 0, y is zeros and w and x may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, k not such a multiple, more elements than
 *         can be counted, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK,
 *         nothing was queued
 * Accuracy  |error| <= 2^-20 sum|terms|; scale * q and the minimum count as two terms
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    ggml's Q5_0, Q5_K and Q6_K
 */
CUSHIM_API enum cushim_status cushim_gemv_q5_0_f32(const void *w, const float *x, float *y,
                                                   int64_t m, int64_t k,
                                                   struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_gemv_q5k_f32(const void *w, const float *x, float *y,
                                                  int64_t m, int64_t k, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_gemv_q6k_f32(const void *w, const float *x, float *y,
                                                  int64_t m, int64_t k, struct CUstream_st *stream);

/**
 * Multiply a matrix of -1, 0 and 1 with a column: y[m] = w[m][k] * x[k].
 *
 * A row has k values of two bits, the first of a byte in its lowest; rows begin with a byte.  0 is
 * -1, 1 and 3 are 0, 2 is 1.
 * @param w       [m][(k + 3) / 4] bytes on the device, at any address
 * @param x       [k] on the device; a multiple of 4 bytes
 * @param y       [m] on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param m       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param k       >= 0; if 0, y is zeros and w and x may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  |error| <= 2^-20 sum|terms|; an x whose weight is 0 does not count, whatever it is
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_gemv_ternary_f32(const void *w, const float *x, float *y,
                                                      int64_t m, int64_t k,
                                                      struct CUstream_st *stream);

/**
 * Multiply a matrix of e2m1 with a column of halves: y[m] = w[m][k] * x[k].
 *
 * A block has 16 values: a scale in binary16, and 8 bytes of codes, the first of a byte in its low
 * nibble.  The codes 0 to 7 are 0, 0.5, 1, 1.5, 2, 3, 4 and 6; 8 more is the negative.
 * @param w       [m][k / 2] bytes on the device, at any address
 * @param scales  [m][k / 16] on the device; a multiple of 2 bytes
 * @param x       [k] on the device; a multiple of 2 bytes
 * @param y       [m] on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param m       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param k       >= 0, a multiple of 16; if 0, y is zeros and w, scales and x may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, k not a multiple of 16, more elements than
 *         can be counted, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK,
 *         nothing was queued
 * Accuracy  |error| <= 2^-20 sum|terms|
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    OCP Microscaling Formats, FP4; the blocks are NVFP4's with scales of binary16
 */
CUSHIM_API enum cushim_status cushim_gemv_e2m1_f16_f32(const void *w, const uint16_t *scales,
                                                       const uint16_t *x, float *y, int64_t m,
                                                       int64_t k, struct CUstream_st *stream);

/**
 * Multiply a q4k, q5_0, q5k or q6k matrix with columns: c[m][n] = w[m][k] * b[k][n].
 * @param w       [m][k / 32 or 256] blocks on the device, at any address, of q4k a multiple of 2
 *                bytes; faster at a multiple of 2, and fastest if every row starts at one of 16
 * @param b       [k][n] on the device; a multiple of 4 bytes
 * @param c       [m][n] on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param m       >= 0
 * @param k       >= 0, a multiple of the block's values; if 0, c is zeros and w and b may be NULL
 * @param n       >= 0; if m or n is 0, nothing is done and the pointers may be NULL; if it is 1
 *                the call is that of the product with a column
 * @param scratch  on the device, a multiple of 4 bytes; its contents are lost; NULL and 0 mean none
 * @param scratch_bytes  fewer than cushim_gemm_scratch(k, n) counts as none
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, k not such a multiple, more elements than
 *         can be counted, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK,
 *         nothing was queued but work on scratch
 * Accuracy  |error| <= 2^-20 sum|terms|; scale * q and the minimum count as two terms; an infinity
 *           or NaN in b stays in its column
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    ggml's Q4_K, Q5_0, Q5_K and Q6_K
 */
CUSHIM_API enum cushim_status cushim_gemm_q4k_f32(const void *w, const float *b, float *c,
                                                  int64_t m, int64_t k, int64_t n, void *scratch,
                                                  size_t scratch_bytes, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_gemm_q5_0_f32(const void *w, const float *b, float *c,
                                                   int64_t m, int64_t k, int64_t n, void *scratch,
                                                   size_t scratch_bytes,
                                                   struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_gemm_q5k_f32(const void *w, const float *b, float *c,
                                                  int64_t m, int64_t k, int64_t n, void *scratch,
                                                  size_t scratch_bytes, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_gemm_q6k_f32(const void *w, const float *b, float *c,
                                                  int64_t m, int64_t k, int64_t n, void *scratch,
                                                  size_t scratch_bytes, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
