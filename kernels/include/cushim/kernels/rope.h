/*
 * Rotary position embedding, alone and with the norm of queries and keys.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_ROPE_H
#define CUSHIM_KERNELS_ROPE_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Rotate pairs of elements of each head by the angles of its position.  With h = half_rotary and c,
 * t the cosine and sine at [s * cos_stride + i], i < h, for position s: y[i] = x[i] * c - x[i + h]
 * * t, y[i + h] = x[i + h] * c + x[i] * t; elements from 2 h on are copied.
 * @param x       [batch][seq][head_dim] on the device; a multiple of 4 bytes
 * @param cosines, sines  rows of h on the device, cos_stride elements from one position to the
 *                        next; multiples of 4 bytes; NULL only if h is 0
 * @param y       [batch][seq][head_dim] on the device, out; may be exactly x
 * @param batch, seq, head_dim  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param half_rotary  0 .. head_dim / 2
 * @param cos_stride   >= 0; if 0, all positions turn by the same angles
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a size out of its range, more elements than can be counted, a
 *         NULL or misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  the root mean square of the error is 3e-7 of y's
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_rope_f32(const float *x, const float *cosines,
                                              const float *sines, float *y, int64_t batch,
                                              int64_t seq, int64_t head_dim, int64_t half_rotary,
                                              int64_t cos_stride, struct CUstream_st *stream);

/**
 * RMS norm of each head of a token's queries and keys, then rotation at its position.  The norm is
 * cushim_rms_norm_f32's, with the weights w_q for the first n_q_heads and w_k for the others; the
 * rotation is cushim_rope_f32's.
 * @param x       [n_heads][head_dim] on the device; a multiple of 4 bytes
 * @param w_q, w_k  [head_dim] on the device; multiples of 4 bytes; NULL only if no head
 *                  uses them
 * @param cosines, sines  [half_rotary] on the device; multiples of 4 bytes; NULL only if
 *                        half_rotary is 0
 * @param y       [n_heads][head_dim] on the device, out; may be exactly x
 * @param eps     any float
 * @param n_heads, head_dim  >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param n_q_heads    0 .. n_heads
 * @param half_rotary  0 .. head_dim / 2
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a size out of its range, more elements than can be counted, a
 *         NULL or misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  |error| <= 2^-21 sum|terms| of the rotation; their root mean square is 1e-6 of y's
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status
cushim_qk_norm_rope_f32(const float *x, const float *w_q, const float *w_k, const float *cosines,
                        const float *sines, float *y, float eps, int64_t n_heads, int64_t head_dim,
                        int64_t n_q_heads, int64_t half_rotary, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
