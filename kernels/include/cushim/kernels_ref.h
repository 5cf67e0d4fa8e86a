/*
 * The references compute what each kernel of cushim/kernels.h computes, in plain C on host memory.
 *
 * Each takes its kernel's parameters without scratch and stream, checks nothing, and returns when
 * it is done.  Sums, exponentials and quotients are formed in double and rounded once at the store;
 * if a kernel is specified to the bit, its reference uses the same operations.  Any thread may call
 * them.
 */
#ifndef CUSHIM_KERNELS_REF_H
#define CUSHIM_KERNELS_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise ---- */

CUSHIM_API void cushim_add_f32_ref(const float *a, const float *b, float *c, int64_t n);
CUSHIM_API void cushim_sub_f32_ref(const float *a, const float *b, float *c, int64_t n);
CUSHIM_API void cushim_mul_f32_ref(const float *a, const float *b, float *c, int64_t n);
CUSHIM_API void cushim_div_f32_ref(const float *a, const float *b, float *c, int64_t n);
CUSHIM_API void cushim_pow_f32_ref(const float *a, const float *b, float *c, int64_t n);
CUSHIM_API void cushim_add_scalar_f32_ref(const float *a, float *c, float s, int64_t n);
CUSHIM_API void cushim_sub_scalar_f32_ref(const float *a, float *c, float s, int64_t n);
CUSHIM_API void cushim_mul_scalar_f32_ref(const float *a, float *c, float s, int64_t n);
CUSHIM_API void cushim_div_scalar_f32_ref(const float *a, float *c, float s, int64_t n);
CUSHIM_API void cushim_pow_scalar_f32_ref(const float *a, float *c, float s, int64_t n);
CUSHIM_API void cushim_exp_f32_ref(const float *a, float *c, int64_t n);
CUSHIM_API void cushim_log_f32_ref(const float *a, float *c, int64_t n);
CUSHIM_API void cushim_sqrt_f32_ref(const float *a, float *c, int64_t n);
CUSHIM_API void cushim_rsqrt_f32_ref(const float *a, float *c, int64_t n);
CUSHIM_API void cushim_sin_f32_ref(const float *a, float *c, int64_t n);
CUSHIM_API void cushim_cos_f32_ref(const float *a, float *c, int64_t n);
CUSHIM_API void cushim_tanh_f32_ref(const float *a, float *c, int64_t n);
CUSHIM_API void cushim_fill_f32_ref(float *dst, float value, int64_t n);
CUSHIM_API void cushim_add_f16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n);
CUSHIM_API void cushim_sub_f16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n);
CUSHIM_API void cushim_mul_f16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n);
CUSHIM_API void cushim_div_f16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n);
CUSHIM_API void cushim_dropout_f32_ref(const float *in, float *out, float p, float keep_scale,
                                       uint64_t key, int64_t n);
CUSHIM_API void cushim_adamw_f32_ref(float *param, float *m, double *v, float *grad, double beta1,
                                     double beta2, double one_minus_beta1, double one_minus_beta2,
                                     double eps, double alpha, double lr_wd, int64_t n);

/* ---- activation ---- */

CUSHIM_API void cushim_tanh_prime_f32_ref(const float *a, const float *upstream, float *c,
                                          int64_t n);
CUSHIM_API void cushim_swiglu_f32_ref(const float *w1, const float *w3, float *y, int64_t n);

/* ---- position ---- */

CUSHIM_API void cushim_counter_add_i32_ref(int32_t *counter, int32_t delta);
CUSHIM_API void cushim_counter_set_i32_ref(int32_t *counter, int32_t value);
CUSHIM_API void cushim_offset_memcpy_f32_ref(const float *src, const int32_t *position, float *dst,
                                             int64_t dim, int64_t max_len);
CUSHIM_API void cushim_offset_memcpy_f32_f16_ref(const float *src, const int32_t *position,
                                                 uint16_t *dst, int64_t dim, int64_t max_len);
CUSHIM_API void cushim_rope_select_f32_ref(const float *cos_table, const float *sin_table,
                                           const int32_t *position, float *cosines, float *sines,
                                           int64_t rows, int64_t half_rotary);

