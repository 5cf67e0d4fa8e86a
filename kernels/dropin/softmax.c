/* libkernels.so: softmax.  The sizes come as outer, inner, axis; ours are in memory order. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/softmax.h"
#include "kernels/dropin/enter.h"

int launch_softmax(const float *input, float *output, int outer, int inner, int axis,
                   cudaStream_t stream) {
    FORWARD(stream, cushim_softmax_f32(input, output, outer, axis, inner, stream));
}

int scaled_softmax_f32(const float *input, float *output, int outer, int inner, int axis,
                       uint32_t scale_bits, cudaStream_t stream) {
    FORWARD(stream, cushim_scaled_softmax_f32(input, output, float_of(scale_bits), outer, axis,
                                              inner, stream));
}

int launch_scaled_softmax_fp16(const void *input, void *output, int outer, int inner, int axis,
                               uint32_t scale_bits, cudaStream_t stream) {
    FORWARD(stream, cushim_scaled_softmax_f16(input, output, float_of(scale_bits), outer, axis,
                                              inner, stream));
}

int launch_scaled_softmax_bf16(const void *input, void *output, int outer, int inner, int axis,
                               uint32_t scale_bits, cudaStream_t stream) {
    FORWARD(stream, cushim_scaled_softmax_bf16(input, output, float_of(scale_bits), outer, axis,
                                               inner, stream));
}

int launch_fused_softmax_vmul_f32(const float *scores, const float *V, float *output,
                                  uint32_t scale_bits, int BH, int seqKV, int D,
                                  cudaStream_t stream) {
    FORWARD(stream,
            cushim_softmax_mul_f32(scores, V, output, float_of(scale_bits), BH, seqKV, D, stream));
}
