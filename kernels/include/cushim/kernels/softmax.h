/*
 * Softmax over one axis of a tensor, plain and scaled.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_SOFTMAX_H
#define CUSHIM_KERNELS_SOFTMAX_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Softmax over the middle axis: y = exp(x - max) / sum(exp(x - max)).
 * @param x       [outer][axis][inner] on the device; a multiple of 4 bytes
 * @param y       [outer][axis][inner] on the device, out; may be exactly x
 * @param outer, axis, inner  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  |error| <= 1e-5 of the value + 1e-37.  If a slice along the axis has NaN or +Inf, or
 *           only -Inf, all of it is NaN
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_softmax_f32(const float *x, float *y, int64_t outer,
                                                 int64_t axis, int64_t inner,
                                                 struct CUstream_st *stream);

/**
 * Softmax of x * scale over the middle axis.
 * @param x       [outer][axis][inner] on the device; a multiple of its element
 * @param y       [outer][axis][inner] on the device, out; may be exactly x
 * @param scale   any float; 0 gives 1 / axis everywhere.  x * scale may exceed the range of
 *                float
 * @param outer, axis, inner  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  f32 as cushim_softmax_f32; f16 computes in float and rounds once, 1e-3 relative and one
 *           step.  If a slice of x * scale has NaN or +Inf, or only -Inf, all of it is NaN
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_scaled_softmax_f32(const float *x, float *y, float scale,
                                                        int64_t outer, int64_t axis, int64_t inner,
                                                        struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_scaled_softmax_f16(const uint16_t *x, uint16_t *y, float scale,
                                                        int64_t outer, int64_t axis, int64_t inner,
                                                        struct CUstream_st *stream);

/**
 * Means of rows of v with the weights of a softmax: y[i] = softmax(scores[i] * scale) * v[i].
 * @param scores  [rows][n] on the device; a multiple of 4 bytes
 * @param v       [rows][n][d] on the device; a multiple of 4 bytes
 * @param y       [rows][d] on the device, out; a multiple of 4 bytes; must not overlap an input
 * @param scale   any float; scores * scale has the range of float
 * @param rows, d  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param n       >= 0; if 0, y is zeros and scores and v may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  |error| <= 2^-17 of the weighted mean of |v|.  If scores * scale of a row has NaN or
 *           +Inf, or only -Inf, its results are NaN; so is a weight of 0 times an infinity
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_softmax_mul_f32(const float *scores, const float *v, float *y,
                                                     float scale, int64_t rows, int64_t n,
                                                     int64_t d, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
