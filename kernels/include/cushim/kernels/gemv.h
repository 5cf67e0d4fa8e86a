/*
 * Products of a matrix with one or a few columns, of quantised matrices, and of many small ones.
 *
 * Matrices are row-major without gaps.  Quantised weights come in blocks of 32 values of a row, row
 * after row; cushim_dequant_q4k_f32 describes the blocks of q4k, which have 256.  Numbers are
 * little-endian.
 *
 * Accuracy is stated against sum|terms|, the sum over k of |weight * x|.  The integers of a block
 * are multiplied by x before their scale is.  So if x is beyond 2^112 a sum may overflow though the
 * result would not.  If x is so small that such a sum is subnormal, it is a multiple of 2^-149, and
 * a result may be off by (k / 32) (1 + the largest |weight|) 2^-149 more.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_GEMV_H
#define CUSHIM_KERNELS_GEMV_H

#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * How much scratch helps a product of a quantised matrix with columns, cushim_gemm_<format>_f32().
 * @param k  rows of b
 * @param n  columns of b
 * @return bytes: 4 for each value of b, its columns rounded up to a multiple of 32 or 64, and some
 *         more; 0 if none helps (as up to 8 columns) or the products refuse the sizes
 * Threads  any
 */
CUSHIM_API size_t cushim_gemm_scratch(int64_t k, int64_t n);

/**
 * Multiply a q4_0 matrix with columns: c[m][n] = w[m][k] * b[k][n].
 *
 * For each block of 32 values `scales` has the fp16 scale and `nibbles` has 16 bytes: byte j has
 * value j in its low and value j + 16 in its high nibble.  A value is (nibble - 8) * scale.
 * @param scales   [m][k / 32] on the device; a multiple of 2 bytes
 * @param nibbles  [m][k / 32][16] on the device; any address, faster at a multiple of 16
 * @param b        [k][n] on the device; a multiple of 4 bytes, faster at 16 if n is 1
 * @param c        [m][n] on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param m        >= 0
 * @param k        >= 0, a multiple of 32; if 0, c is zeros and scales, nibbles and b may be NULL
 * @param n        >= 0; if m or n is 0, nothing is done and the pointers may be NULL
 * @param scratch  on the device, a multiple of 4 bytes; its contents are lost; NULL and 0 mean none
 * @param scratch_bytes  fewer than cushim_gemm_scratch(k, n) counts as none
 * @param stream   NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, k not a multiple of 32, more bytes than can
 *         be counted, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK, nothing
 *         was queued but work on scratch
 * Accuracy  |error| <= 2^-21 sum|terms|; an infinity or NaN in b stays in its column
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    ggml's Q4_0, scales and nibbles apart
 */
CUSHIM_API enum cushim_status cushim_gemm_q4_0_f32(const uint16_t *scales, const uint8_t *nibbles,
                                                   const float *b, float *c, int64_t m, int64_t k,
                                                   int64_t n, void *scratch, size_t scratch_bytes,
                                                   struct CUstream_st *stream);

/**
 * Multiply a matrix of bytes with columns: c[m][n] = w[m][k] * b[k][n].
 *
 * A block of q8_0 has 34 bytes: an fp16 scale and 32 signed bytes.  One of q8f has 36, because its
 * scale is a float.  A value is scale * byte.
 * @param w       [m][k / 32] blocks on the device; q8_0: a multiple of 2 bytes, q8f: of 4.  Faster
 *                if every row starts at a multiple of 16
 * @param b       [k][n] on the device; a multiple of 4 bytes
 * @param c       [m][n] on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param m       >= 0
 * @param k       >= 0, a multiple of 32; if 0, c is zeros and w and b may be NULL
 * @param n       >= 0; if m or n is 0, nothing is done and the pointers may be NULL
 * @param scratch  on the device, a multiple of 4 bytes; its contents are lost; NULL and 0 mean none
 * @param scratch_bytes  fewer than cushim_gemm_scratch(k, n) counts as none
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, k not a multiple of 32, more bytes than can
 *         be counted, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK, nothing
 *         was queued but work on scratch
 * Accuracy  |error| <= 2^-21 sum|terms|; an infinity or NaN in b stays in its column
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    q8_0 is ggml's Q8_0; q8f is not ggml's Q8_1, whose blocks also have 36 bytes
 */
