/* Blocks that stay, on the matrix units (sm_90): how a product is launched. */
#ifndef CUSHIM_KERNELS_GEMV_DIRECT_H
#define CUSHIM_KERNELS_GEMV_DIRECT_H

#include "kernels/launch/call.h"

/* A launch on the matrix units, and how many tiles a block has at most. */
struct gemv_direct {
    struct cushim_kernel_shape shape;
    int most_tiles, early_bytes;
};

/* What a launch is for. */
struct gemv_direct_sizes {
    int64_t n_tiles, n_steps, tile_bytes; /* of weights */
    int64_t least_tiles;                  /* with fewer, other kernels are faster */
    unsigned column_bytes;                /* of shared memory for a step of the column */
    unsigned bytes_of_warp;               /* of it, besides */
    int early_bytes; /* of a block's weights, asked for while the kernel ahead still runs */
    bool is_alone;   /* a block has a multiprocessor for itself, be there ever so little to do */
};

/* False where it is not to be had: too few tiles, or too much of k for one block. */
bool cushim_gemv_direct_shape(const struct cushim_kernel_call *call, struct gemv_direct *direct,
                              const struct gemv_direct_sizes *sizes);

#endif
