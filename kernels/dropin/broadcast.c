/* libkernels.so: broadcasting. */
#include "cushim/kernels/broadcast.h"
#include "kernels/dropin/enter.h"

#define BROADCAST(op)                                                                              \
    int launch_##op##_broadcast(const float *a, const float *b, float *c, int sa_row, int sa_col,  \
                                int sb_row, int sb_col, int M, int D, cudaStream_t stream) {       \
        FORWARD(stream, cushim_##op##_broadcast2d_f32(a, b, c, sa_row, sa_col, sb_row, sb_col, M,  \
                                                      D, stream));                                 \
    }                                                                                              \
    int launch_##op##_broadcast4d(const float *a, const float *b, float *c, int d0, int d1,        \
                                  int d2, int d3, int sa0, int sa1, int sa2, int sa3, int sb0,     \
                                  int sb1, int sb2, int sb3, cudaStream_t stream) {                \
        const int64_t dims[] = {d0, d1, d2, d3};                                                   \
        const int64_t sa[] = {sa0, sa1, sa2, sa3}, sb[] = {sb0, sb1, sb2, sb3};                    \
        FORWARD(stream, cushim_##op##_broadcast4d_f32(a, b, c, dims, sa, sb, stream));             \
    }

BROADCAST(add)
BROADCAST(sub)
BROADCAST(mul)
BROADCAST(div)
