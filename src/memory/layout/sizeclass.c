#include "memory/layout/sizeclass.h"

#include <stdbool.h>

#include "base/bits.h"

enum { N_GRAINS = CUSHIM_MEM_MOST_CLASSES, N_LINEAR = 8, LOG2_STEPS = 3, STEPS_END = 256 };

uint16_t cushim_mem_sizeclass_table[N_GRAINS];
static uint16_t class_grains[N_GRAINS]; /* of a block, by class */
static unsigned n_classes;

/*
 * Of the fine scheme above 128 KiB, in grains: the largest size of which 2 to 15 lie in 2 MiB; what
 * keeps the waste at an eighth between them; and common sizes.
 */
static const uint16_t large_grains[] = {273,  292,  315,  320,  341,  372,  384,  409, 455,
                                        512,  585,  640,  682,  768,  819,  896,  960, 1024,
                                        1152, 1280, 1365, 1536, 1664, 1792, 1920, 2048};

static bool is_large_end(unsigned n) {
    const uint16_t *end = large_grains;
    while (*end < n)
        end++;
    return *end == n;
}

/* Are so many grains a class? */
static bool is_end(enum cushim_mem_scheme scheme, unsigned n) {
    if (scheme == CUSHIM_MEM_EXACT)
        return true;
    if (scheme == CUSHIM_MEM_POW2)
        return (n & (n - 1)) == 0;
    if (n <= N_LINEAR)
        return true;
    return n <= STEPS_END ? n % (1u << (cushim_log2_floor(n - 1) - LOG2_STEPS)) == 0
                          : is_large_end(n);
}

void cushim_mem_sizeclass_choose(enum cushim_mem_scheme scheme) {
    n_classes = 0;
    for (unsigned n = 1; n <= N_GRAINS; n++) {
        cushim_mem_sizeclass_table[n - 1] = (uint16_t)n_classes;
        if (is_end(scheme, n))
            class_grains[n_classes++] = (uint16_t)n;
    }
}

unsigned cushim_mem_sizeclass_count(void) {
    return n_classes;
}

size_t cushim_mem_sizeclass_bytes(unsigned class_index) {
    return (size_t)class_grains[class_index] << CUSHIM_MEM_LOG2_GRAIN;
}
