/*
 * Elementwise kernels: an output element depends on the same element of each input.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_ELEMENTWISE_H
#define CUSHIM_KERNELS_ELEMENTWISE_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Add, subtract, multiply or divide element by element: c[i] = a[i] op b[i].
 * @param a, b    [n] on the device; multiples of 4 bytes
 * @param c       [n] on the device, out; may be exactly a or b
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  IEEE, rounded to nearest even; subnormals are kept, x / 0 is an infinity
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_add_f32(const float *a, const float *b, float *c, int64_t n,
                                             struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_sub_f32(const float *a, const float *b, float *c, int64_t n,
                                             struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_mul_f32(const float *a, const float *b, float *c, int64_t n,
                                             struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_div_f32(const float *a, const float *b, float *c, int64_t n,
                                             struct CUstream_st *stream);

/**
 * Raise each element to a power: c[i] = a[i]^b[i].
 * @param a, b    [n] on the device; multiples of 4 bytes
 * @param c       [n] on the device, out; may be exactly a or b
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  5 ULP.  The special cases are IEEE 754's pow: x^0 and 1^y are 1, even of NaN; a finite
 *           negative base with an exponent that is no integer gives NaN
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_pow_f32(const float *a, const float *b, float *c, int64_t n,
                                             struct CUstream_st *stream);

/**
 * Add, subtract, multiply or divide with one number: c[i] = a[i] op s.
 * @param a       [n] on the device; a multiple of 4 bytes
 * @param c       [n] on the device, out; may be exactly a
 * @param s       any float
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  IEEE, rounded to nearest even; subnormals are kept, x / 0 is an infinity
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_add_scalar_f32(const float *a, float *c, float s, int64_t n,
                                                    struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_sub_scalar_f32(const float *a, float *c, float s, int64_t n,
                                                    struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_mul_scalar_f32(const float *a, float *c, float s, int64_t n,
                                                    struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_div_scalar_f32(const float *a, float *c, float s, int64_t n,
                                                    struct CUstream_st *stream);

/**
 * Raise to one power: c[i] = a[i]^s.
 * @param a       [n] on the device; a multiple of 4 bytes
 * @param c       [n] on the device, out; may be exactly a
 * @param s       any float; 2, 3, +-1 and +-0.5 are faster
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  5 ULP; s = 1 and s = 2 are rounded to nearest even.  The special cases are IEEE 754's
 *           pow for every s: (-2)^3 is -8, and (-0)^0.5 is +0
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_pow_scalar_f32(const float *a, float *c, float s, int64_t n,
                                                    struct CUstream_st *stream);

/**
 * A function of each element: c[i] = f(a[i]), with rsqrt(x) = 1 / sqrt(x).
 * @param a       [n] on the device; a multiple of 4 bytes
 * @param c       [n] on the device, out; may be exactly a
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  sqrt rounded to nearest even; log 1 ULP; the others 2 ULP, at any magnitude. log(+-0)
 *           is -Inf, rsqrt(+-0) +-Inf, sin and cos of an infinity NaN, tanh(+-Inf) +-1
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_exp_f32(const float *a, float *c, int64_t n,
                                             struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_log_f32(const float *a, float *c, int64_t n,
                                             struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_sqrt_f32(const float *a, float *c, int64_t n,
                                              struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_rsqrt_f32(const float *a, float *c, int64_t n,
                                               struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_sin_f32(const float *a, float *c, int64_t n,
                                             struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_cos_f32(const float *a, float *c, int64_t n,
                                             struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_tanh_f32(const float *a, float *c, int64_t n,
                                              struct CUstream_st *stream);

/**
 * Set every element: dst[i] = value.
 * @param dst     [n] on the device, out; a multiple of 4 bytes
 * @param value   any float; its bits are kept, even those of a NaN
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_fill_f32(float *dst, float value, int64_t n,
                                              struct CUstream_st *stream);

/**
 * Add, subtract, multiply or divide binary16 element by element: c[i] = a[i] op b[i].
 * @param a, b    [n] on the device; multiples of 2 bytes
 * @param c       [n] on the device, out; may be exactly a or b
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  IEEE, rounded once to nearest even; subnormals are kept, and results of 65520 and above
 *           are infinities
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_add_f16(const uint16_t *a, const uint16_t *b, uint16_t *c,
                                             int64_t n, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_sub_f16(const uint16_t *a, const uint16_t *b, uint16_t *c,
                                             int64_t n, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_mul_f16(const uint16_t *a, const uint16_t *b, uint16_t *c,
                                             int64_t n, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_div_f16(const uint16_t *a, const uint16_t *b, uint16_t *c,
                                             int64_t n, struct CUstream_st *stream);

/**
 * Drop elements at random: out[i] = in[i] * keep_scale if u(i) >= p, else +0.
 *
 * u(i) = (float)word * 2^-32, to nearest, so that 1 is possible; the word is the first of
 * Philox4x32-10 with the key (low, high word of `key`) and the counter (low, high word of i, 0, 0).
 * The same call on the gradient is the backward pass.
 * @param in          [n] on the device; a multiple of 4 bytes
 * @param out         [n] on the device, out; may be exactly in
 * @param p           any float; 0 gives an exact copy, whatever keep_scale is; above 1 and NaN give
 *                    all zeros
 * @param keep_scale  any float; 1 / (1 - p) keeps the mean
 * @param key         the same key drops the same elements
 * @param n           >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream      NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  the product is rounded to nearest even
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy
 *           as 1, 2, 3", SC '11
 */
CUSHIM_API enum cushim_status cushim_dropout_f32(const float *in, float *out, float p,
                                                 float keep_scale, uint64_t key, int64_t n,
                                                 struct CUstream_st *stream);

/**
 * Take a step of AdamW on each parameter, in double:
 *   m' = beta1 m + one_minus_beta1 g; v' = beta2 v + one_minus_beta2 g g; p' = p - alpha m' /
 *   (sqrt(v') + eps) - lr_wd p;
 * p' and m' are stored as floats, v' as a double, and the gradient becomes +0.
 * @param param   [n] on the device, in and out; a multiple of 4 bytes
 * @param m       [n] on the device, in and out: the first moment; a multiple of 4 bytes
 * @param v       [n] on the device, in and out: the second moment; a multiple of 8 bytes
 * @param grad    [n] on the device, in and out; a multiple of 4 bytes.  The four must not overlap
 * @param beta1, beta2, one_minus_beta1, one_minus_beta2, eps  of the moments; not checked
 * @param alpha   the learning rate, including the corrections of both moments
 * @param lr_wd   learning rate times weight decay
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  param and m 1 ULP of float, v 4e-16 of its value
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    I. Loshchilov, F. Hutter, "Decoupled Weight Decay Regularization", ICLR 2019
 */
CUSHIM_API enum cushim_status cushim_adamw_f32(float *param, float *m, double *v, float *grad,
                                               double beta1, double beta2, double one_minus_beta1,
                                               double one_minus_beta2, double eps, double alpha,
                                               double lr_wd, int64_t n, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
