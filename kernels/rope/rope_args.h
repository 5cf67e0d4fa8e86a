/* What the launcher of rope passes to its kernels by value. */
#ifndef CUSHIM_KERNELS_ROPE_ARGS_H
#define CUSHIM_KERNELS_ROPE_ARGS_H

#include <stdint.h>

#include "kernels/shared/divider.h"

struct rope_args {
    const float *x, *cosines, *sines;
    float *y;
    int64_t batch, seq, head_dim, half_rotary, cos_stride;
    struct cushim_divider by_units, by_positions; /* threads of one head, heads of one batch */
};

struct qk_norm_rope_args {
    const void *x, *w_q, *w_k, *cosines, *sines; /* floats, or bfloat16 */
    void *y;
    float eps;
    int64_t n_heads, head_dim, n_q_heads, half_rotary;
};

enum {
    ROPE_ROTATE_THREADS = 128, /* per block */
    ROPE_LONG_THREADS = 256    /* for a head that no warp holds */
};

#endif
