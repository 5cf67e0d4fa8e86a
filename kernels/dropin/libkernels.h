/*
 * libkernels.so: the C interface through which the Go programs zerfoo and ztensor load their
 * kernels.
 *
 * The names, the order of parameters and their types are those of that interface: sizes are int,
 * and a float or double comes as its bits in an unsigned integer, because the caller fills only
 * integer registers.  Every function returns a cudaError_t as an int, 0 for success, and queues its
 * work on the stream.  Each computes what the function of cushim/kernels.h to which it forwards
 * computes; kernels/docs/libkernels.md lists the differences.
 */
#ifndef CUSHIM_DROPIN_LIBKERNELS_H
#define CUSHIM_DROPIN_LIBKERNELS_H

#include <stdint.h>

typedef struct CUstream_st *cudaStream_t;

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- elementwise ---- */

int launch_add(const float *a, const float *b, float *c, int n, cudaStream_t stream);
int launch_sub(const float *a, const float *b, float *c, int n, cudaStream_t stream);
int launch_mul(const float *a, const float *b, float *c, int n, cudaStream_t stream);
int launch_div(const float *a, const float *b, float *c, int n, cudaStream_t stream);
int launch_pow(const float *base, const float *exp, float *c, int n, cudaStream_t stream);

int launch_add_scalar(const float *a, uint32_t s_bits, float *c, int n, cudaStream_t stream);
int launch_sub_scalar(const float *a, uint32_t s_bits, float *c, int n, cudaStream_t stream);
int launch_mul_scalar(const float *a, uint32_t s_bits, float *c, int n, cudaStream_t stream);
int launch_div_scalar(const float *a, uint32_t s_bits, float *c, int n, cudaStream_t stream);
int launch_pow_scalar(const float *a, uint32_t s_bits, float *c, int n, cudaStream_t stream);

int launch_exp(const float *a, float *c, int n, cudaStream_t stream);
int launch_log(const float *a, float *c, int n, cudaStream_t stream);
int launch_sqrt(const float *a, float *c, int n, cudaStream_t stream);
int launch_rsqrt(const float *a, float *c, int n, cudaStream_t stream);
int launch_sin(const float *a, float *c, int n, cudaStream_t stream);
int launch_cos(const float *a, float *c, int n, cudaStream_t stream);
int launch_tanh(const float *a, float *c, int n, cudaStream_t stream);
int launch_fill(float *data, uint32_t value_bits, int n, cudaStream_t stream);

int launch_add_fp16(const void *a, const void *b, void *c, int n, cudaStream_t stream);
int launch_sub_fp16(const void *a, const void *b, void *c, int n, cudaStream_t stream);
int launch_mul_fp16(const void *a, const void *b, void *c, int n, cudaStream_t stream);
int launch_div_fp16(const void *a, const void *b, void *c, int n, cudaStream_t stream);

int dropout_f32(const float *in, float *out, int n, uint32_t p_bits, uint64_t key, int training,
                uint32_t keep_scale_bits, cudaStream_t stream);
int fused_adamw_f32(float *param, float *m, double *v, float *grad, uint64_t beta1_bits,
                    uint64_t beta2_bits, uint64_t one_minus_beta1_bits,
                    uint64_t one_minus_beta2_bits, uint64_t eps_bits, uint64_t alpha_bits,
                    uint64_t lr_wd_bits, int n, cudaStream_t stream);

/* ---- broadcast ---- */

int launch_add_broadcast(const float *a, const float *b, float *c, int sa_row, int sa_col,
                         int sb_row, int sb_col, int M, int D, cudaStream_t stream);
int launch_sub_broadcast(const float *a, const float *b, float *c, int sa_row, int sa_col,
                         int sb_row, int sb_col, int M, int D, cudaStream_t stream);
int launch_mul_broadcast(const float *a, const float *b, float *c, int sa_row, int sa_col,
                         int sb_row, int sb_col, int M, int D, cudaStream_t stream);
int launch_div_broadcast(const float *a, const float *b, float *c, int sa_row, int sa_col,
                         int sb_row, int sb_col, int M, int D, cudaStream_t stream);

int launch_add_broadcast4d(const float *a, const float *b, float *c, int d0, int d1, int d2, int d3,
                           int sa0, int sa1, int sa2, int sa3, int sb0, int sb1, int sb2, int sb3,
                           cudaStream_t stream);
int launch_sub_broadcast4d(const float *a, const float *b, float *c, int d0, int d1, int d2, int d3,
                           int sa0, int sa1, int sa2, int sa3, int sb0, int sb1, int sb2, int sb3,
                           cudaStream_t stream);
