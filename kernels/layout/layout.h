/*
 * What the parts of the layout family share: its kernels, in the order of kernels/layout/layout.c.
 */
#ifndef CUSHIM_KERNELS_LAYOUT_FAMILY_H
#define CUSHIM_KERNELS_LAYOUT_FAMILY_H

/* Units of 1, 2, 4, 8 and 16 bytes; _LARGE is for 2^31 units and more. */
enum layout_kernel {
    LAYOUT_EACH_1,
    LAYOUT_EACH_1_LARGE,
    LAYOUT_EACH_2,
    LAYOUT_EACH_2_LARGE,
    LAYOUT_EACH_4,
    LAYOUT_EACH_4_LARGE,
    LAYOUT_EACH_8,
    LAYOUT_EACH_8_LARGE,
    LAYOUT_EACH_16,
    LAYOUT_EACH_16_LARGE,
    LAYOUT_TILE_1,
    LAYOUT_TILE_2,
    LAYOUT_TILE_4,
    LAYOUT_TILE_8,
    LAYOUT_TILE_16,
    LAYOUT_TILE_2_WIDE,
    LAYOUT_TILE_4_WIDE,
    LAYOUT_TILE_4_LOW,
    LAYOUT_TILE_4_NARROW,
    LAYOUT_TILE_4_SMALL,
    LAYOUT_REPEAT_4,
    LAYOUT_REPEAT_4_LARGE,
    LAYOUT_REPEAT_4_OUT,
    LAYOUT_REPEAT_4_OUT_LARGE,
    LAYOUT_REPEAT_16,
    LAYOUT_REPEAT_16_LARGE,
    LAYOUT_REPEAT_16_OUT,
    LAYOUT_REPEAT_16_OUT_LARGE,
    LAYOUT_WALK_2,
    LAYOUT_WALK_2_ARRAYS,
    LAYOUT_WALK_4,
    LAYOUT_WALK_4_ARRAYS
};

/*
 * There are many more blocks than run at once, so that no multiprocessor gets a long last one.
 * Beyond this many they loop, except wide tiles and small copies.
 */
enum {
    LAYOUT_BLOCK_THREADS = 256,
    LAYOUT_BLOCKS_PER_SM = 1024,
    LAYOUT_FLYING = 4,
    LAYOUT_REPEAT_FLYING = 2 /* of what is read once and written several times */
};

#endif