CUSHIM_API enum cushim_status cushim_gemm_q8_0_f32(const void *w, const float *b, float *c,
                                                   int64_t m, int64_t k, int64_t n, void *scratch,
                                                   size_t scratch_bytes,
                                                   struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_gemm_q8f_f32(const void *w, const float *b, float *c,
                                                  int64_t m, int64_t k, int64_t n, void *scratch,
                                                  size_t scratch_bytes, struct CUstream_st *stream);

/**
 * Multiply a q4k matrix with a column: y[m] = w[m][k] * x[k].
 * @param w       [m][k / 256] super-blocks on the device; a multiple of 2 bytes, faster at 16
 * @param x       [k] on the device; a multiple of 4 bytes, faster at 16
 * @param y       [m] on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param m       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param k       >= 0, a multiple of 256; if 0, y is zeros and w and x may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, k not a multiple of 256, more bytes than can
 *         be counted, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK, nothing
 *         was queued
 * Accuracy  |error| <= 2^-21 sum|terms|; scale * nibble and the minimum count as two terms
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    ggml's Q4_K; cushim_dequant_q4k_f32 describes the format
 */
CUSHIM_API enum cushim_status cushim_gemv_q4k_f32(const void *w, const float *x, float *y,
                                                  int64_t m, int64_t k, struct CUstream_st *stream);

/**
 * How much scratch the three products below need.
 * @param m  rows of w
 * @param k  columns of w
 * @return bytes; 0 if m is 0 or a size is wrong
 * Threads  any
 */
CUSHIM_API size_t cushim_gemv_q4k_scratch(int64_t m, int64_t k);

/**
 * Multiply a q4k matrix with a column and add another: y[m] = residual[m] + w[m][k] * x[k].
 * @param w         [m][k / 256] super-blocks on the device; a multiple of 2 bytes, faster at 16
 * @param x         [k] on the device; a multiple of 4 bytes, faster at 16
 * @param residual  [m] on the device; a multiple of 4 bytes
 * @param y         [m] on the device, out; a multiple of 4 bytes; may be exactly residual, else
 *                  must not overlap an input
 * @param m         >= 0; if 0, nothing is done and the pointers may be NULL
 * @param k         >= 0, a multiple of 256; if 0, w and x may be NULL
 * @param scratch   on the device, a multiple of 4 bytes; its contents are lost
 * @param scratch_bytes  at least cushim_gemv_q4k_scratch(m, k)
 * @param stream    NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, k not a multiple of 256, more bytes than can
 *         be counted, a NULL or misaligned pointer, too little scratch) | a driver status;
 *         unless CUSHIM_OK, nothing was queued but work on scratch
 * Accuracy  |error| <= 2^-21 (sum|terms| + |residual|), with the terms of cushim_gemv_q4k_f32
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status
cushim_gemv_add_q4k_f32(const void *w, const float *x, const float *residual, float *y, int64_t m,
                        int64_t k, void *scratch, size_t scratch_bytes, struct CUstream_st *stream);

/**
 * The first half of a gated layer: y[m] = silu(g) * u.  Here g and u are the two halves of w[2
 * m][k] * xn[k], xn is the RMS norm of x, x / sqrt(mean(x^2) + eps) * norm, and silu(g) is g / (1 +
 * exp(-g)).
 * @param w        [2 m][k / 256] super-blocks on the device: m rows of the gate, then m; a multiple
 *                 of 2 bytes, faster at 16
 * @param x        [k] on the device; a multiple of 4 bytes, faster at 16
 * @param norm     [k] on the device; a multiple of 4 bytes, faster at 16; if NULL, xn is x
 * @param y        [m] on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param eps      of the norm
 * @param m        >= 0; if 0, nothing is done and the pointers may be NULL
 * @param k        >= 0, a multiple of 256; if 0, y is zeros and w, x and norm may be NULL
 * @param scratch  on the device, a multiple of 4 bytes; its contents are lost
 * @param scratch_bytes  at least cushim_gemv_q4k_scratch(2 * m, k)
 * @param stream   NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, k not a multiple of 256, more bytes or rows
 *         than can be counted, a NULL or misaligned pointer, too little scratch) | a driver status;
 *         unless CUSHIM_OK, nothing was queued but work on scratch
 * Accuracy  g and u within 2^-20 sum|terms|, if x * norm and the sum of x^2 are finite floats
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_gemv_swiglu_q4k_f32(const void *w, const float *x,
                                                         const float *norm, float *y, float eps,
                                                         int64_t m, int64_t k, void *scratch,
                                                         size_t scratch_bytes,
                                                         struct CUstream_st *stream);

/**
 * The first half of attention for one token: the queries, keys and values w * xn, with xn as in
 * cushim_gemv_swiglu_q4k_f32.  Queries and keys are rotated, keys and values are put into their
 * cache.
 *
 * Rows of w are heads of head_dim: n_q_heads of queries, n_kv_heads of keys, and as many of values.
 * At position p, element a with index i < head_dim / 2 of a head becomes a cos - b sin, and its
 * partner b at i + head_dim / 2 becomes b cos + a sin.  Head h of the keys goes to position_stride
 * * p + head_stride * h of the cache, and so do the values.
 * @param w         super-blocks on the device; a multiple of 2 bytes, faster at 16
 * @param x         [k] on the device; a multiple of 4 bytes, faster at 16
 * @param norm      [k] on the device; a multiple of 4 bytes, faster at 16; if NULL, xn is x
 * @param cos_table, sin_table  [max_len][head_dim / 2] on the device; multiples of 4 bytes
 * @param position  on the device, read there; a multiple of 4 bytes.  If it is not in [0, max_len),
 *                  neither q nor the caches change
 * @param q         [n_q_heads][head_dim] on the device, out; a multiple of 4 bytes
 * @param keys, values  the caches on the device, out; multiples of 4 bytes; no output may overlap
 *                      another output or an input
 * @param eps       of the norm
 * @param n_q_heads, n_kv_heads  >= 0; if both are 0, nothing is done and the pointers may be NULL
 * @param head_dim  >= 2, even
 * @param k         >= 0, a multiple of 256; if 0, the products are zeros and w, x and norm may be
 *                  NULL
 * @param max_len   >= 0, rows of the tables and positions of the caches
 * @param position_stride, head_stride  >= 0, in elements
 * @param scratch   on the device, a multiple of 4 bytes; its contents are lost
 * @param scratch_bytes  at least cushim_gemv_q4k_scratch((n_q_heads + 2 * n_kv_heads) * head_dim,
 *                                                k)
 * @param stream    NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, an odd head_dim, k not a multiple of 256,
 *         more bytes or rows than can be counted, a NULL or misaligned pointer, too little scratch)
 *         | a driver status; unless CUSHIM_OK, nothing was queued but work on scratch
 * Accuracy  products within 2^-20 sum|terms|, if x * norm and the sum of x^2 are finite floats
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status
cushim_gemv_qkv_q4k_f32(const void *w, const float *x, const float *norm, const float *cos_table,
                        const float *sin_table, const int32_t *position, float *q, float *keys,
                        float *values, float eps, int64_t n_q_heads, int64_t n_kv_heads,
                        int64_t head_dim, int64_t k, int64_t max_len, int64_t position_stride,
                        int64_t head_stride, void *scratch, size_t scratch_bytes,
                        struct CUstream_st *stream);

/**
 * Multiply a matrix with a column: y[m] = a[m][n] * x[n].
 * @param a       [m][n] on the device; a multiple of 4 bytes, faster at 16 if n % 4 = 0
 * @param x       [n] on the device; a multiple of 4 bytes, faster at 16
 * @param y       [m] on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param m       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param n       >= 0; if 0, y is zeros and a and x may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more bytes than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  |error| <= 2^-21 sum|terms|
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_gemv_f32(const float *a, const float *x, float *y, int64_t m,
                                              int64_t n, struct CUstream_st *stream);

/**
 * Multiply a matrix of halves with a column of halves: y[m] = a[m][n] * x[n].
 * @param a       [m][n] on the device; a multiple of 2 bytes, faster at 16 if n % 8 = 0
 * @param x       [n] on the device; a multiple of 2 bytes, faster at 16
 * @param y       [m] on the device, out; a multiple of 2 bytes; must not overlap an input
 * @param m       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param n       >= 0; if 0, y is zeros and a and x may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more bytes than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  |error| <= 2^-20 sum|terms| and one step of a half, because sums are floats
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_gemv_f16(const uint16_t *a, const uint16_t *x, uint16_t *y,
                                              int64_t m, int64_t n, struct CUstream_st *stream);

/**
 * Multiply many small matrices: c_i[m][n] = a_i[m][k] * b_i[k][n] for i < batch; a_i is a + i *
 * stride_a, and so on.
 * @param a, b      on the device; multiples of 4 bytes; the matrices of one operand may overlap
 * @param c         on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param m, n, k   0 .. 64; if k is 0, c is zeros and a and b may be NULL
 * @param stride_a, stride_b  >= 0, in elements; 0 means one matrix for all
 * @param stride_c  >= m * n unless batch is at most 1; the memory between the matrices does not
 *                  change
 * @param batch     >= 0; if m, n or batch is 0, nothing is done and the pointers may be NULL
 * @param stream    NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, one above 64, a negative stride, stride_c
 *         below m * n, more bytes than can be counted, a NULL or misaligned pointer) | a driver
 *         status; unless CUSHIM_OK, nothing was queued
 * Accuracy  |error| <= 2^-21 sum|terms|
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status
cushim_gemm_batched_small_f32(const float *a, const float *b, float *c, int64_t m, int64_t n,
                              int64_t k, int64_t stride_a, int64_t stride_b, int64_t stride_c,
                              int64_t batch, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
