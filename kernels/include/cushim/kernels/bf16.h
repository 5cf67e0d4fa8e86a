/*
 * Kernels of bfloat16: elementwise functions, conversions, softmax, norms, sums, a step of AdamW.
 *
 * An element is bits in a uint16_t, the upper half of a float.  Every function computes in float,
 * AdamW in double, and rounds at the store, to nearest even; subnormals are kept, and NaN comes in
 * any of its bits.  Rows of any length are read twice, without the shapes that float has for each
 * length.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_BF16_H
#define CUSHIM_KERNELS_BF16_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Add, subtract, multiply or divide element by element: c[i] = a[i] op b[i].
 * @param a, b    [n] on the device; multiples of 2 bytes
 * @param c       [n] on the device, out; may be exactly a or b
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  rounded once, as the operation itself
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_add_bf16(const uint16_t *a, const uint16_t *b, uint16_t *c,
                                              int64_t n, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_sub_bf16(const uint16_t *a, const uint16_t *b, uint16_t *c,
                                              int64_t n, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_mul_bf16(const uint16_t *a, const uint16_t *b, uint16_t *c,
                                              int64_t n, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_div_bf16(const uint16_t *a, const uint16_t *b, uint16_t *c,
                                              int64_t n, struct CUstream_st *stream);

/**
 * A function of each element: c[i] = f(a[i]), with rsqrt(x) = 1 / sqrt(x).
 * @param a       [n] on the device; a multiple of 2 bytes
 * @param c       [n] on the device, out; may be exactly a
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  1 ULP, which only a result half-way between two numbers needs
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_exp_bf16(const uint16_t *a, uint16_t *c, int64_t n,
                                              struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_log_bf16(const uint16_t *a, uint16_t *c, int64_t n,
                                              struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_sqrt_bf16(const uint16_t *a, uint16_t *c, int64_t n,
                                               struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_rsqrt_bf16(const uint16_t *a, uint16_t *c, int64_t n,
                                                struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_tanh_bf16(const uint16_t *a, uint16_t *c, int64_t n,
                                               struct CUstream_st *stream);

/**
 * Round float to bfloat16, or widen it.
 * @param src     [n] on the device; a multiple of its element
 * @param dst     [n] on the device, out; must not overlap src
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  to nearest even; widening is exact
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_convert_f32_bf16(const float *src, uint16_t *dst, int64_t n,
                                                      struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_convert_bf16_f32(const uint16_t *src, float *dst, int64_t n,
                                                      struct CUstream_st *stream);

/**
 * Take a step of AdamW on each parameter, as cushim_adamw_f32.
 * @param param   [n] of bfloat16 on the device, in and out; a multiple of 2 bytes
 * @param m       [n] on the device, in and out: the first moment; a multiple of 4 bytes
 * @param v       [n] on the device, in and out: the second moment; a multiple of 8 bytes
 * @param grad    [n] of bfloat16 on the device, in and out; becomes +0.  The four must not overlap
 * @param beta1, beta2, one_minus_beta1, one_minus_beta2, eps  of the moments; not checked
 * @param alpha   the learning rate, including the corrections of both moments
 * @param lr_wd   learning rate times weight decay
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  param and m 1 ULP of their type, v 4e-16 of its value
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_adamw_bf16(uint16_t *param, float *m, double *v,
                                                uint16_t *grad, double beta1, double beta2,
                                                double one_minus_beta1, double one_minus_beta2,
                                                double eps, double alpha, double lr_wd, int64_t n,
                                                struct CUstream_st *stream);

/**
 * Softmax of x * scale over the middle axis.
 * @param x       [outer][axis][inner] on the device; a multiple of 2 bytes
 * @param y       [outer][axis][inner] on the device, out; may be exactly x
 * @param scale   any float, as for cushim_scaled_softmax_f32
 * @param outer, axis, inner  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  1e-5 of the value, then rounded.  If a slice of x * scale has NaN or +Inf, or only
 *           -Inf, all of it is NaN
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_scaled_softmax_bf16(const uint16_t *x, uint16_t *y,
                                                         float scale, int64_t outer, int64_t axis,
                                                         int64_t inner, struct CUstream_st *stream);

/**
 * Add a residual, then RMS norm: sum = x + residual, rounded, y = rms_norm(sum).
 * @param x, residual  [rows][d] on the device; multiples of 2 bytes
 * @param w       [d] on the device; a multiple of 2 bytes
 * @param y, sum  [rows][d] on the device, out; each may be exactly x or residual, but y and sum
 *                must differ
 * @param eps     any float
 * @param rows, d >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  sum rounded once; y 1 ULP
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_add_rms_norm_bf16(const uint16_t *x, const uint16_t *residual,
                                                       const uint16_t *w, uint16_t *y,
                                                       uint16_t *sum, float eps, int64_t rows,
                                                       int64_t d, struct CUstream_st *stream);

/**
 * RMS norm, then add a residual: y = rms_norm(x) + residual.
 * @param x, residual  [rows][d] on the device; multiples of 2 bytes
 * @param w       [d] on the device; a multiple of 2 bytes
 * @param y       [rows][d] on the device, out; may be exactly x or residual
 * @param eps     any float
 * @param rows, d >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  1e-6 of each term, then rounded
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_rms_norm_add_bf16(const uint16_t *x, const uint16_t *w,
                                                       const uint16_t *residual, uint16_t *y,
                                                       float eps, int64_t rows, int64_t d,
                                                       struct CUstream_st *stream);

/**
 * RMS norm of each head of one token, then its rotation, as cushim_qk_norm_rope_f32.
 * @param x       [n_heads][head_dim] on the device; a multiple of 2 bytes
 * @param w_q, w_k  [head_dim] on the device: the weights of the first n_q_heads heads, and of the
 *                others
 * @param cosines, sines  [half_rotary] on the device
 * @param y       [n_heads][head_dim] on the device, out; may be exactly x
 * @param eps     any float
 * @param n_heads, head_dim  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param n_q_heads  0 to n_heads
 * @param half_rotary  0 to head_dim / 2
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  2^-21 of the terms, then rounded
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_qk_norm_rope_bf16(const uint16_t *x, const uint16_t *w_q,
                                                       const uint16_t *w_k, const uint16_t *cosines,
                                                       const uint16_t *sines, uint16_t *y,
                                                       float eps, int64_t n_heads, int64_t head_dim,
                                                       int64_t n_q_heads, int64_t half_rotary,
                                                       struct CUstream_st *stream);

/**
 * Sum along the middle axis, times a factor: y[o, i] = scale * sum of x[o, a, i] over a.
 * @param x       [outer][axis][inner] on the device; a multiple of 2 bytes
 * @param y       [outer][inner] on the device, out
 * @param scale   any float; 1 / axis gives the mean
 * @param outer, inner  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param axis    >= 0; if 0, y is all zeros and x may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  2^-21 of the terms, then rounded
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_sum_axis_bf16(const uint16_t *x, uint16_t *y, float scale,
                                                   int64_t outer, int64_t axis, int64_t inner,
                                                   struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
