/* libkernels.so: reductions.  Sizes come as outer, inner, axis; the index of argmax has 32 bits. */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/reduce.h"
#include "kernels/dropin/enter.h"
#include "kernels/launch/variants.h"

int launch_sum_axis(const float *input, float *output, int outer, int inner, int axis,
                    cudaStream_t stream) {
    FORWARD(stream, cushim_sum_axis_f32(input, output, outer, axis, inner, NULL, 0, stream));
}

/* The caller has 8 bytes of scratch for each 256 elements begun, at a multiple of 4. */
int launch_argmax(const float *input, int *result, void *scratch, int n, cudaStream_t stream) {
    size_t scratch_bytes = scratch && n > 0 ? ((size_t)n + 255) / 256 * 8 : 0;
    FORWARD(stream,
            cushim_variant_argmax_f32_i32(input, result, n, scratch, scratch_bytes, stream));
}

int launch_sum_axis_bf16(const void *input, void *output, int outer, int inner, int axis,
                         uint32_t inv_divisor_bits, cudaStream_t stream) {
    FORWARD(stream, cushim_sum_axis_bf16(input, output, float_of(inv_divisor_bits), outer, axis,
                                         inner, stream));
}

int launch_selective_scan_forward(const float *x, const float *A, const float *B, const float *C,
                                  const float *D, float *y, int batch, int d_model, int d_state,
                                  int seq_len, cudaStream_t stream) {
    FORWARD(stream,
            cushim_selective_scan_f32(x, A, B, C, D, y, batch, d_model, d_state, seq_len, stream));
}
