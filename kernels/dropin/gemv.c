/* libkernels.so: products of matrices, plain and quantised. */
#include "cushim/kernels/gemv.h"
#include "cushim/kernels/product.h"
#include "kernels/dropin/enter.h"

/*
 * Scales and nibbles are in one buffer; the nibbles begin data_offset bytes in.  The caller has no
 * scratch.
 */
int gemm_q4_f32(const void *A_q4, const float *B, float *C, int M, int K, int N, int data_offset,
                cudaStream_t stream) {
    const uint8_t *nibbles = A_q4;
    FORWARD(stream, cushim_gemm_q4_0_f32(A_q4, nibbles ? nibbles + data_offset : NULL, B, C, M, K,
                                         N, NULL, 0, stream));
}

int gemv_q4k_f32(const void *W_q4k, const float *x, float *y, int M, int K, cudaStream_t stream) {
    FORWARD(stream, cushim_gemv_q4k_f32(W_q4k, x, y, M, K, stream));
}

/* cushim_gemv_q4k_f32 chooses what is best on a device. */
int gemv_q4k_dp4a_f32(const void *W_q4k, const float *x, float *y, int M, int K,
                      cudaStream_t stream) {
    return gemv_q4k_f32(W_q4k, x, y, M, K, stream);
}

int gemv_q4k_sm121_f32(const void *W_q4k, const float *x, float *y, int M, int K,
                       cudaStream_t stream) {
    return gemv_q4k_f32(W_q4k, x, y, M, K, stream);
}

int gemv_q4k_check_sm121(void) {
    return 0;
}

/* Blocks of 36 bytes with a float scale, never ggml's of 34. */
int gemm_q8_f32(const void *A_q8, const float *B, float *C, int M, int K, int N,
                cudaStream_t stream) {
    FORWARD(stream, cushim_gemm_q8f_f32(A_q8, B, C, M, K, N, NULL, 0, stream));
}

int launch_sgemv_m1(float *y, const float *A, const float *x, int M, int N, cudaStream_t stream) {
    FORWARD(stream, cushim_gemv_f32(A, x, y, M, N, stream));
}

int launch_gemv_warp_f32(float *y, const float *A, const float *x, int M, int N,
                         cudaStream_t stream) {
    return launch_sgemv_m1(y, A, x, M, N, stream);
}

int launch_gemv_warp_f16(void *y, const void *A, const void *x, int M, int N, cudaStream_t stream) {
    FORWARD(stream, cushim_gemv_f16(A, x, y, M, N, stream));
}

enum { MOST_TINY = 64 };

static bool is_tiny(int size) {
    return size >= 1 && size <= MOST_TINY;
}

/* Unlike in other functions, an empty size is an error here. */
int tiny_batched_gemm_f32(const float *A, const float *B, float *C, int m, int n, int k,
                          long long strideA, long long strideB, long long strideC, int batch,
                          cudaStream_t stream) {
    if (!is_tiny(m) || !is_tiny(n) || !is_tiny(k) || batch < 1)
        return DROPIN_INVALID;
    FORWARD(stream, cushim_gemm_batched_small_f32(A, B, C, m, n, k, strideA, strideB, strideC,
                                                  batch, stream));
}

int launch_fp8_gemm(const void *A, const void *B, void *C, int M, int K, int N,
                    uint32_t scale_a_bits, uint32_t scale_b_bits, cudaStream_t stream) {
    FORWARD(stream, cushim_gemm_e4m3_f16(A, B, C, float_of(scale_a_bits), float_of(scale_b_bits), M,
                                         N, K, stream));
}
