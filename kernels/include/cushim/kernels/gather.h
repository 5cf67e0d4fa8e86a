/*
 * Rows of a table, chosen by index.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_GATHER_H
#define CUSHIM_KERNELS_GATHER_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Copy n rows of a table into one dense range: out[i, :] = table[min(max(idx[i], 0), v - 1), :].
 * @param table   [v][d] on the device; a multiple of 4 bytes
 * @param idx     [n] on the device; a multiple of its element; any value; it is clamped at its full
 *                width
 * @param out     [n][d] on the device, out
 * @param n, d    >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param v       >= 0, and not 0 if there is a row to write
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, v = 0, more elements than can be counted, a
 *         NULL or misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  bits, even those of a NaN
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 * Source    ONNX Gather, axis 0, with its negative indices clamped instead of counted from the end
 */
CUSHIM_API enum cushim_status cushim_gather_f32_i64(const float *table, const int64_t *idx,
                                                    float *out, int64_t n, int64_t d, int64_t v,
                                                    struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_gather_f32_i32(const float *table, const int32_t *idx,
                                                    float *out, int64_t n, int64_t d, int64_t v,
                                                    struct CUstream_st *stream);

/**
 * The same from a table of bytes: out[i, :] is the values of row min(max(idx[i], 0), v - 1).
 * @param table   [v][d / 32] blocks of q8f, as of cushim_gemm_q8f_f32, on the device; a multiple of
 *                4 bytes
 * @param idx     [n] on the device; a multiple of 4 bytes; any value
 * @param out     [n][d] on the device, out; a multiple of 4 bytes
 * @param n       >= 0; if n or d is 0, nothing is done and the pointers may be NULL
 * @param d       >= 0, a multiple of 32
 * @param v       >= 0, and not 0 if there is a row to write
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, d not a multiple of 32, v = 0, more elements
 *         than can be counted, a NULL or misaligned pointer) | a driver status; unless CUSHIM_OK,
 *         nothing was queued
 * Accuracy  exact to the bit: scale * byte, rounded once
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_gather_q8f_f32_i32(const void *table, const int32_t *idx,
                                                        float *out, int64_t n, int64_t d, int64_t v,
                                                        struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