/* ---- convert ---- */

CUSHIM_API void cushim_convert_f32_f16_ref(const float *src, uint16_t *dst, int64_t n);
CUSHIM_API void cushim_convert_f16_f32_ref(const uint16_t *src, float *dst, int64_t n);
CUSHIM_API void cushim_dequant_e4m3_f16_ref(const uint8_t *src, uint16_t *dst, float scale,
                                            int64_t n);
CUSHIM_API void cushim_add_e4m3_f16_ref(const uint8_t *a, const uint8_t *b, uint16_t *c,
                                        float scale_a, float scale_b, int64_t n);
CUSHIM_API void cushim_mul_e4m3_f16_ref(const uint8_t *a, const uint8_t *b, uint16_t *c,
                                        float scale_a, float scale_b, int64_t n);

/* ---- broadcast ---- */

CUSHIM_API void cushim_add_broadcast2d_f32_ref(const float *a, const float *b, float *c,
                                               int64_t sa_row, int64_t sa_col, int64_t sb_row,
                                               int64_t sb_col, int64_t rows, int64_t cols);
CUSHIM_API void cushim_sub_broadcast2d_f32_ref(const float *a, const float *b, float *c,
                                               int64_t sa_row, int64_t sa_col, int64_t sb_row,
                                               int64_t sb_col, int64_t rows, int64_t cols);
CUSHIM_API void cushim_mul_broadcast2d_f32_ref(const float *a, const float *b, float *c,
                                               int64_t sa_row, int64_t sa_col, int64_t sb_row,
                                               int64_t sb_col, int64_t rows, int64_t cols);
CUSHIM_API void cushim_div_broadcast2d_f32_ref(const float *a, const float *b, float *c,
                                               int64_t sa_row, int64_t sa_col, int64_t sb_row,
                                               int64_t sb_col, int64_t rows, int64_t cols);
CUSHIM_API void cushim_add_broadcast4d_f32_ref(const float *a, const float *b, float *c,
                                               const int64_t *dims, const int64_t *sa,
                                               const int64_t *sb);
CUSHIM_API void cushim_sub_broadcast4d_f32_ref(const float *a, const float *b, float *c,
                                               const int64_t *dims, const int64_t *sa,
                                               const int64_t *sb);
CUSHIM_API void cushim_mul_broadcast4d_f32_ref(const float *a, const float *b, float *c,
                                               const int64_t *dims, const int64_t *sa,
                                               const int64_t *sb);
CUSHIM_API void cushim_div_broadcast4d_f32_ref(const float *a, const float *b, float *c,
                                               const int64_t *dims, const int64_t *sa,
                                               const int64_t *sb);

/* ---- reduce ---- */

CUSHIM_API void cushim_sum_axis_f32_ref(const float *x, float *y, int64_t outer, int64_t axis,
                                        int64_t inner);
CUSHIM_API void cushim_selective_scan_f32_ref(const float *x, const float *a, const float *b,
                                              const float *c, const float *d, float *y,
                                              int64_t batch, int64_t n_channels, int64_t n_states,
                                              int64_t seq);
CUSHIM_API void cushim_argmax_f32_ref(const float *x, int64_t *index, int64_t n);

/* ---- gather ---- */

CUSHIM_API void cushim_gather_f32_i64_ref(const float *table, const int64_t *idx, float *out,
                                          int64_t n, int64_t d, int64_t v);
CUSHIM_API void cushim_gather_f32_i32_ref(const float *table, const int32_t *idx, float *out,
                                          int64_t n, int64_t d, int64_t v);
CUSHIM_API void cushim_gather_q8f_f32_i32_ref(const void *table, const int32_t *idx, float *out,
                                              int64_t n, int64_t d, int64_t v);

/* ---- layout ---- */

CUSHIM_API void cushim_repeat_f32_ref(const float *x, float *y, int64_t outer, int64_t axis,
                                      int64_t inner, int64_t reps);
CUSHIM_API void cushim_transpose2d_f32_ref(const float *x, float *y, int64_t rows, int64_t cols);
CUSHIM_API void cushim_transpose2d_u16_ref(const uint16_t *x, uint16_t *y, int64_t rows,
                                           int64_t cols);
