#include "memory/layout/sizeclass.h"

enum { STEPS = 1 << CUSHIM_MEM_LOG2_STEPS, N_POW2 = 12 };

/* Written once, before the first pool is opened. */
enum cushim_mem_scheme cushim_mem_scheme;

void cushim_mem_sizeclass_choose(enum cushim_mem_scheme chosen) {
    cushim_mem_scheme = chosen;
}

unsigned cushim_mem_sizeclass_count(void) {
    static const unsigned counts[] = {CUSHIM_MEM_N_CLASSES, N_POW2, CUSHIM_MEM_MOST_CLASSES};
    return counts[cushim_mem_scheme];
}

static size_t fine_bytes(unsigned class_index) {
    if (class_index == CUSHIM_MEM_THIRD_CLASS)
        return CUSHIM_MEM_THIRD_BYTES;
    if (class_index < CUSHIM_MEM_N_LINEAR)
        return (size_t)(class_index + 1) << CUSHIM_MEM_LOG2_GRAIN;
    unsigned place = class_index - CUSHIM_MEM_N_LINEAR;
    unsigned doubling = CUSHIM_MEM_LOG2_LINEAR_END + place / STEPS;
    return (size_t)(STEPS + place % STEPS + 1) << (doubling - CUSHIM_MEM_LOG2_STEPS);
}

size_t cushim_mem_sizeclass_bytes(unsigned class_index) {
    if (cushim_mem_scheme == CUSHIM_MEM_FINE)
        return fine_bytes(class_index);
    if (cushim_mem_scheme == CUSHIM_MEM_EXACT)
        return (size_t)(class_index + 1) << CUSHIM_MEM_LOG2_GRAIN;
    return (size_t)1 << (class_index + CUSHIM_MEM_LOG2_GRAIN);
}
