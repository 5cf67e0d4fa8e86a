/* libkernels.so: conversions.  In this interface every code of e4m3 is finite: 0x7F is 480. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/convert.h"
#include "kernels/dropin/enter.h"
#include "kernels/launch/variants.h"

int launch_f32_to_fp16(const void *src, void *dst, int n, cudaStream_t stream) {
    FORWARD(stream, cushim_convert_f32_f16(src, dst, n, stream));
}

int launch_fp16_to_f32(const void *src, void *dst, int n, cudaStream_t stream) {
    FORWARD(stream, cushim_convert_f16_f32(src, dst, n, stream));
}

int launch_dequant_fp8e4m3_to_fp16(const void *input, void *output, uint32_t scale_bits, int n,
                                   cudaStream_t stream) {
    FORWARD(stream,
            cushim_variant_dequant_e4m3_f16(input, output, float_of(scale_bits), n, stream));
}

int launch_fp8_add(const void *a, const void *b, void *c, uint32_t scale_a_bits,
                   uint32_t scale_b_bits, int n, cudaStream_t stream) {
    FORWARD(stream, cushim_variant_add_e4m3_f16(a, b, c, float_of(scale_a_bits),
                                                float_of(scale_b_bits), n, stream));
}

int launch_fp8_mul(const void *a, const void *b, void *c, uint32_t scale_a_bits,
                   uint32_t scale_b_bits, int n, cudaStream_t stream) {
    FORWARD(stream, cushim_variant_mul_e4m3_f16(a, b, c, float_of(scale_a_bits),
                                                float_of(scale_b_bits), n, stream));
}

int launch_f32_to_bf16(const void *src, void *dst, int n, cudaStream_t stream) {
    FORWARD(stream, cushim_convert_f32_bf16(src, dst, n, stream));
}

int launch_bf16_to_f32(const void *src, void *dst, int n, cudaStream_t stream) {
    FORWARD(stream, cushim_convert_bf16_f32(src, dst, n, stream));
}
