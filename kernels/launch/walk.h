/* The walk of kernels/launch/variants.h, and the parameter that takes it to a kernel. */
#ifndef CUSHIM_KERNELS_WALK_H
#define CUSHIM_KERNELS_WALK_H

#include <stdint.h>

enum { CUSHIM_WALK_MOST_DIMS = 8 };

/*
 * A walk over `total` elements of y: for each i, rest = i and from = 0; for d = 0 .. ndim - 1, c =
 * rest / out_strides[d], rest %= out_strides[d], from += c * strides[d]; then y[i] = x[from].  No
 * out_stride is 0.  An out_stride need not divide the one before it, nor need the last be 1.
 */
struct cushim_walk {
    int ndim;
    int64_t out_strides[CUSHIM_WALK_MOST_DIMS];
    int64_t strides[CUSHIM_WALK_MOST_DIMS];
};

#endif
