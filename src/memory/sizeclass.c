#include "memory/sizeclass.h"

#include "base/bits.h"

/* Classes 0 .. 7 are the 512-byte steps; above, each doubling from 4 KiB on has eight. */
enum { N_LINEAR = 8, LOG2_LINEAR_END = 12, LOG2_STEPS = 3, STEPS = 1 << LOG2_STEPS };

unsigned cushim_mem_sizeclass_of(size_t n_bytes) {
    size_t last = n_bytes - 1; /* so that an exact class size maps to itself */
    if (n_bytes <= (size_t)1 << LOG2_LINEAR_END)
        return (unsigned)(last / CUSHIM_MEM_GRAIN_BYTES);
    unsigned doubling = cushim_log2_floor(last);
    unsigned step = (unsigned)(last >> (doubling - LOG2_STEPS)) - STEPS;
    return N_LINEAR + (doubling - LOG2_LINEAR_END) * STEPS + step;
}

size_t cushim_mem_sizeclass_bytes(unsigned class_index) {
    if (class_index < N_LINEAR)
        return (size_t)(class_index + 1) * CUSHIM_MEM_GRAIN_BYTES;
    unsigned place = class_index - N_LINEAR;
    unsigned doubling = LOG2_LINEAR_END + place / STEPS;
    return (size_t)(STEPS + place % STEPS + 1) << (doubling - LOG2_STEPS);
}

uint32_t cushim_mem_sizeclass_slab_pages(unsigned class_index) {
    size_t block_bytes = cushim_mem_sizeclass_bytes(class_index);
    for (size_t n_pages = cushim_mem_pages_of(block_bytes);; n_pages++) {
        size_t slab_bytes = n_pages * CUSHIM_MEM_PAGE_BYTES;
        if (slab_bytes % block_bytes <= slab_bytes / 16)
            return (uint32_t)n_pages;
    }
}
