/* A box as the driver takes it. */
#pragma once

#include "tools/sim/runtime/core/driver.h"

/* Invalid value, direction, or not supported: an end that is an array. */
cudaError_t simrt_describe_box(CUDA_MEMCPY3D *box, const struct cudaMemcpy3DParms *p);
