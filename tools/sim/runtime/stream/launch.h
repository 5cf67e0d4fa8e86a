/* A launch with attributes as the driver takes it. */
#pragma once

#include "tools/sim/runtime/core/driver.h"

CUlaunchConfig simrt_launch_config(const cudaLaunchConfig_t *config);
