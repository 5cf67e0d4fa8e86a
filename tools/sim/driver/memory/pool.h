/* Memory pools of stream-ordered allocation: here names and numbers, no store of memory. */
#ifndef CUSHIM_SIM_POOL_H
#define CUSHIM_SIM_POOL_H

#include "tools/sim/driver/core/abi.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_device;

enum { SIM_N_POOL_ATTRIBUTES = 9 };

struct sim_pool {
    struct sim_device *device;
    uint64_t attributes[SIM_N_POOL_ATTRIBUTES]; /* by CUmemPool_attribute; those that can be set */
    uint64_t high_bytes;                        /* most that were in use */
    bool is_shareable;                          /* by a descriptor */
    bool is_imported; /* another process's: nothing is allocated from it */
    uint32_t key;     /* that its pointers carry, not 0; 0: never shown */
};

/* NULL: no memory. */
struct sim_pool *sim_pool_create(struct sim_device *device);

CUresult sim_pool_of_handle(CUmemoryPool handle, struct sim_pool **out);

#endif
