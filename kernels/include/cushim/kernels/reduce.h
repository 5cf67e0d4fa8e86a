/*
 * Reductions: sums along an axis, and the place of the largest element.
 *
 * What holds for every function is at the top of cushim/kernels.h.  Scratch pays if few results
 * come from many elements, because with it the whole device works on one result.
 */
#ifndef CUSHIM_KERNELS_REDUCE_H
#define CUSHIM_KERNELS_REDUCE_H

#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Sum along the middle axis: y[o, i] = sum of x[o, a, i] over a.
 * @param x        [outer][axis][inner] on the device; a multiple of 4 bytes
 * @param y        [outer][inner] on the device, out
 * @param outer, inner  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param axis     >= 0; if 0, y is all zeros and x may be NULL
 * @param scratch  on the device, a multiple of 4 bytes; NULL and 0 mean none
 * @param scratch_bytes  fewer than cushim_sum_axis_f32_scratch() returns counts as none
 * @param stream   NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued but work on
 *         scratch
 * Accuracy  4 * 2^-24 * max(1, log2(axis)) * sum|x|; sums are in float; their order depends on the
 *           sizes, the device and whether there is scratch, but not on the addresses
 * Edges     a partial sum beyond FLT_MAX is an infinity
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_sum_axis_f32(const float *x, float *y, int64_t outer,
                                                  int64_t axis, int64_t inner, void *scratch,
                                                  size_t scratch_bytes, struct CUstream_st *stream);

/**
 * How much scratch helps cushim_sum_axis_f32 with the same sizes.
 * @return bytes; 0 if none helps or it refuses the sizes
 * Threads  any
 */
CUSHIM_API size_t cushim_sum_axis_f32_scratch(int64_t outer, int64_t axis, int64_t inner);

/**
 * Find the largest element: *index is the lowest i with x[i] = max(x).
 * @param x        [n] on the device; a multiple of 4 bytes
 * @param index    one int64_t on the device, out
 * @param n        >= 0; if 0, nothing is done and *index does not change
 * @param scratch  on the device, a multiple of 4 bytes; NULL and 0 mean none
 * @param scratch_bytes  fewer than cushim_argmax_f32_scratch() returns counts as none
 * @param stream   NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued but work on
 *         scratch
 * Accuracy  exact
 * Edges     the first NaN counts as the largest; zeros of both signs are equal; if all are -Inf, 0
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_argmax_f32(const float *x, int64_t *index, int64_t n,
                                                void *scratch, size_t scratch_bytes,
                                                struct CUstream_st *stream);

/**
 * How much scratch helps cushim_argmax_f32 with the same n.
 * @return bytes, at most 8 * ceil(n / 256); 0 if none helps
 * Threads  any
 */
CUSHIM_API size_t cushim_argmax_f32_scratch(int64_t n);

/**
 * The selective scan of a state space model: for each channel and state h[t] = a h[t - 1] + b[t]
 * x[t] from h = 0, and y[t] = the sum of c[t] h[t] over states + d x[t].
 * @param x       [batch][n_channels][seq] on the device; a multiple of 4 bytes
 * @param a       [n_channels][n_states] on the device; a multiple of 4 bytes
 * @param b, c    [batch][n_states][seq] on the device; multiples of 4 bytes
 * @param d       [n_channels] on the device; a multiple of 4 bytes; NULL adds nothing
 * @param y       [batch][n_channels][seq] on the device, out; must not overlap an input
 * @param batch, n_channels, seq  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param n_states  >= 0; if 0, a, b and c may be NULL; fastest up to 64
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  each step of h has an error of at most 2^-22 of its terms' magnitudes, which the
 *           recurrence carries on; 2^-21 of the magnitudes that y sums
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    A. Gu, T. Dao, "Mamba", 2023
 */
CUSHIM_API enum cushim_status cushim_selective_scan_f32(const float *x, const float *a,
                                                        const float *b, const float *c,
                                                        const float *d, float *y, int64_t batch,
                                                        int64_t n_channels, int64_t n_states,
                                                        int64_t seq, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
