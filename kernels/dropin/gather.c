/* libkernels.so: rows of a table. */
#include "cushim/kernels/gather.h"
#include "kernels/dropin/enter.h"

int launch_gather(const float *table, const long long *indices, float *output, int N, int D, int V,
                  cudaStream_t stream) {
    FORWARD(stream,
            cushim_gather_f32_i64(table, (const int64_t *)indices, output, N, D, V, stream));
}

int launch_gather_i32(const float *table, const int *indices, float *output, int N, int D, int V,
                      cudaStream_t stream) {
    FORWARD(stream, cushim_gather_f32_i32(table, indices, output, N, D, V, stream));
}

int launch_gather_q8_f32(const uint8_t *q8_table, const int *indices, float *output, int N, int D,
                         int V, cudaStream_t stream) {
    FORWARD(stream, cushim_gather_q8f_f32_i32(q8_table, indices, output, N, D, V, stream));
}
