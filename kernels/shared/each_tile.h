/*
 * The part of an elementwise call that a block does, as host and device have to agree on it.
 *
 * Blocks are short and as many as there are tiles: those that run at a time are then at
 * neighbouring addresses, which memory answers faster than a grid of blocks that stay and step.
 */
#ifndef CUSHIM_KERNELS_EACH_TILE_H
#define CUSHIM_KERNELS_EACH_TILE_H

enum {
    EACH_THREADS = 128,
    EACH_PIECES = 2,      /* a thread, of 16 bytes on the side with the larger elements */
    EACH_LONG_PIECES = 1, /* the same, where a thread has much to do with each */
    EACH_ELEMENTS = 4     /* a thread, where addresses are no multiples of 16 */
};

#endif
