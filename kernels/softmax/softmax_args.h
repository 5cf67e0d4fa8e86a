/* What the launcher of softmax passes to its kernels by value. */
#ifndef CUSHIM_KERNELS_SOFTMAX_ARGS_H
#define CUSHIM_KERNELS_SOFTMAX_ARGS_H

#include <stdint.h>

#include "kernels/shared/divider.h"

enum {
    SOFTMAX_STREAM_THREADS = 512,
    SOFTMAX_TILE_THREADS = 256, /* of both kinds of tile over columns */
    SOFTMAX_TILE_ACROSS = 4     /* of which lie along the row of a tile in registers */
};

struct softmax_args {
    const void *x;
    void *y;
    float scale;
    int across;                     /* threads along inner, if the tile is not in registers */
    int64_t outer, axis, inner;     /* inner is 1 in the kernels of rows */
    struct cushim_divider by_tiles; /* tiles along inner */
    int64_t slice;                  /* elements of a row in each block of the cluster */
};

#endif
