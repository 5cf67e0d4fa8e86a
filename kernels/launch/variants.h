/*
 * The five behaviours of the library that libkernels.so stands in for and that no public function
 * has.  None is exported.
 *
 * Each checks, launches and returns like a public function.  It uses the same kernels with another
 * parameter if that costs nothing.  On the software device its reference (..._ref) does the work.
 */
#ifndef CUSHIM_KERNELS_VARIANTS_H
#define CUSHIM_KERNELS_VARIANTS_H

#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"
#include "kernels/launch/walk.h"
#include "kernels/shared/quant_parts.h"

struct CUstream_st;

/* ---- elementwise.c ---- */

/* c[i] = pow(|a[i]|, s), else as cushim_pow_scalar_f32; (-2)^3 is 8 here. */
enum cushim_status cushim_variant_pow_abs_scalar_f32(const float *a, float *c, float s, int64_t n,
                                                     struct CUstream_st *stream);
void cushim_variant_pow_abs_scalar_f32_ref(const float *a, float *c, float s, int64_t n);

/* ---- convert.c: e4m3 without NaN, the codes 0x7F and 0xFF are 480 and -480 ---- */

enum cushim_status cushim_variant_dequant_e4m3_f16(const uint8_t *src, uint16_t *dst, float scale,
                                                   int64_t n, struct CUstream_st *stream);
enum cushim_status cushim_variant_add_e4m3_f16(const uint8_t *a, const uint8_t *b, uint16_t *c,
                                               float scale_a, float scale_b, int64_t n,
                                               struct CUstream_st *stream);
enum cushim_status cushim_variant_mul_e4m3_f16(const uint8_t *a, const uint8_t *b, uint16_t *c,
                                               float scale_a, float scale_b, int64_t n,
                                               struct CUstream_st *stream);
void cushim_variant_dequant_e4m3_f16_ref(const uint8_t *src, uint16_t *dst, float scale, int64_t n);
void cushim_variant_add_e4m3_f16_ref(const uint8_t *a, const uint8_t *b, uint16_t *c, float scale_a,
                                     float scale_b, int64_t n);
void cushim_variant_mul_e4m3_f16_ref(const uint8_t *a, const uint8_t *b, uint16_t *c, float scale_a,
                                     float scale_b, int64_t n);

/* ---- norm: cushim_rms_norm_e4m3_f16 with 480 and -480 for the codes 0x7F and 0xFF ---- */

enum cushim_status cushim_variant_rms_norm_e4m3_f16(const uint8_t *x, const uint16_t *w,
                                                    uint16_t *y, float scale, float eps,
                                                    int64_t rows, int64_t d,
                                                    struct CUstream_st *stream);
void cushim_variant_rms_norm_e4m3_f16_ref(const uint8_t *x, const uint16_t *w, uint16_t *y,
                                          float scale, float eps, int64_t rows, int64_t d);

/* ---- reduce: cushim_argmax_f32 with an index of 32 bits; n <= INT32_MAX ---- */

enum cushim_status cushim_variant_argmax_f32_i32(const float *x, int32_t *index, int64_t n,
                                                 void *scratch, size_t scratch_bytes,
                                                 struct CUstream_st *stream);
void cushim_variant_argmax_f32_i32_ref(const float *x, int32_t *index, int64_t n);

/* ---- quant: blocks whose parts lie where the caller says ---- */

enum cushim_status cushim_variant_gemv(const char *what, const struct quant_parts *parts,
                                       enum quant_format format, const float *x, float *y,
                                       int64_t m, int64_t k, struct CUstream_st *stream);
enum cushim_status cushim_variant_dequant(const char *what, const struct quant_parts *parts,
                                          enum quant_format format, float *y, int64_t rows,
                                          int64_t k, struct CUstream_st *stream);
void cushim_variant_gemm_ref(const struct quant_parts *parts, enum quant_format format,
                             const float *b, float *c, int64_t m, int64_t k, int64_t n);
void cushim_variant_dequant_ref(const struct quant_parts *parts, enum quant_format format, float *y,
                                int64_t rows, int64_t k);

/* ---- layout ---- */

/* The walk, passed by value; elem_bytes is 2 or 4. */
enum cushim_status cushim_variant_transpose_walk(const void *x, void *y,
                                                 const struct cushim_walk *walk, int64_t total,
                                                 size_t elem_bytes, struct CUstream_st *stream);
void cushim_variant_transpose_walk_ref(const void *x, void *y, const struct cushim_walk *walk,
                                       int64_t total, size_t elem_bytes);

/*
 * The same walk with strides[d] = in_strides[perm[d]].  The three arrays [ndim] are in device
 * memory and the kernel reads them; ndim >= 0.
 */
enum cushim_status
cushim_variant_transpose_walk_device(const void *x, void *y, const int32_t *in_strides,
                                     const int32_t *out_strides, const int32_t *perm, int ndim,
                                     int64_t total, size_t elem_bytes, struct CUstream_st *stream);
void cushim_variant_transpose_walk_device_ref(const void *x, void *y, const int32_t *in_strides,
                                              const int32_t *out_strides, const int32_t *perm,
                                              int ndim, int64_t total, size_t elem_bytes);

#endif
