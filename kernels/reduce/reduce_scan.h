/* What the launcher and the device code of the selective scan agree on. */
#ifndef CUSHIM_KERNELS_REDUCE_SCAN_H
#define CUSHIM_KERNELS_REDUCE_SCAN_H

#include <stdint.h>

enum { REDUCE_SCAN_LANES = 16, REDUCE_SCAN_THREADS = 128 };

struct scan_args {
    const float *x, *a, *b, *c, *d; /* d may be NULL */
    float *y;
    int64_t batch, n_channels, n_states, seq;
};

#endif
