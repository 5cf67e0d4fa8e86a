/* libkernels.so: quantised matrices. */
#include "cushim/kernels/quant.h"
#include "kernels/dropin/enter.h"

int dequant_q4k_f32(const void *src, float *dst, int rows, int K, cudaStream_t stream) {
    FORWARD(stream, cushim_dequant_q4k_f32(src, dst, rows, K, stream));
}
