/* libkernels.so: rotary positions. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/rope.h"
#include "kernels/dropin/enter.h"

int fused_rope_f32(const float *input, const float *cos_angles, const float *sin_angles,
                   float *output, int batch, int seq_len, int head_dim, int half_rotary,
                   int cos_stride, cudaStream_t stream) {
    FORWARD(stream, cushim_rope_f32(input, cos_angles, sin_angles, output, batch, seq_len, head_dim,
                                    half_rotary, cos_stride, stream));
}

int fused_qk_norm_rope_f32(const float *input, const float *weightQ, const float *weightK,
                           const float *cosAngles, const float *sinAngles, float *output,
                           uint32_t eps_bits, int totalHeads, int headDim, int numQHeads,
                           int halfRotary, cudaStream_t stream) {
    FORWARD(stream, cushim_qk_norm_rope_f32(input, weightQ, weightK, cosAngles, sinAngles, output,
                                            float_of(eps_bits), totalHeads, headDim, numQHeads,
                                            halfRotary, stream));
}

int fused_qk_norm_rope_bf16(const void *input, const void *weightQ, const void *weightK,
                            const void *cosAngles, const void *sinAngles, void *output,
                            uint32_t eps_bits, int totalHeads, int headDim, int numQHeads,
                            int halfRotary, cudaStream_t stream) {
    FORWARD(stream, cushim_qk_norm_rope_bf16(input, weightQ, weightK, cosAngles, sinAngles, output,
                                             float_of(eps_bits), totalHeads, headDim, numQHeads,
                                             halfRotary, stream));
}
