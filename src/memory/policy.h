/*
 * Policy: what the host of the allocator decided for all pools of a process.
 *
 * Set before the first pool is opened; fields that a later discovery may change are atomic and read
 * relaxed.
 */
#ifndef CUSHIM_MEMORY_POLICY_H
#define CUSHIM_MEMORY_POLICY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct cushim_mem_policy {
    atomic_size_t
        dedicated_bytes; /* requests of this size and up are driver allocations of their own */
    atomic_bool is_dedicated_uncached; /* and go back to the driver when freed (HOOKS.md C13) */
    bool is_relaxed;                   /* frees do not wait (docs/design.md section 6) */
};

#endif
