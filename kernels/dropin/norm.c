/* libkernels.so: normalisation. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/norm.h"
#include "kernels/dropin/enter.h"
#include "kernels/launch/variants.h"

int launch_rmsnorm(const float *input, const float *weight, float *output, float *scales,
                   uint32_t eps_bits, int rows, int D, cudaStream_t stream) {
    FORWARD(stream, cushim_rms_norm_f32(input, weight, output, scales, float_of(eps_bits), rows, D,
                                        stream));
}

int fused_add_rmsnorm_f32(const float *input, const float *residual, const float *weight,
                          float *normed_out, float *sum_out, uint32_t eps_bits, int rows, int D,
                          cudaStream_t stream) {
    FORWARD(stream, cushim_add_rms_norm_f32(input, residual, weight, normed_out, sum_out,
                                            float_of(eps_bits), rows, D, stream));
}

int fused_norm_add_f32(const float *input, const float *weight, const float *residual,
                       float *output, uint32_t eps_bits, int rows, int D, cudaStream_t stream) {
    FORWARD(stream, cushim_rms_norm_add_f32(input, weight, residual, output, float_of(eps_bits),
                                            rows, D, stream));
}

int launch_rmsnorm_fp16(const void *input, const void *weight, void *output, uint32_t eps_bits,
                        int rows, int D, cudaStream_t stream) {
    FORWARD(stream,
            cushim_rms_norm_f16(input, weight, output, float_of(eps_bits), rows, D, stream));
}

/* Every code of e4m3 is finite here: 0x7F is 480. */
int launch_fp8_rmsnorm(const void *input, const void *weight, void *output, uint32_t scale_bits,
                       uint32_t eps_bits, int rows, int D, cudaStream_t stream) {
    FORWARD(stream, cushim_variant_rms_norm_e4m3_f16(input, weight, output, float_of(scale_bits),
                                                     float_of(eps_bits), rows, D, stream));
}

int fused_add_rmsnorm_bf16(const void *input, const void *residual, const void *weight,
                           void *normed_out, void *sum_out, uint32_t eps_bits, int rows, int D,
                           cudaStream_t stream) {
    FORWARD(stream, cushim_add_rms_norm_bf16(input, residual, weight, normed_out, sum_out,
                                             float_of(eps_bits), rows, D, stream));
}

int fused_norm_add_bf16(const void *input, const void *weight, const void *residual, void *output,
                        uint32_t eps_bits, int rows, int D, cudaStream_t stream) {
    FORWARD(stream, cushim_rms_norm_add_bf16(input, weight, residual, output, float_of(eps_bits),
                                             rows, D, stream));
}