CUSHIM_API void cushim_transpose_nd_f32_ref(const float *x, float *y, const int64_t *shape,
                                            const int32_t *perm, int ndim);
CUSHIM_API void cushim_transpose_nd_u16_ref(const uint16_t *x, uint16_t *y, const int64_t *shape,
                                            const int32_t *perm, int ndim);
CUSHIM_API void cushim_strided_copy_ref(const void *src, void *dst, const int64_t *shape,
                                        const int64_t *strides, int ndim, size_t elem_bytes);

/* ---- bfloat16 ---- */

CUSHIM_API void cushim_add_bf16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n);
CUSHIM_API void cushim_sub_bf16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n);
CUSHIM_API void cushim_mul_bf16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n);
CUSHIM_API void cushim_div_bf16_ref(const uint16_t *a, const uint16_t *b, uint16_t *c, int64_t n);
CUSHIM_API void cushim_exp_bf16_ref(const uint16_t *a, uint16_t *c, int64_t n);
CUSHIM_API void cushim_log_bf16_ref(const uint16_t *a, uint16_t *c, int64_t n);
CUSHIM_API void cushim_sqrt_bf16_ref(const uint16_t *a, uint16_t *c, int64_t n);
CUSHIM_API void cushim_rsqrt_bf16_ref(const uint16_t *a, uint16_t *c, int64_t n);
CUSHIM_API void cushim_tanh_bf16_ref(const uint16_t *a, uint16_t *c, int64_t n);
CUSHIM_API void cushim_convert_f32_bf16_ref(const float *src, uint16_t *dst, int64_t n);
CUSHIM_API void cushim_convert_bf16_f32_ref(const uint16_t *src, float *dst, int64_t n);
CUSHIM_API void cushim_adamw_bf16_ref(uint16_t *param, float *m, double *v, uint16_t *grad,
                                      double beta1, double beta2, double one_minus_beta1,
                                      double one_minus_beta2, double eps, double alpha,
                                      double lr_wd, int64_t n);
CUSHIM_API void cushim_scaled_softmax_bf16_ref(const uint16_t *x, uint16_t *y, float scale,
                                               int64_t outer, int64_t axis, int64_t inner);
CUSHIM_API void cushim_add_rms_norm_bf16_ref(const uint16_t *x, const uint16_t *residual,
                                             const uint16_t *w, uint16_t *y, uint16_t *sum,
                                             float eps, int64_t rows, int64_t d);
CUSHIM_API void cushim_rms_norm_add_bf16_ref(const uint16_t *x, const uint16_t *w,
                                             const uint16_t *residual, uint16_t *y, float eps,
                                             int64_t rows, int64_t d);
CUSHIM_API void cushim_qk_norm_rope_bf16_ref(const uint16_t *x, const uint16_t *w_q,
                                             const uint16_t *w_k, const uint16_t *cosines,
                                             const uint16_t *sines, uint16_t *y, float eps,
                                             int64_t n_heads, int64_t head_dim, int64_t n_q_heads,
                                             int64_t half_rotary);
CUSHIM_API void cushim_sum_axis_bf16_ref(const uint16_t *x, uint16_t *y, float scale, int64_t outer,
                                         int64_t axis, int64_t inner);

/* ---- softmax ---- */

CUSHIM_API void cushim_softmax_f32_ref(const float *x, float *y, int64_t outer, int64_t axis,
                                       int64_t inner);
CUSHIM_API void cushim_scaled_softmax_f32_ref(const float *x, float *y, float scale, int64_t outer,
                                              int64_t axis, int64_t inner);
CUSHIM_API void cushim_softmax_mul_f32_ref(const float *scores, const float *v, float *y,
                                           float scale, int64_t rows, int64_t n, int64_t d);
CUSHIM_API void cushim_scaled_softmax_f16_ref(const uint16_t *x, uint16_t *y, float scale,
                                              int64_t outer, int64_t axis, int64_t inner);

/* ---- norm ---- */

CUSHIM_API void cushim_rms_norm_f32_ref(const float *x, const float *w, float *y, float *rstd,
                                        float eps, int64_t rows, int64_t d);
