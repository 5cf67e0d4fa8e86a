/*
 * RMS norms of rows, alone and with the operations that models do beside them.
 *
 * What holds for every function is at the top of cushim/kernels.h.
 */
#ifndef CUSHIM_KERNELS_NORM_H
#define CUSHIM_KERNELS_NORM_H

#include <stdint.h>

#include "cushim/status.h"

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * RMS norm of rows: r = 1 / sqrt(mean(x^2) + eps), y = x * r * w.
 * @param x       [rows][d] on the device; a multiple of 4 bytes
 * @param w       [d] on the device; a multiple of 4 bytes
 * @param y       [rows][d] on the device, out; may be exactly x
 * @param rstd    [rows] on the device, out: r; may be NULL
 * @param eps     any float
 * @param rows, d >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  the root mean square of the error is 1e-6 of y's; rstd 3e-7 relative.  The sum of
 *           squares is a float.  If it overflows (an |x| of 1.8e19 suffices) r is 0, and squares
 *           below 1.2e-38 lose bits.  A row of zeros with eps = 0 gives NaN
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_rms_norm_f32(const float *x, const float *w, float *y,
                                                  float *rstd, float eps, int64_t rows, int64_t d,
                                                  struct CUstream_st *stream);

/**
 * Add a residual, then RMS norm: sum = x + residual, y = rms_norm(sum).
 * @param x, residual  [rows][d] on the device; multiples of 4 bytes
 * @param w       [d] on the device; a multiple of 4 bytes
 * @param y, sum  [rows][d] on the device, out; each may be exactly x or residual, but y and sum
 *                must differ
 * @param eps     any float
 * @param rows, d >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  sum rounded to nearest even; y as cushim_rms_norm_f32
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_add_rms_norm_f32(const float *x, const float *residual,
                                                      const float *w, float *y, float *sum,
                                                      float eps, int64_t rows, int64_t d,
                                                      struct CUstream_st *stream);

/**
 * RMS norm, then add a residual: y = rms_norm(x) + residual.
 * @param x, residual  [rows][d] on the device; multiples of 4 bytes
 * @param w       [d] on the device; a multiple of 4 bytes
 * @param y       [rows][d] on the device, out; may be exactly x or residual
 * @param eps     any float
 * @param rows, d >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  as cushim_rms_norm_f32
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_rms_norm_add_f32(const float *x, const float *w,
                                                      const float *residual, float *y, float eps,
                                                      int64_t rows, int64_t d,
                                                      struct CUstream_st *stream);

/**
 * RMS norm of binary16, computed in float.
 * @param x       [rows][d] on the device, bits of binary16; a multiple of 2 bytes
 * @param w       [d] on the device, bits of binary16; a multiple of 2 bytes
 * @param y       [rows][d] on the device, out, bits of binary16; may be exactly x
 * @param eps     any float
 * @param rows, d >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  rounded once, to 1 ULP; 65520 and above are infinite
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_rms_norm_f16(const uint16_t *x, const uint16_t *w, uint16_t *y,
                                                  float eps, int64_t rows, int64_t d,
                                                  struct CUstream_st *stream);

/**
 * RMS norm of e4m3 times a scale, to binary16: x' = x * scale as a float, then as
 * cushim_rms_norm_f16.
 * @param x       [rows][d] on the device, codes of E4M3FN
 * @param w       [d] on the device, bits of binary16; a multiple of 2 bytes
 * @param y       [rows][d] on the device, out, bits of binary16; a multiple of 2 bytes
 * @param scale, eps  any float
 * @param rows, d >= 0; if one is 0, nothing is done and the pointers may be NULL
 * @param stream  NULL means the legacy stream of the current context
 * @return CUSHIM_OK | CUSHIM_INVALID (a negative size, more elements than can be counted, a NULL or
 *         misaligned pointer) | a driver status; unless CUSHIM_OK, nothing was queued
 * Accuracy  rounded once, to 1 ULP; sums of squares as cushim_rms_norm_f32.  A row with a code 0x7F
 *           or 0xFF is NaN
 * Threads   any
 * Stream    queued on `stream`; the buffers must live until that work ends
 */
CUSHIM_API enum cushim_status cushim_rms_norm_e4m3_f16(const uint8_t *x, const uint16_t *w,
                                                       uint16_t *y, float scale, float eps,
                                                       int64_t rows, int64_t d,
                                                       struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
