/* Blocks that stay (sm_90): how a product with a quantised matrix is launched. */
#ifndef CUSHIM_KERNELS_GEMV_DIRECT_H
#define CUSHIM_KERNELS_GEMV_DIRECT_H

#include "kernels/gemv/gemv_kernels.h"
#include "kernels/launch/call.h"

/* A launch on the matrix units. */
struct gemv_direct {
    struct cushim_kernel_shape shape;
    int most_tiles;  /* of a block */
    int early_bytes; /* of a block's weights, asked for while the kernel ahead still runs */
};

/* The sizes of a launch. */
struct gemv_direct_sizes {
    int64_t n_tiles, n_steps, tile_bytes; /* of weights */
    int64_t least_tiles;                  /* with fewer, other kernels are faster */
    unsigned n_cols;
    unsigned column_bytes;  /* of shared memory for a step of a column */
    unsigned bytes_of_warp; /* of shared memory, for each warp */
    int early_bytes;        /* if a block cannot ask for all its weights early */
    bool is_alone;          /* a block always has a multiprocessor for itself */
    bool may_share;         /* blocks of a cluster may share k */
};

/*
 * One or two columns on the matrix units, in tiles of 16 rows.  False if there are too few tiles,
 * or too much of k for a block, or for the two that may share it.
 */
bool cushim_gemv_direct_shape(const struct cushim_kernel_call *call, struct gemv_direct *direct,
                              const struct gemv_direct_sizes *sizes);

/* Clusters of n_blocks that certainly run at the same time, if a block has a multiprocessor. */
int64_t cushim_gemv_n_clusters(const struct cushim_kernel_call *call, unsigned n_blocks);

/* A few columns by slices of k.  False if it does not fit. */
bool cushim_gemv_slices_shape(const struct cushim_kernel_call *call,
                              struct cushim_kernel_shape *shape, struct gemv_slices *slices,
                              int64_t m, int64_t k, int64_t n_cols, int64_t row_bytes);

#endif
