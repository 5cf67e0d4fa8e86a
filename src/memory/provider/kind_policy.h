/* The policy of heaps for managed and pinned memory, derived from that for device memory. */
#ifndef CUSHIM_MEMORY_KIND_POLICY_H
#define CUSHIM_MEMORY_KIND_POLICY_H

#include "memory/policy.h"
#include "memory/provider/provider.h"

/* Pinned requests from here are driver allocations of their own. */
enum { CUSHIM_MEM_DEDICATED_PINNED_BYTES = 64 << 20 };

static inline void cushim_mem_kind_policy(struct cushim_mem_policy *policy,
                                          const struct cushim_mem_policy *of_device,
                                          enum cushim_mem_kind kind) {
    *policy = *of_device;
    if (kind == CUSHIM_MEM_DEVICE)
        return;
    atomic_store(&policy->is_dedicated_uncached, false);
    policy->arena_bytes = 0;
    policy->make_room = NULL;
    policy->has_guards = false;
    /* advice, prefetch and attachment are an allocation's */
    atomic_store(&policy->dedicated_bytes,
                 kind == CUSHIM_MEM_MANAGED ? 1 : CUSHIM_MEM_DEDICATED_PINNED_BYTES);
    if (kind == CUSHIM_MEM_PINNED) {
        policy->is_sparing = true;
        policy->has_keep = false; /* which speaks of device memory */
    }
}

#endif
