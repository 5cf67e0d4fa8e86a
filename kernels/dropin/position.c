/* libkernels.so: what depends on a position in device memory. */
#include "cushim/kernels/position.h"
#include "kernels/dropin/enter.h"

int launch_increment_counter(int *counter, int delta, cudaStream_t stream) {
    FORWARD(stream, cushim_counter_add_i32(counter, delta, stream));
}

int launch_reset_counter(int *counter, int value, cudaStream_t stream) {
    FORWARD(stream, cushim_counter_set_i32(counter, value, stream));
}

int launch_offset_memcpy(float *dst, const float *src, const int *counter, int dim, int maxSeqLen,
                         cudaStream_t stream) {
    FORWARD(stream, cushim_offset_memcpy_f32(src, counter, dst, dim, maxSeqLen, stream));
}

int launch_offset_memcpy_fp16(void *dst, const float *src, const int *counter, int dim,
                              int maxSeqLen, cudaStream_t stream) {
    FORWARD(stream, cushim_offset_memcpy_f32_f16(src, counter, dst, dim, maxSeqLen, stream));
}

/*
 * The caller does not say how long the tables are, so as many rows as memory could hold are
 * assumed.
 */
int launch_rope_select(const float *cos_table, const float *sin_table, float *cos_out,
                       float *sin_out, const int *counter, int halfRotary, cudaStream_t stream) {
    int64_t rows = INT64_MAX / (int64_t)sizeof(float) / (halfRotary > 0 ? halfRotary : 1);
    FORWARD(stream, cushim_rope_select_f32(cos_table, sin_table, counter, cos_out, sin_out, rows,
                                           halfRotary, stream));
}
