/* A launch with attributes as the driver takes it. */
#ifndef SIMRT_LAUNCH_H
#define SIMRT_LAUNCH_H

#include "tools/sim/runtime/core/driver.h"

CUlaunchConfig simrt_launch_config(const cudaLaunchConfig_t *config);

#endif