int launch_mul_broadcast4d(const float *a, const float *b, float *c, int d0, int d1, int d2, int d3,
                           int sa0, int sa1, int sa2, int sa3, int sb0, int sb1, int sb2, int sb3,
                           cudaStream_t stream);
int launch_div_broadcast4d(const float *a, const float *b, float *c, int d0, int d1, int d2, int d3,
                           int sa0, int sa1, int sa2, int sa3, int sb0, int sb1, int sb2, int sb3,
                           cudaStream_t stream);

/* ---- convert ---- */

int launch_f32_to_fp16(const void *src, void *dst, int n, cudaStream_t stream);
int launch_fp16_to_f32(const void *src, void *dst, int n, cudaStream_t stream);
int launch_dequant_fp8e4m3_to_fp16(const void *input, void *output, uint32_t scale_bits, int n,
                                   cudaStream_t stream);
int launch_fp8_add(const void *a, const void *b, void *c, uint32_t scale_a_bits,
                   uint32_t scale_b_bits, int n, cudaStream_t stream);
int launch_fp8_mul(const void *a, const void *b, void *c, uint32_t scale_a_bits,
                   uint32_t scale_b_bits, int n, cudaStream_t stream);

/* ---- softmax: [outer, axis, inner], given as outer, inner, axis ---- */

int launch_softmax(const float *input, float *output, int outer, int inner, int axis,
                   cudaStream_t stream);
int scaled_softmax_f32(const float *input, float *output, int outer, int inner, int axis,
                       uint32_t scale_bits, cudaStream_t stream);
int launch_fused_softmax_vmul_f32(const float *scores, const float *V, float *output,
                                  uint32_t scale_bits, int BH, int seqKV, int D,
                                  cudaStream_t stream); /* [BH, seqKV, D] of V */
int launch_scaled_softmax_fp16(const void *input, void *output, int outer, int inner, int axis,
                               uint32_t scale_bits, cudaStream_t stream);

/* ---- norm ---- */

int launch_rmsnorm(const float *input, const float *weight, float *output, float *scales,
                   uint32_t eps_bits, int rows, int D, cudaStream_t stream);
int fused_add_rmsnorm_f32(const float *input, const float *residual, const float *weight,
                          float *normed_out, float *sum_out, uint32_t eps_bits, int rows, int D,
                          cudaStream_t stream);
int fused_norm_add_f32(const float *input, const float *weight, const float *residual,
                       float *output, uint32_t eps_bits, int rows, int D, cudaStream_t stream);
int launch_rmsnorm_fp16(const void *input, const void *weight, void *output, uint32_t eps_bits,
                        int rows, int D, cudaStream_t stream);
int launch_fp8_rmsnorm(const void *input, const void *weight, void *output, uint32_t scale_bits,
                       uint32_t eps_bits, int rows, int D, cudaStream_t stream);

/* ---- rope, activation ---- */

int fused_rope_f32(const float *input, const float *cos_angles, const float *sin_angles,
                   float *output, int batch, int seq_len, int head_dim, int half_rotary,
                   int cos_stride, cudaStream_t stream);
int fused_qk_norm_rope_f32(const float *input, const float *weightQ, const float *weightK,
                           const float *cosAngles, const float *sinAngles, float *output,
                           uint32_t eps_bits, int totalHeads, int headDim, int numQHeads,
                           int halfRotary, cudaStream_t stream);
int launch_tanh_prime(const float *a, const float *upstream, float *c, int n, cudaStream_t stream);
int fused_swiglu_f32(const float *w1, const float *w3, float *output, int n, cudaStream_t stream);

/* ---- reduce: scratch of argmax has 8 bytes for each 256 elements begun ---- */

int launch_sum_axis(const float *input, float *output, int outer, int inner, int axis,
                    cudaStream_t stream);
int launch_argmax(const float *input, int *result, void *scratch, int n, cudaStream_t stream);

int launch_selective_scan_forward(const float *x, const float *A, const float *B, const float *C,
                                  const float *D, float *y, int batch, int d_model, int d_state,
                                  int seq_len, cudaStream_t stream); /* D may be NULL */

/* ---- gather, layout ---- */

int launch_gather(const float *table, const long long *indices, float *output, int N, int D, int V,
                  cudaStream_t stream);
int launch_gather_i32(const float *table, const int *indices, float *output, int N, int D, int V,
                      cudaStream_t stream);
int launch_gather_q8_f32(const uint8_t *q8_table, const int *indices, float *output, int N, int D,
                         int V, cudaStream_t stream);
int launch_repeat(const float *src, float *dst, int outerSize, int axisDim, int innerSize, int reps,
                  cudaStream_t stream);
