/*
 * How a strided copy is done: what the host works out before the launch.
 *
 * A plan turns shape, strides, addresses and element size into axes over units of 1, 2, 4, 8 or 16
 * bytes.  Units are as wide as addresses and strides allow, and axes as few as possible: axes of
 * one element are left out, and two that lie in memory like one are joined.  It reads no memory
 * except its arguments.  The structs that go to the device (the device headers of kernels/layout)
 * are here too.
 */
#ifndef CUSHIM_KERNELS_LAYOUT_PLAN_H
#define CUSHIM_KERNELS_LAYOUT_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/shared/divider.h"

/* Dimensions of a call, and one for the bytes of an element. */
enum { LAYOUT_MOST_DIMS = 8, LAYOUT_MOST_AXES = LAYOUT_MOST_DIMS + 1 };

/* An axis of the output, and the distance of its elements; in units. */
struct layout_axis {
    struct cushim_divider size;
    int64_t from, to; /* in the source, in the output */
};

/* The output unit by unit: axes from the innermost out. */
struct layout_each {
    int64_t n; /* units of the output, >= 1 */
    int n_axes;
    struct layout_axis axes[LAYOUT_MOST_AXES];
};

/*
 * The output by tiles.  A tile is a range of `a`, which is dense in the output, by a range of `b`,
 * which is dense in the source; there are such tiles for every place along the other axes.  The
 * axes are a's, b's and the others', each from the innermost out.
 */
struct layout_tile {
    int64_t n_a, n_b;                       /* units along a and b */
    int64_t n_tiles;                        /* in total */
    struct cushim_divider tiles_a, tiles_b; /* at one place of the others */
    int n_a_axes, n_b_axes, n_other_axes;
    struct layout_axis axes[LAYOUT_MOST_AXES];
};

/* The same with one axis each for a and b and at most one besides. */
struct layout_small {
    uint32_t n_a, n_b;
    int64_t a_from, b_to, other_from, other_to;
};

#ifndef __cplusplus

enum layout_path {
    LAYOUT_BY_UNIT,
    LAYOUT_BY_TILE,
    LAYOUT_BY_WIDE_TILE,   /* units of 2 or 4 bytes, read and written 16 bytes at a time */
    LAYOUT_BY_LOW_TILE,    /* the same of 4 bytes, with no more than 32 units along a */
    LAYOUT_BY_NARROW_TILE, /* the same with no more than 32 units along b */
    LAYOUT_BY_SMALL_TILE   /* few tiles, of half the side: units of 4 bytes, at most three axes */
};

struct layout_plan {
    enum layout_path path;
    size_t unit_bytes;
    struct layout_each each; /* on any path */
    struct layout_tile tile; /* on a tile path */
};

/**
 * Work out how to copy.
 * @param shape, strides  [ndim], no size 0; strides in elements.  The caller has checked that
 *                        neither the bytes of the output nor an offset overflows
 * @param ndim            0 .. LAYOUT_MOST_DIMS
 * @param elem_bytes      >= 1
 * @param n_sms           of the device
 */
void layout_plan_make(struct layout_plan *plan, const void *src, const void *dst,
                      const int64_t *shape, const int64_t *strides, int ndim, size_t elem_bytes,
                      unsigned n_sms);

#endif

#endif
