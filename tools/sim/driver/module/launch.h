/* Launches as works: for streams and for graph nodes. */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/stream/work.h"

struct sim_device;

struct sim_shape {
    unsigned grid[3], block[3];
    unsigned cluster[3]; /* all 0: none was requested */
    unsigned shared_bytes;
};

/* Shape and parameters, checked and copied; params may be NULL for a kernel without any, `device`
 * if it is not known which will run it. */
CUresult sim_launch_work(CUfunction function, const struct sim_shape *shape, void *const *params,
                         void *const *extra, const struct sim_device *device, struct sim_work *out);

/* Put the launch into the stream of the handle. */
CUresult sim_launch(CUfunction function, const struct sim_shape *shape, CUstream handle,
                    CUstream default_stream, void *const *params, void *const *extra);
