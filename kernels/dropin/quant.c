/* libkernels.so: quantised matrices. */
#include "cushim/kernels/quant.h"
#include "kernels/dropin/enter.h"
#include "kernels/launch/variants.h"

int dequant_q4k_f32(const void *src, float *dst, int rows, int K, cudaStream_t stream) {
    FORWARD(stream, cushim_dequant_q4k_f32(src, dst, rows, K, stream));
}

/*
 * ---- five and six bits.  q5_0 comes in three regions: scales, high bits, nibbles.  Super-blocks
 * of q5k have their nibbles before their high bits; those of q6k are ggml's ----
 */

static struct quant_parts q5k_parts(const uint8_t *w) {
    return w ? (struct quant_parts){w, w + 144, w + 16, 176, 176, 176} : (struct quant_parts){0};
}

int gemv_q5_0_f32(const void *W_q5_0, const float *x, float *y, int M, int K, int qhOffset,
                  int qsOffset, cudaStream_t stream) {
    const uint8_t *w = W_q5_0;
    struct quant_parts parts = {0};
    if (w)
        parts = (struct quant_parts){w, w + qhOffset, w + qsOffset, 2, 4, 16};
    FORWARD(stream, cushim_variant_gemv(__func__, &parts, QUANT_Q5_0, x, y, M, K, stream));
}

int gemv_q5k_f32(const void *W_q5k, const float *x, float *y, int M, int K, cudaStream_t stream) {
    struct quant_parts parts = q5k_parts(W_q5k);
    FORWARD(stream, cushim_variant_gemv(__func__, &parts, QUANT_Q5K, x, y, M, K, stream));
}

int gemv_q6k_f32(const void *W_q6k, const float *x, float *y, int M, int K, cudaStream_t stream) {
    FORWARD(stream, cushim_gemv_q6k_f32(W_q6k, x, y, M, K, stream));
}

int dequant_q5_0_f32(const void *src, float *dst, int rows, int K, cudaStream_t stream) {
    FORWARD(stream, cushim_dequant_q5_0_f32(src, dst, rows, K, stream));
}

int dequant_q5k_f32(const void *src, float *dst, int rows, int K, cudaStream_t stream) {
    struct quant_parts parts = q5k_parts(src);
    FORWARD(stream, cushim_variant_dequant(__func__, &parts, QUANT_Q5K, dst, rows, K, stream));
}

int dequant_q6k_f32(const void *src, float *dst, int rows, int K, cudaStream_t stream) {
    FORWARD(stream, cushim_dequant_q6k_f32(src, dst, rows, K, stream));
}

int ternary_gemv_f32(const void *W_ternary, const float *x, float *y, int M, int K,
                     cudaStream_t stream) {
    FORWARD(stream, cushim_gemv_ternary_f32(W_ternary, x, y, M, K, stream));
}

/* On any device, not only from 10.0 on. */
int fp4_gemv_f16(const void *W_fp4, const void *scales, const void *x, float *y, int M, int K,
                 cudaStream_t stream) {
    FORWARD(stream, cushim_gemv_e2m1_f16_f32(W_fp4, scales, x, y, M, K, stream));
}
