/*
 * Elementwise kernels: one output element from the same elements of the inputs.
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
 * @param n       >= 0; 0: nothing is done, and the pointers may be NULL
 * @param stream  NULL: the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, a NULL or misaligned pointer) | a status of
 *         the driver; nothing was queued then
 * Accuracy  IEEE, rounded to nearest even; subnormals are kept, x / 0 is an infinity
 * Threads   any      Stream  queued on `stream`; the buffers live until that work ends
 */
CUSHIM_API enum cushim_status cushim_add_f32(const float *a, const float *b, float *c, int64_t n,
                                             struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_sub_f32(const float *a, const float *b, float *c, int64_t n,
                                             struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_mul_f32(const float *a, const float *b, float *c, int64_t n,
                                             struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_div_f32(const float *a, const float *b, float *c, int64_t n,
                                             struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
