/*
 * The choice among kernels that hold a row in registers (kernels/shared/row_shapes.def), for the
 * launchers of softmax and norm.  Kernels use the constants too.
 */
#ifndef CUSHIM_KERNELS_ROW_H
#define CUSHIM_KERNELS_ROW_H

#include <stdint.h>

enum {
    CUSHIM_ROW_BLOCK_THREADS = 128,
    CUSHIM_ROW_MOST_CLUSTER = 16,
    CUSHIM_ROW_SHARED_BYTES = 784, /* at least what a Meeting of two floats has */
};

/* The index of each shape in its list, and the lengths of the lists. */
#define ROW_SHAPE(threads, elements, when) ROW_##threads##_##elements,
enum {
#include "kernels/shared/row_shapes.def"
    N_ROW_SHAPES
};
#define LONG_SHAPE(threads, elements, when) LONG_##threads##_##elements,
enum {
#include "kernels/shared/row_shapes.def"
    N_LONG_SHAPES
};
#define CLUSTER_SHAPE(threads, elements, when) CLUSTER_##threads##_##elements,
enum {
#include "kernels/shared/row_shapes.def"
    N_CLUSTER_SHAPES
};

#define ONE_SHAPE(threads, elements, when) ONE_##threads##_##elements,
enum {
#include "kernels/shared/row_shapes.def"
    N_ONE_SHAPES
};

#ifndef __cplusplus
#include "kernels/launch/call.h"

/* In ONE accesses are of one element, in STREAM of either width, in the rest wide. */
enum cushim_row_kind {
    CUSHIM_ROW_ONE,
    CUSHIM_ROW_BLOCK,
    CUSHIM_ROW_LONG,
    CUSHIM_ROW_CLUSTER,
    CUSHIM_ROW_STREAM
};

struct cushim_row_plan {
    enum cushim_row_kind kind; /* STREAM if no shape holds the row; the rest is 0 then */
    unsigned index;            /* in the list of its kind */
    struct cushim_kernel_shape shape;
    int64_t slice; /* elements of a row in each block of the cluster */
};

/* The kernels of a family. */
struct cushim_row_kernels {
    bool is_wide;      /* accesses are wide */
    bool is_half;      /* of halves: if is_wide, a shape has twice as many elements */
    bool is_heavy;     /* another tensor is read with each row */
    unsigned clusters; /* the kernel of the first CLUSTER_SHAPE */
    unsigned stride;   /* from it to that of the next one */
};

/*
 * The elements of a row that a block of a cluster has.  Slices begin at lines of memory if rows do.
 */
int64_t cushim_row_slice(int64_t axis, int64_t n_blocks);

/**
 * Choose the kernel for rows.
 * @param n_rows, axis  at least 1
 */
enum cushim_status cushim_row_plan(const struct cushim_kernel_call *call,
                                   const struct cushim_row_kernels *kernels, int64_t n_rows,
                                   int64_t axis, struct cushim_row_plan *plan);
#endif

#endif
