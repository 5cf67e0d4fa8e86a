/* Launches as works: for streams and for graph nodes. */
#ifndef CUSHIM_SIM_LAUNCH_H
#define CUSHIM_SIM_LAUNCH_H

#include "abi.h"
#include "work.h"

/* Shape and parameters, checked and copied; params may be NULL for a kernel without any. */
CUresult sim_launch_work(CUfunction function, const unsigned grid[3], const unsigned block[3],
                         unsigned shared_bytes, void *const *params, void *const *extra,
                         struct sim_work *out);

#endif
