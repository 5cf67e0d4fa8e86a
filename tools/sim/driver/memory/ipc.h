/* Blocks that one process shows another by 64 bytes. */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "block.h"

#include <stdint.h>

/* Name a block for processes with the same key; 0: for every process. */
CUresult sim_ipc_name(CUipcMemHandle *out, struct sim_block *block, uint32_t key);

/* Note a block of such a name.  CUDA_ERROR_INVALID_VALUE: freed, or we may not see it. */
CUresult sim_ipc_note(struct sim_block **out, struct sim_context *root, const CUipcMemHandle *name,
                      uint32_t key);