CUSHIM_API void cushim_add_rms_norm_f32_ref(const float *x, const float *residual, const float *w,
                                            float *y, float *sum, float eps, int64_t rows,
                                            int64_t d);
CUSHIM_API void cushim_rms_norm_add_f32_ref(const float *x, const float *w, const float *residual,
                                            float *y, float eps, int64_t rows, int64_t d);
CUSHIM_API void cushim_rms_norm_f16_ref(const uint16_t *x, const uint16_t *w, uint16_t *y,
                                        float eps, int64_t rows, int64_t d);
CUSHIM_API void cushim_rms_norm_e4m3_f16_ref(const uint8_t *x, const uint16_t *w, uint16_t *y,
                                             float scale, float eps, int64_t rows, int64_t d);

/* ---- rope ---- */

CUSHIM_API void cushim_rope_f32_ref(const float *x, const float *cosines, const float *sines,
                                    float *y, int64_t batch, int64_t seq, int64_t head_dim,
                                    int64_t half_rotary, int64_t cos_stride);
CUSHIM_API void cushim_qk_norm_rope_f32_ref(const float *x, const float *w_q, const float *w_k,
                                            const float *cosines, const float *sines, float *y,
                                            float eps, int64_t n_heads, int64_t head_dim,
                                            int64_t n_q_heads, int64_t half_rotary);

/* ---- encoder ---- */

CUSHIM_API void cushim_layer_norm_f32_ref(const float *x, const float *w, const float *b, float *y,
                                          float *rstd, float eps, int64_t rows, int64_t d);
CUSHIM_API void cushim_layer_norm_backward_f32_ref(const float *dy, const float *x, const float *w,
                                                   const float *rstd, float *dx, float *dw,
                                                   int64_t rows, int64_t d);
CUSHIM_API void cushim_softmax_backward_f32_ref(const float *y, const float *dy, float *dx,
                                                int64_t rows, int64_t d);
CUSHIM_API void cushim_gelu_f32_ref(const float *x, float *y, int64_t n);
CUSHIM_API void cushim_gelu_backward_f32_ref(const float *x, const float *dy, float *dx, int64_t n);

/* ---- product ---- */

struct cushim_matrix_strides; /* cushim/kernels/product.h */

CUSHIM_API void cushim_gemm_strided_f32_ref(const float *a, const float *b, float *c, float alpha,
                                            float beta, int64_t batch, int64_t m, int64_t n,
                                            int64_t k, const struct cushim_matrix_strides *of_a,
                                            const struct cushim_matrix_strides *of_b,
                                            const struct cushim_matrix_strides *of_c);
CUSHIM_API void cushim_gemm_e4m3_f16_ref(const uint8_t *a, const uint8_t *b, uint16_t *c,
                                         float scale_a, float scale_b, int64_t m, int64_t n,
                                         int64_t k);

/* ---- quant ---- */

CUSHIM_API void cushim_dequant_q4k_f32_ref(const void *w, float *y, int64_t rows, int64_t k);
CUSHIM_API void cushim_dequant_q5_0_f32_ref(const void *w, float *y, int64_t rows, int64_t k);
CUSHIM_API void cushim_dequant_q5k_f32_ref(const void *w, float *y, int64_t rows, int64_t k);
CUSHIM_API void cushim_dequant_q6k_f32_ref(const void *w, float *y, int64_t rows, int64_t k);
CUSHIM_API void cushim_gemv_q5_0_f32_ref(const void *w, const float *x, float *y, int64_t m,
                                         int64_t k);
CUSHIM_API void cushim_gemv_q5k_f32_ref(const void *w, const float *x, float *y, int64_t m,
                                        int64_t k);
CUSHIM_API void cushim_gemv_q6k_f32_ref(const void *w, const float *x, float *y, int64_t m,
                                        int64_t k);
CUSHIM_API void cushim_gemv_ternary_f32_ref(const void *w, const float *x, float *y, int64_t m,
                                            int64_t k);
CUSHIM_API void cushim_gemv_e2m1_f16_f32_ref(const void *w, const uint16_t *scales,
                                             const uint16_t *x, float *y, int64_t m, int64_t k);
