/* What the launcher and the device code of products at any strides agree on. */
#ifndef CUSHIM_KERNELS_PRODUCT_FAMILY_H
#define CUSHIM_KERNELS_PRODUCT_FAMILY_H

#include <stdint.h>

enum { PRODUCT_TILE = 64, PRODUCT_DEPTH = 32, PRODUCT_THREADS = 256 };

/* Strides in elements. */
struct product_place {
    int64_t batch, row, column;
};

struct product_args {
    const void *a, *b;
    void *c;
    float alpha, beta;
    int64_t batch, m, n, k;
    struct product_place of_a, of_b, of_c;
};

#endif
