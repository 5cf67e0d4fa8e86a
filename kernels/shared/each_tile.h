/*
 * The part of an elementwise call that one block does; host and device agree on it here.
 *
 * There is one short block per tile, because blocks that run together then have neighbouring
 * addresses.  Memory answers those faster than a grid of blocks that stay and step.
 */
#ifndef CUSHIM_KERNELS_EACH_TILE_H
#define CUSHIM_KERNELS_EACH_TILE_H

enum {
    EACH_THREADS = 128,
    EACH_PIECES = 2,      /* per thread, of 16 bytes on the side with the larger elements */
    EACH_LONG_PIECES = 1, /* per thread, if it has much to do with each */
    EACH_ELEMENTS = 4     /* per thread, if addresses are not multiples of 16 */
};

#endif