CUSHIM_API void cushim_gemm_q4k_f32_ref(const void *w, const float *b, float *c, int64_t m,
                                        int64_t k, int64_t n);
CUSHIM_API void cushim_gemm_q5_0_f32_ref(const void *w, const float *b, float *c, int64_t m,
                                         int64_t k, int64_t n);
CUSHIM_API void cushim_gemm_q5k_f32_ref(const void *w, const float *b, float *c, int64_t m,
                                        int64_t k, int64_t n);
CUSHIM_API void cushim_gemm_q6k_f32_ref(const void *w, const float *b, float *c, int64_t m,
                                        int64_t k, int64_t n);

/* ---- gemv ---- */

CUSHIM_API void cushim_gemm_q4_0_f32_ref(const uint16_t *scales, const uint8_t *nibbles,
                                         const float *b, float *c, int64_t m, int64_t k, int64_t n);
CUSHIM_API void cushim_gemm_q8_0_f32_ref(const void *w, const float *b, float *c, int64_t m,
                                         int64_t k, int64_t n);
CUSHIM_API void cushim_gemm_q8f_f32_ref(const void *w, const float *b, float *c, int64_t m,
                                        int64_t k, int64_t n);
CUSHIM_API void cushim_gemv_q4k_f32_ref(const void *w, const float *x, float *y, int64_t m,
                                        int64_t k);
CUSHIM_API void cushim_gemv_add_q4k_f32_ref(const void *w, const float *x, const float *residual,
                                            float *y, int64_t m, int64_t k);
CUSHIM_API void cushim_gemv_swiglu_q4k_f32_ref(const void *w, const float *x, const float *norm,
                                               float *y, float eps, int64_t m, int64_t k);
CUSHIM_API void cushim_gemv_qkv_q4k_f32_ref(const void *w, const float *x, const float *norm,
                                            const float *cos_table, const float *sin_table,
                                            const int32_t *position, float *q, float *keys,
                                            float *values, float eps, int64_t n_q_heads,
                                            int64_t n_kv_heads, int64_t head_dim, int64_t k,
                                            int64_t max_len, int64_t position_stride,
                                            int64_t head_stride);
CUSHIM_API void cushim_gemv_f32_ref(const float *a, const float *x, float *y, int64_t m, int64_t n);
CUSHIM_API void cushim_gemv_f16_ref(const uint16_t *a, const uint16_t *x, uint16_t *y, int64_t m,
                                    int64_t n);
CUSHIM_API void cushim_gemm_batched_small_f32_ref(const float *a, const float *b, float *c,
                                                  int64_t m, int64_t n, int64_t k, int64_t stride_a,
                                                  int64_t stride_b, int64_t stride_c,
                                                  int64_t batch);

/* ---- attention ---- */

struct cushim_kv_strides; /* cushim/kernels/attention.h */
struct cushim_kv_cache;

CUSHIM_API void cushim_attention_f32_ref(const float *q, const float *k, const float *v, float *o,
                                         int64_t batch, int64_t heads, int64_t seq,
                                         int64_t head_dim, bool causal);
CUSHIM_API void cushim_attention_decode_f32_ref(const float *q, const float *k, const float *v,
                                                const int32_t *kv_len_ptr, float *o, int64_t batch,
                                                int64_t n_q_heads, int64_t n_kv_heads,
                                                int64_t head_dim, int64_t kv_len,
                                                int64_t max_kv_len,
                                                const struct cushim_kv_strides *kv);

CUSHIM_API void cushim_attention_cached_f32_ref(const float *q, const struct cushim_kv_cache *cache,
                                                const int32_t *q_begin, const int32_t *q_len,
                                                float *o, int64_t batch, int64_t n_q_heads,
                                                int64_t n_kv_heads, int64_t head_dim,
                                                int64_t max_q_len, bool causal);

/* ---- decoder ---- */

struct cushim_decoder;
CUSHIM_API void cushim_decoder_f32_ref(const struct cushim_decoder *decoder,
                                       const int32_t *position, const int32_t *length, float *h);

#ifdef __cplusplus
}
#endif

#endif