int launch_repeat_interleave_f32(const float *input, float *output, int B, int numKV, int S, int D,
                                 int rep, cudaStream_t stream);
int launch_transpose_2d(const float *input, float *output, int rows, int cols, cudaStream_t stream);
int launch_transpose_nd(const float *input, float *output, const int *in_strides,
                        const int *out_strides, const int *perm, int ndim, int total,
                        cudaStream_t stream);
int launch_transpose_2d_bf16(const unsigned short *input, unsigned short *output, int rows,
                             int cols, cudaStream_t stream);
int launch_transpose_nd_bf16(const unsigned short *input, unsigned short *output,
                             const int *in_strides, const int *out_strides, const int *perm,
                             int ndim, int total, cudaStream_t stream);

/* ---- quantised and plain products ---- */

int gemm_q4_f32(const void *A_q4, const float *B, float *C, int M, int K, int N, int data_offset,
                cudaStream_t stream);
int gemv_q4k_f32(const void *W_q4k, const float *x, float *y, int M, int K, cudaStream_t stream);
int gemv_q4k_dp4a_f32(const void *W_q4k, const float *x, float *y, int M, int K,
                      cudaStream_t stream);
int gemv_q4k_sm121_f32(const void *W_q4k, const float *x, float *y, int M, int K,
                       cudaStream_t stream);
int gemv_q4k_check_sm121(void); /* whether to call the one above: 0 */
int dequant_q4k_f32(const void *src, float *dst, int rows, int K, cudaStream_t stream);
int gemm_q8_f32(const void *A_q8, const float *B, float *C, int M, int K, int N,
                cudaStream_t stream);
int launch_fp8_gemm(const void *A, const void *B, void *C, int M, int K, int N,
                    uint32_t scale_a_bits, uint32_t scale_b_bits, cudaStream_t stream);
int launch_sgemv_m1(float *y, const float *A, const float *x, int M, int N, cudaStream_t stream);
int launch_gemv_warp_f16(void *y, const void *A, const void *x, int M, int N, cudaStream_t stream);
int launch_gemv_warp_f32(float *y, const float *A, const float *x, int M, int N,
                         cudaStream_t stream);
int tiny_batched_gemm_f32(const float *A, const float *B, float *C, int m, int n, int k,
                          long long strideA, long long strideB, long long strideC, int batch,
                          cudaStream_t stream);

int gemv_q5_0_f32(const void *W_q5_0, const float *x, float *y, int M, int K, int qhOffset,
                  int qsOffset, cudaStream_t stream);
int gemv_q5k_f32(const void *W_q5k, const float *x, float *y, int M, int K, cudaStream_t stream);
int gemv_q6k_f32(const void *W_q6k, const float *x, float *y, int M, int K, cudaStream_t stream);
int ternary_gemv_f32(const void *W_ternary, const float *x, float *y, int M, int K,
                     cudaStream_t stream);
int fp4_gemv_f16(const void *W_fp4, const void *scales, const void *x, float *y, int M, int K,
                 cudaStream_t stream);
int dequant_q5_0_f32(const void *src, float *dst, int rows, int K, cudaStream_t stream);
int dequant_q5k_f32(const void *src, float *dst, int rows, int K, cudaStream_t stream);
int dequant_q6k_f32(const void *src, float *dst, int rows, int K, cudaStream_t stream);

/* ---- attention, position ---- */

int flash_attention_forward_f32(const float *Q, const float *K, const float *V, float *O, int batch,
                                int heads, int seq_len, int head_dim, int causal,
                                cudaStream_t stream);
int flash_attention_decode_f32(const float *Q, const float *K, const float *V, float *O, int num_bh,
                               int max_kv_len, int head_dim, int kv_len, const int *kv_len_ptr,
                               int num_q_heads, int num_kv_heads, cudaStream_t stream);
int flash_attention2_forward_f32(const float *Q, const float *K, const float *V, float *O,
                                 int batch, int heads, int seq_len, int head_dim, int causal,
                                 cudaStream_t stream);
int flash_attention2_decode_f32(const float *Q, const float *K, const float *V, float *O,
                                int num_bh, int max_kv_len, int head_dim, int kv_len,
                                const int *kv_len_ptr, int num_q_heads, int num_kv_heads,
                                cudaStream_t stream);
int flash_decode_splitkv_f32(const float *Q, const float *K, const float *V, float *O,
                             float *partial_O, float *partial_lse, int num_bh, int max_kv_len,
                             int head_dim, int kv_len, const int *kv_len_ptr, int num_q_heads,
                             int num_kv_heads, int chunk_size, cudaStream_t stream);
