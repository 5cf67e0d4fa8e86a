/*
 * What a captured decoding step does with its position in device memory: count it, append at it,
 * and pick its angles.
 *
 * A replay of a graph sees the position that is there at that time.  The kernels are short, so on a
 * device of 9.0 or later each may start while the kernel ahead of it on the stream ends.  What
 * holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_POSITION_H
#define CUSHIM_KERNELS_POSITION_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Add to a counter: *counter += delta, as one atomic step that wraps around.
 * @param counter  on the device, in and out; a multiple of 4 bytes
 * @param delta    any
 * @param stream   NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a NULL or misaligned pointer) | a driver status; unless
 *         CUSHIM_OK, nothing was queued
 * Threads  any
 * Stream   queued on `stream`; the counter must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_counter_add_i32(int32_t *counter, int32_t delta,
                                                     struct CUstream_st *stream);

/**
 * Set a counter: *counter = value.
 * @param counter  on the device, out; a multiple of 4 bytes
 * @param value    any
 * @param stream   NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a NULL or misaligned pointer) | a driver status; unless
 *         CUSHIM_OK, nothing was queued
 * Threads  any
 * Stream   queued on `stream`; the counter must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_counter_set_i32(int32_t *counter, int32_t value,
                                                     struct CUstream_st *stream);

/**
 * Copy a row to the place of a position: dst[p * dim + i] = src[i] with p = *position.
 * @param src       [dim] on the device; a multiple of 4 bytes
 * @param position  on the device; a multiple of 4 bytes.  If it is outside 0 .. max_len - 1,
 *                  nothing is written
 * @param dst       [max_len][dim] on the device, out: only row p; a multiple of 4 bytes, of 2 for
 *                  the second function; must not overlap an input
 * @param dim       >= 0; if 0, nothing is done and the pointers may be NULL
 * @param max_len   >= 0; if 0, likewise
 * @param stream    NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more bytes than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  float keeps every bit; binary16 is rounded to nearest even, and 65520 and above become
 *           infinity
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_offset_memcpy_f32(const float *src, const int32_t *position,
                                                       float *dst, int64_t dim, int64_t max_len,
                                                       struct CUstream_st *stream);
CUSHIM_API enum cushim_status cushim_offset_memcpy_f32_f16(const float *src,
                                                           const int32_t *position, uint16_t *dst,
                                                           int64_t dim, int64_t max_len,
                                                           struct CUstream_st *stream);

/**
 * Copy the row of a position from two tables: cosines[i] = cos_table[p * half_rotary + i] with p =
 * *position, and the sines likewise.
 * @param cos_table, sin_table  [rows][half_rotary] on the device; multiples of 4 bytes
 * @param position     on the device; a multiple of 4 bytes.  If it is outside 0 .. rows - 1,
 *                     nothing is written
 * @param cosines, sines  [half_rotary] on the device, out; multiples of 4 bytes; must not overlap
 *                        anything
 * @param rows         >= 0; if 0, nothing is done and the pointers may be NULL.  INT64_MAX if the
 *                     tables are known to hold every position that occurs
 * @param half_rotary  >= 0; if 0, nothing is done and the pointers may be NULL
 * @param stream       NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more bytes than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  every bit
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_rope_select_f32(const float *cos_table, const float *sin_table,
                                                     const int32_t *position, float *cosines,
                                                     float *sines, int64_t rows,
                                                     int64_t half_rotary,
                                                     struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
