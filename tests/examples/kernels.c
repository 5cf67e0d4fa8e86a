/* The kernels of docs/examples/kernels.ptx for the software device, which looks them up by name. */
#include <stdint.h>

#include "tools/sim/sim.h"

SIM_KERNEL(scale, float *, float, uint32_t) {
    uint32_t n_threads = launch->grid[0] * launch->block[0], n = SIM_ARG(uint32_t, 2);
    for (uint32_t i = 0; i < n_threads && i < n; i++)
        SIM_ARG(float *, 0)[i] *= SIM_ARG(float, 1);
}

SIM_KERNEL(advance, uint32_t *, uint32_t *) {
    (void)launch;
    uint32_t *counter = SIM_ARG(uint32_t *, 0);
    SIM_ARG(uint32_t *, 1)[*counter] = 100 + *counter;
    (*counter)++;
}

SIM_KERNEL(sum, uint32_t *, const uint32_t *, uint32_t) {
    (void)launch;
    uint32_t total = 0;
    for (uint32_t i = 0; i < SIM_ARG(uint32_t, 2); i++)
        total += SIM_ARG(const uint32_t *, 1)[i];
    *SIM_ARG(uint32_t *, 0) = total;
}
