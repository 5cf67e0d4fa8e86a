/*
 * Broadcasting: two operands with strides, one contiguous output.
 *
 * A stride of 0 repeats an operand along an axis; a negative one walks backwards from the element
 * at index 0, to which the pointer points.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_BROADCAST_H
#define CUSHIM_KERNELS_BROADCAST_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Add, subtract, multiply or divide over two axes: c[r * cols + q] = a[r * sa_row + q * sa_col] op
 * b[r * sb_row + q * sb_col].
 * @param a, b            on the device; multiples of 4 bytes
 * @param c               [rows, cols] on the device, contiguous, out; may be exactly an operand
 *                        whose strides are those of c; must not overlap the other
 * @param sa_row, sa_col  strides of a in elements; any, 0 and negative included
 * @param sb_row, sb_col  strides of b likewise
 * @param rows, cols      >= 0; if there is no element, nothing is done and the pointers may be NULL
 * @param stream          NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements or bytes than an int64_t can
 *         count, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was
 *         queued
 * Accuracy  IEEE, rounded to nearest even; subnormals are kept, x / 0 is an infinity
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_add_broadcast2d_f32(const float *a, const float *b, float *c,
                                                         int64_t sa_row, int64_t sa_col,
                                                         int64_t sb_row, int64_t sb_col,
                                                         int64_t rows, int64_t cols,
                                                         struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_sub_broadcast2d_f32(const float *a, const float *b, float *c,
                                                         int64_t sa_row, int64_t sa_col,
                                                         int64_t sb_row, int64_t sb_col,
                                                         int64_t rows, int64_t cols,
                                                         struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_mul_broadcast2d_f32(const float *a, const float *b, float *c,
                                                         int64_t sa_row, int64_t sa_col,
                                                         int64_t sb_row, int64_t sb_col,
                                                         int64_t rows, int64_t cols,
                                                         struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_div_broadcast2d_f32(const float *a, const float *b, float *c,
                                                         int64_t sa_row, int64_t sa_col,
                                                         int64_t sb_row, int64_t sb_col,
                                                         int64_t rows, int64_t cols,
                                                         struct CUstream_st *stream);

/**
 * Add, subtract, multiply or divide over four axes; for the index i of the contiguous c, c[i] =
 * a[sum of i[d] * sa[d]] op b[sum of i[d] * sb[d]].
 * @param a, b    on the device; multiples of 4 bytes
 * @param c       [dims[0], .., dims[3]] on the device, contiguous, out; may be exactly an operand
 *                whose strides are those of c; must not overlap the other
 * @param dims    [4] on the host, each >= 0, read before the function returns; if there is no
 *                element, nothing is done and the device pointers may be NULL
 * @param sa, sb  [4] on the host: strides in elements; any, 0 and negative included
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a NULL array, a negative size, more elements or bytes than an
 *         int64_t can count, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK,
 *         nothing was queued
 * Accuracy  IEEE, rounded to nearest even; subnormals are kept, x / 0 is an infinity
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_add_broadcast4d_f32(const float *a, const float *b, float *c,
                                                         const int64_t *dims, const int64_t *sa,
                                                         const int64_t *sb,
                                                         struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_sub_broadcast4d_f32(const float *a, const float *b, float *c,
                                                         const int64_t *dims, const int64_t *sa,
                                                         const int64_t *sb,
                                                         struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_mul_broadcast4d_f32(const float *a, const float *b, float *c,
                                                         const int64_t *dims, const int64_t *sa,
                                                         const int64_t *sb,
                                                         struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_div_broadcast4d_f32(const float *a, const float *b, float *c,
                                                         const int64_t *dims, const int64_t *sa,
                                                         const int64_t *sb,
                                                         struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
