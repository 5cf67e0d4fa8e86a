/*
 * Copies that put elements in another order: repetition, transposition, strides.
 *
 * What holds for every function is at the top of cushim/kernels.h.  No input may overlap an output.
 */
#ifndef CUSHIM_KERNELS_LAYOUT_H
#define CUSHIM_KERNELS_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Repeat each element of the middle axis: y[o, r, i] = x[o, r / reps, i].
 * @param x       [outer][axis][inner] on the device; a multiple of 4 bytes
 * @param y       [outer][axis * reps][inner] on the device, out
 * @param outer, axis, inner, reps  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  bits
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_repeat_f32(const float *x, float *y, int64_t outer,
                                                int64_t axis, int64_t inner, int64_t reps,
                                                struct CUstream_st *stream);

/**
 * Transpose a matrix: y[c, r] = x[r, c].
 * @param x       [rows][cols] on the device; a multiple of its element
 * @param y       [cols][rows] on the device, out
 * @param rows, cols  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  bits
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_transpose2d_f32(const float *x, float *y, int64_t rows,
                                                     int64_t cols, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_transpose2d_u16(const uint16_t *x, uint16_t *y, int64_t rows,
                                                     int64_t cols, struct CUstream_st *stream);

/**
 * Reorder axes: axis d of y is axis perm[d] of x.
 * @param x       contiguous, of `shape`, on the device; a multiple of its element
 * @param y       contiguous, of the permuted shape, on the device, out
 * @param shape   [ndim] on the host, of x; copied before the call returns
 * @param perm    [ndim] on the host: each of 0 .. ndim - 1 once; copied before the call returns
 * @param ndim    0 .. 8; if 0, one element is copied, and shape and perm may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (shape or perm NULL, ndim out of range, a negative size, perm
 *         not a permutation, more elements than can be counted, a NULL or misaligned pointer) | a
 *         driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  bits
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    ONNX Transpose
 */
CUSHIM_API enum cushim_status cushim_transpose_nd_f32(const float *x, float *y,
                                                      const int64_t *shape, const int32_t *perm,
                                                      int ndim, struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_transpose_nd_u16(const uint16_t *x, uint16_t *y,
                                                      const int64_t *shape, const int32_t *perm,
                                                      int ndim, struct CUstream_st *stream);

/**
 * Make a view dense: dst[i0, i1, ..] = src[i0 * strides[0] + i1 * strides[1] + ..].
 * @param src      the element at index 0 of every axis, on the device; any address; one that is no
 *                 multiple of the element is read in smaller pieces
 * @param dst      contiguous, of `shape`, on the device, out; any address
 * @param shape    [ndim] on the host; copied before the call returns
 * @param strides  [ndim] on the host, in elements; may be negative, or 0; copied likewise
 * @param ndim     0 .. 8; if 0, one element is copied, and shape and strides may be NULL
 * @param elem_bytes  >= 1; 1, 2, 4, 8 and 16 are fast
 * @param stream   NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (shape or strides NULL, ndim out of range, a negative size,
 *         elem_bytes = 0, more bytes than can be counted, a NULL pointer) | a driver status; unless
 *         CUSHIM_OK, nothing was queued
 * Accuracy  bits
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_strided_copy(const void *src, void *dst, const int64_t *shape,
                                                  const int64_t *strides, int ndim,
                                                  size_t elem_bytes, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
