/* The free that waits: shared by device, managed and pinned memory. */
#pragma once

#include "tools/sim/driver/core/abi.h"

#include <stdbool.h>

struct sim_block;

/*
 * Wait for all work of the block's context, submitted so far, then give the block back.  If
 * `may_free` refuses the kind of the block, or no block starts at the address, it is
 * CUDA_ERROR_INVALID_VALUE at once.
 */
CUresult sim_memory_free(CUdeviceptr address, bool (*may_free)(const struct sim_block *));
