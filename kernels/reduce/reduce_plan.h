/*
 * How a sum along an axis is done: what the host works out before the launch, from sizes alone.
 *
 * The axis is gone through in units of one float, or of four neighbouring ones at any address.  If
 * few sums come from much, the axis is cut into parts.  Their sums go to scratch and a second
 * launch adds them up, or each block of a cluster has one part.  So the order of a sum depends only
 * on the sizes, the device and whether there is scratch.
 */
#ifndef CUSHIM_KERNELS_REDUCE_PLAN_H
#define CUSHIM_KERNELS_REDUCE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/shared/divider.h"

/* The parameters of every sum kernel, passed by value.  A unit is `width` floats: 1 or 4. */
struct reduce_sum {
    int64_t outer;
    int64_t axis;                     /* units along it */
    int64_t stride;                   /* floats from one of them to the next */
    int64_t columns;                  /* units side by side; 1 along rows */
    int64_t n_parts, part;            /* of the axis; units of each but the last */
    int64_t n_items;                  /* blocks' worth of work: outer, parts, tiles */
    struct cushim_divider by_parts;   /* the part of an item */
    struct cushim_divider by_columns; /* finds the tile of an item, or in REDUCE_EACH the column
                                         of a sum */
    int tile_columns, tile_rows, n_tiles_per_block; /* of a tile: columns, rows of threads; in
                                                       REDUCE_LANES: lanes of a row, 1, 1 */
};

enum { REDUCE_MOST_TILE_COLUMNS = 32, REDUCE_MOST_CLUSTER_BLOCKS = 16, REDUCE_MOST_THREADS = 1024 };

#ifndef __cplusplus

/*
 * Along rows (inner is 1) a few lanes have a row, or a block, or a cluster.  Down columns a thread
 * has one, or a tile of threads several neighbouring ones, or a cluster.
 */
enum reduce_way {
    REDUCE_LANES,
    REDUCE_ROW,
    REDUCE_ROW_CLUSTER,
    REDUCE_EACH,
    REDUCE_TILE,
    REDUCE_TILE_CLUSTER
};

struct reduce_plan {
    enum reduce_way way;
    int width;          /* floats of a unit */
    unsigned n_threads; /* in a block */
    int64_t n_blocks;   /* for which there is work; in clusters, without their factor */
    struct reduce_sum sum;
};

/*
 * The number of parts into which the axis is cut for scratch to hold their sums; 1 means that it is
 * not cut.
 */
int64_t reduce_n_parts(int64_t outer, int64_t axis, int64_t inner);

/**
 * Plan one launch: of outer * inner sums, or of n_parts times as many partial ones.
 * @param axis       >= 0; the others >= 1
 * @param n_parts    1, or what reduce_n_parts() returned
 * @param n_cluster  blocks that a cluster may have; 1 if there are no clusters
 */
void reduce_plan_make(struct reduce_plan *plan, int64_t outer, int64_t axis, int64_t inner,
                      int64_t n_parts, unsigned n_cluster, unsigned n_sms);

#endif

#endif
