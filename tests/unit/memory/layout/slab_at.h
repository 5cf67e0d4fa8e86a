/* A slab for tests of the page map, which reads only its position. */
#pragma once

#include "memory/layout/segment.h"

/* A slab of several blocks. */
static inline struct cushim_mem_extent *slab_at(struct cushim_mem_extent *slab, uint64_t base,
                                                uint64_t n_bytes) {
    static struct cushim_mem_segment all; /* of all addresses, from 0 on */
    *slab = (struct cushim_mem_extent){.segment = &all,
                                       .first_grain = (uint32_t)(base >> CUSHIM_MEM_LOG2_GRAIN),
                                       .n_grains = n_bytes >> CUSHIM_MEM_LOG2_GRAIN,
                                       .n_cells = 2};
    return slab;
}
