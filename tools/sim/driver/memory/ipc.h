/* Blocks that one process shows another by 64 bytes. */
#ifndef CUSHIM_SIM_IPC_H
#define CUSHIM_SIM_IPC_H

#include "tools/sim/driver/core/abi.h"
#include "block.h"

#include <stdint.h>

/* Names a block, for who has the same key; 0: for everyone. */
CUresult sim_ipc_name(CUipcMemHandle *out, struct sim_block *block, uint32_t key);

/* Notes a block of such a name.  CUDA_ERROR_INVALID_VALUE: freed, or none that is ours to see. */
CUresult sim_ipc_note(struct sim_block **out, struct sim_context *root, const CUipcMemHandle *name,
                      uint32_t key);

#endif
