/*
 * What a layer of an encoder and its gradients need besides products: layer norm, GELU, and the
 * gradients of both and of softmax.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_ENCODER_H
#define CUSHIM_KERNELS_ENCODER_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Layer norm of rows: r = 1 / sqrt(mean((x - mean(x))^2) + eps), y = (x - mean(x)) * r * w + b.
 * @param x       [rows][d] on the device; a multiple of 4 bytes
 * @param w, b    [d] on the device; multiples of 4 bytes
 * @param y       [rows][d] on the device, out; may be exactly x
 * @param rstd    [rows] on the device, out: r; may be NULL
 * @param eps     any float
 * @param rows, d >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  the root mean square of the error is 3e-6 of y's, if the mean is not far above the
 *           deviations
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_layer_norm_f32(const float *x, const float *w, const float *b,
                                                    float *y, float *rstd, float eps, int64_t rows,
                                                    int64_t d, struct CUstream_st *stream);

/**
 * The gradients of layer norm: with n = (x - mean(x)) * rstd and g = dy * w, dx = rstd * (g -
 * mean(g) - n * mean(g * n)) and dw[i] = dy[i] * n[i].  The sum of dw over rows is the gradient of
 * w, that of dy is the gradient of b.
 * @param dy      [rows][d] on the device, the gradient of y; a multiple of 4 bytes
 * @param x       [rows][d] on the device; a multiple of 4 bytes
 * @param w       [d] on the device; a multiple of 4 bytes
 * @param rstd    [rows] on the device, as cushim_layer_norm_f32 gives it
 * @param dx      [rows][d] on the device, out; may be exactly dy or x
 * @param dw      [rows][d] on the device, out; must not overlap another
 * @param rows, d >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return as cushim_layer_norm_f32
 * Accuracy  the root mean square of the error is 3e-6 of dx's and of dw's
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_layer_norm_backward_f32(const float *dy, const float *x,
                                                             const float *w, const float *rstd,
                                                             float *dx, float *dw, int64_t rows,
                                                             int64_t d, struct CUstream_st *stream);

/**
 * The gradient of softmax over rows: dx = y * (dy - sum(y * dy)).
 * @param y       [rows][d] on the device, what softmax gave; a multiple of 4 bytes
 * @param dy      [rows][d] on the device, the gradient of y; a multiple of 4 bytes
 * @param dx      [rows][d] on the device, out; may be exactly y or dy
 * @param rows, d >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return as cushim_layer_norm_f32
 * Accuracy  |error| <= 2^-20 y (|dy| + sum|y dy|)
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_softmax_backward_f32(const float *y, const float *dy,
                                                          float *dx, int64_t rows, int64_t d,
                                                          struct CUstream_st *stream);

/**
 * GELU by tanh: with u = sqrt(2 / pi) * (x + 0.044715 x^3), y = x / 2 * (1 + tanh(u)).
 * @param x       [n] on the device; a multiple of 4 bytes
 * @param y       [n] on the device, out; may be exactly x
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  |error| <= 1e-6 (1 + 2|u|) of the value + 1e-37.  -Inf gives 0
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units", 2016
 */
CUSHIM_API enum cushim_status cushim_gelu_f32(const float *x, float *y, int64_t n,
                                              struct CUstream_st *stream);

/**
 * The gradient of cushim_gelu_f32: dx = dy times the slope of GELU at x.
 * @param x, dy   [n] on the device; multiples of 4 bytes
 * @param dx      [n] on the device, out; may be exactly x or dy
 * @param n       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return as cushim_gelu_f32
 * Accuracy  |error| <= 1e-5 |dy|.  The slope is 0 below -20 and 1 above 20
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_gelu_backward_f32(const float *x, const float *dy, float *dx,
                                                       int64_t n, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
