/*
 * What a broadcast kernel gets: the output as rows of columns, after axes were merged.
 *
 * A row's number has up to three digits, (i0 * by_1 + i1) * by_2 + i2; a column is one access, of
 * four elements in the wide kernels. broadcast.c fills this in and passes it by value.
 */
#ifndef CUSHIM_KERNELS_BROADCAST_ROWS_H
#define CUSHIM_KERNELS_BROADCAST_ROWS_H

#include <stdint.h>

#include "kernels/shared/divider.h"

enum {
    BROADCAST_TILE_THREADS = 128,
    BROADCAST_TILE_COLS = 256 /* accesses of a tile, all of one row */
};

struct cushim_broadcast_operand {
    int64_t strides[3]; /* of the digits, in elements */
    int64_t col_stride; /* in elements; the name of a wide kernel says whether it is 1 or 0 */
    int32_t is_fixed;   /* the same in all rows, because its strides are 0 or there is one row */
};

struct cushim_broadcast_rows {
    int64_t n_rows, n_cols;
    struct cushim_divider by_1, by_2; /* the sizes of i1 and i2 */
    struct cushim_broadcast_operand a, b;
    int32_t is_flat; /* only i2 varies: it is the row's number */
};

#endif
