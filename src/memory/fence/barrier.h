/*
 * The barrier: native's own wait over a whole context, for when no event can be recorded, which is
 * while a capture is open, and always before driver 12.5.
 *
 * It is the free of a small allocation, which leaves captures valid
 * (docs/internals/memory-engine.md, "Captures"): of device memory, or of pinned memory where the
 * device is full.
 */
#ifndef CUSHIM_MEMORY_BARRIER_H
#define CUSHIM_MEMORY_BARRIER_H

#include <stdbool.h>

#include "cuda/types.h"

struct cushim_mem_fence;

/*
 * Wait for the context of `fence`, natively.  Not `is_relaxed`: the calling thread captures, and
 * meets what native does to it.
 */
CUresult cushim_mem_barrier_pass(struct cushim_mem_fence *fence, bool is_relaxed);

#endif
