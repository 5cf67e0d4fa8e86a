/* Sets: checked like copies, then put into a stream. */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/stream/work.h"

struct sim_device;

/* Check a set's shape, its place, and whether a device (NULL: unknown) may do it. */
CUresult sim_set_judge(const struct sim_set_work *set, const struct sim_device *device);