int paged_attention_forward_f32(const float *Q, float *O, const float *const *block_ptrs_k,
                                const float *const *block_ptrs_v, const int *block_indices,
                                int seq_len, int block_size, int head_dim, int num_q_heads,
                                int num_kv_heads, int batch, cudaStream_t stream);
int ragged_attention_forward_f32(const float *Q, const float *K, const float *V, float *O,
                                 const int *seq_lens, const int *cum_seq_lens, int batch,
                                 int num_q_heads, int num_kv_heads, int head_dim,
                                 cudaStream_t stream);
int launch_increment_counter(int *counter, int delta, cudaStream_t stream);
int launch_reset_counter(int *counter, int value, cudaStream_t stream);
int launch_offset_memcpy(float *dst, const float *src, const int *counter, int dim, int maxSeqLen,
                         cudaStream_t stream);
int launch_offset_memcpy_fp16(void *dst, const float *src, const int *counter, int dim,
                              int maxSeqLen, cudaStream_t stream);
int launch_rope_select(const float *cos_table, const float *sin_table, float *cos_out,
                       float *sin_out, const int *counter, int halfRotary, cudaStream_t stream);

/* ---- bfloat16 ---- */

int launch_add_bf16(const void *a, const void *b, void *c, int n, cudaStream_t stream);
int launch_sub_bf16(const void *a, const void *b, void *c, int n, cudaStream_t stream);
int launch_mul_bf16(const void *a, const void *b, void *c, int n, cudaStream_t stream);
int launch_div_bf16(const void *a, const void *b, void *c, int n, cudaStream_t stream);
int launch_exp_bf16(const void *a, void *c, int n, cudaStream_t stream);
int launch_log_bf16(const void *a, void *c, int n, cudaStream_t stream);
int launch_sqrt_bf16(const void *a, void *c, int n, cudaStream_t stream);
int launch_rsqrt_bf16(const void *a, void *c, int n, cudaStream_t stream);
int launch_tanh_bf16(const void *a, void *c, int n, cudaStream_t stream);
int launch_f32_to_bf16(const void *src, void *dst, int n, cudaStream_t stream);
int launch_bf16_to_f32(const void *src, void *dst, int n, cudaStream_t stream);
int fused_adamw_bf16(uint16_t *param, float *m, double *v, uint16_t *grad, uint64_t beta1_bits,
                     uint64_t beta2_bits, uint64_t one_minus_beta1_bits,
                     uint64_t one_minus_beta2_bits, uint64_t eps_bits, uint64_t alpha_bits,
                     uint64_t lr_wd_bits, int n, cudaStream_t stream);
int launch_sum_axis_bf16(const void *input, void *output, int outer, int inner, int axis,
                         uint32_t inv_divisor_bits, cudaStream_t stream);
int launch_scaled_softmax_bf16(const void *input, void *output, int outer, int inner, int axis,
                               uint32_t scale_bits, cudaStream_t stream);
int fused_add_rmsnorm_bf16(const void *input, const void *residual, const void *weight,
                           void *normed_out, void *sum_out, uint32_t eps_bits, int rows, int D,
                           cudaStream_t stream);
int fused_norm_add_bf16(const void *input, const void *weight, const void *residual, void *output,
                        uint32_t eps_bits, int rows, int D, cudaStream_t stream);
int fused_qk_norm_rope_bf16(const void *input, const void *weightQ, const void *weightK,
                            const void *cosAngles, const void *sinAngles, void *output,
                            uint32_t eps_bits, int totalHeads, int headDim, int numQHeads,
                            int halfRotary, cudaStream_t stream);

/* ---- a layer of an encoder: arrays of device pointers on the host ---- */

int fused_encoder_fwd_f32(void *cublas_handle, const void **weights, void **bufs,
                          const float *input, float *output, int totalRows, int dModel, int nHeads,
                          int headDim, int ffnDim, int bsC, int numPatches, cudaStream_t stream);
long long fused_encoder_fwd_scratch_bytes(int totalRows, int dModel, int nHeads, int headDim,
                                          int ffnDim, int bsC, int numPatches);
int fused_encoder_bwd_f32(void *cublas_handle, const void **weights, const void **weight_t,
                          const void **fwd_bufs, void **bwd_bufs, void **grads,
                          const float *dOutput, float *dInput, const float *input, int totalRows,
                          int dModel, int nHeads, int headDim, int ffnDim, int bsC, int numPatches,
                          cudaStream_t stream);

/* ---- refused: 801 ---- */

int iq_dequant_2xxs_f32(void);
int iq_dequant_3s_f32(void);
int iq_dequant_nl_f32(void);
int kv_dequant_q3_f32(void);
int kv_dequant_q4_f32(void);
int nsa_attention_f32(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
