/* What the launcher of norm passes to its kernels by value. */
#ifndef CUSHIM_KERNELS_NORM_ARGS_H
#define CUSHIM_KERNELS_NORM_ARGS_H

#include <stdint.h>

enum { NORM_STREAM_THREADS = 512 };

struct norm_args {
    const void *x, *w;
    const void *residual; /* of the kinds that add */
    void *y;
    void *extra; /* rstd, which may be NULL, or the sum */
    float scale; /* for e4m3 */
    float eps;
    int64_t rows, d;
    int64_t slice; /* elements of a row in each block of the cluster */
};

#endif
