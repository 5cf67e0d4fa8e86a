/* What the parts of the reduce family share: its kernels, in the order of
 * kernels/reduce/reduce_sum.c. */
#ifndef CUSHIM_KERNELS_REDUCE_FAMILY_H
#define CUSHIM_KERNELS_REDUCE_FAMILY_H

#include "kernels/launch/call.h"

/* Sums: three for each enum reduce_way, in its order (enum reduce_unit). */
enum reduce_unit { REDUCE_UNIT_1, REDUCE_UNIT_4, REDUCE_UNIT_4_ANY, REDUCE_N_UNITS };

enum reduce_kernel {
    REDUCE_SUM_LANES,
    REDUCE_SUM_ROW = REDUCE_SUM_LANES + REDUCE_N_UNITS,
    REDUCE_SUM_ROW_CLUSTER = REDUCE_SUM_ROW + REDUCE_N_UNITS,
    REDUCE_SUM_EACH = REDUCE_SUM_ROW_CLUSTER + REDUCE_N_UNITS,
    REDUCE_SUM_TILE = REDUCE_SUM_EACH + REDUCE_N_UNITS,
    REDUCE_SUM_TILE_CLUSTER = REDUCE_SUM_TILE + REDUCE_N_UNITS,
    REDUCE_ARGMAX_BLOCK = REDUCE_SUM_TILE_CLUSTER + REDUCE_N_UNITS,
    REDUCE_ARGMAX_CLUSTER,
    REDUCE_ARGMAX_PARTS,
    REDUCE_ARGMAX_LAST,
    REDUCE_SUM_BF16_ROWS,
    REDUCE_SUM_BF16_ROWS_WIDE,
    REDUCE_SUM_BF16_COLUMNS,
    REDUCE_SELECTIVE_SCAN
};

/**
 * How many blocks of REDUCE_MOST_THREADS threads a cluster has on the call's device.
 * @param kernel    one that is launched in clusters
 * @param n_blocks  out: 16 or 8; 1 if it has no clusters
 */
enum cushim_status reduce_find_cluster(const struct cushim_kernel_call *call, unsigned kernel,
                                       unsigned *n_blocks);

/* Check scratch; is_enough if there is some and it suffices. */
enum cushim_status reduce_check_scratch(const char *what, const void *scratch, size_t scratch_bytes,
                                        size_t wanted_bytes, bool *is_enough);

#endif
