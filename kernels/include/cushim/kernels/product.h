/*
 * Products of plain matrices that lie at any strides, and of codes.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_PRODUCT_H
#define CUSHIM_KERNELS_PRODUCT_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Where the matrices of a batch lie, in elements: element [i][r][c] is at i * batch + r * row + c *
 * column.  {0, columns, 1} is a contiguous matrix that all of a batch share, {0, 1, rows} the
 * transpose of one.
 */
struct cushim_matrix_strides {
    int64_t batch, row, column;
};

/**
 * Multiply matrices: c = alpha * a b + beta * c, for each of a batch.
 * @param a       [batch][m][k] on the device, with the strides of_a; a multiple of 4 bytes
 * @param b       [batch][k][n] on the device, with the strides of_b; a multiple of 4 bytes
 * @param c       [batch][m][n] on the device, out, with the strides of_c, of which no two elements
 *                may share a place; a multiple of 4 bytes; must not overlap an input
 * @param alpha, beta  any floats; if beta is 0, c is not read
 * @param batch, m, n  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param k       >= 0; if 0, a and b may be NULL
 * @param of_a, of_b, of_c  on the host, none negative; copied before the call returns
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (strides are NULL, a negative size or stride, more elements
 *         than can be counted, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK,
 *         nothing was queued
 * Accuracy  |error| <= 2^-20 (|alpha| sum|terms| + |beta c|)
 * Speed     fastest if a row or a column of each input is contiguous
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_gemm_strided_f32(const float *a, const float *b, float *c,
                                                      float alpha, float beta, int64_t batch,
                                                      int64_t m, int64_t n, int64_t k,
                                                      const struct cushim_matrix_strides *of_a,
                                                      const struct cushim_matrix_strides *of_b,
                                                      const struct cushim_matrix_strides *of_c,
                                                      struct CUstream_st *stream);

/**
 * Multiply matrices of e4m3: c[m][n] = scale_a scale_b a[m][k] b[k][n], in halves.
 * @param a       [m][k] codes on the device
 * @param b       [k][n] codes on the device
 * @param c       [m][n] on the device, out; a multiple of 2 bytes; must not overlap an input
 * @param scale_a, scale_b  any floats
 * @param m, n    >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param k       >= 0; if 0, a and b may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  half a step of c + 2^-20 |scale_a scale_b| sum|terms|; the scales are multiplied as
 *           floats
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_gemm_e4m3_f16(const uint8_t *a, const uint8_t *b, uint16_t *c,
                                                   float scale_a, float scale_b, int64_t m,
                                                   int64_t n, int64_t k,
                                                   struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
