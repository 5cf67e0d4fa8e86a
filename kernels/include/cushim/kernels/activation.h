/*
 * Activations with a factor: the slope of tanh, and SwiGLU.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_ACTIVATION_H
#define CUSHIM_KERNELS_ACTIVATION_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The gradient of tanh: c[i] = (1 - tanh(a[i])^2) * upstream[i].
 * @param a         [n] on the device, the input of tanh; a multiple of 4 bytes
 * @param upstream  [n] on the device, the gradient after tanh; a multiple of 4 bytes
 * @param c         [n] on the device, out; may be exactly a or upstream
 * @param n         >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream    NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  |error| <= 1e-6 of the value, even if tanh is almost 1, + 1e-37 |upstream| + 2^-149.
 *           An infinite upstream gives an infinity, or NaN if a is infinite
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_tanh_prime_f32(const float *a, const float *upstream, float *c,
                                                    int64_t n, struct CUstream_st *stream);

/**
 * SwiGLU of two projections: y[i] = w1[i] / (1 + exp(-w1[i])) * w3[i].
 * @param w1      [n] on the device, the gate; a multiple of 4 bytes
 * @param w3      [n] on the device; a multiple of 4 bytes
 * @param y       [n] on the device, out; may be exactly w1 or w3
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  |error| <= 1.6e-6 of the value + 4e-37 |w3| + 2^-149.  w1 = -Inf gives the limit, -0 *
 *           w3.  An infinite w3 gives an infinity, or NaN if w1 is 0 or -Inf
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    N. Shazeer, "GLU Variants Improve Transformer", 2020
 */
CUSHIM_API enum cushim_status cushim_swiglu_f32(const float *w1, const float *w3, float *y,
                                                int64_t n, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
