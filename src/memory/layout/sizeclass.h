/*
 * Size classes: which block size serves a small request.
 *
 * Fine, the default: 512-byte steps up to 4 KiB, then eight classes per doubling up to 1 MiB, so
 * that at most 12.5 % of a block is waste.  One of them is 680 KiB instead of 704: natively three
 * such blocks lie in one page of the driver.  Pow2: a class per power of two, for few slabs and
 * much reuse.  Exact: every multiple of 512 is a class of its own, and nothing is waste.
 *
 * The scheme is chosen once, before the first pool is opened; beyond that these are pure functions.
 */
#ifndef CUSHIM_MEMORY_SIZECLASS_H
#define CUSHIM_MEMORY_SIZECLASS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"

enum {
    CUSHIM_MEM_LOG2_GRAIN = 9,
    CUSHIM_MEM_GRAIN_BYTES = 1 << CUSHIM_MEM_LOG2_GRAIN, /* every block is aligned to this */
    CUSHIM_MEM_LOG2_PAGE = 12,                           /* segments are cut, and found, by pages */
    CUSHIM_MEM_PAGE_BYTES = 1 << CUSHIM_MEM_LOG2_PAGE,
    CUSHIM_MEM_SLAB_LIMIT_BYTES = 1 << 20, /* the largest request that a class serves */
    CUSHIM_MEM_N_CLASSES = 72,             /* of the fine scheme */
    CUSHIM_MEM_N_LINEAR = 8,               /* of these, the 512-byte steps */
    CUSHIM_MEM_LOG2_LINEAR_END = 12,
    CUSHIM_MEM_LOG2_STEPS = 3,   /* above, of each doubling */
    CUSHIM_MEM_THIRD_CLASS = 66, /* of the fine scheme: three of its blocks in 2 MiB */
    CUSHIM_MEM_THIRD_BYTES = 680 << 10,
    CUSHIM_MEM_MOST_CLASSES = CUSHIM_MEM_SLAB_LIMIT_BYTES / CUSHIM_MEM_GRAIN_BYTES
};

enum cushim_mem_scheme { CUSHIM_MEM_FINE, CUSHIM_MEM_POW2, CUSHIM_MEM_EXACT };

/* The one chosen. */
extern enum cushim_mem_scheme cushim_mem_scheme;

/* For the whole process; no thread uses a class yet. */
void cushim_mem_sizeclass_choose(enum cushim_mem_scheme scheme);

/* How many classes the scheme has: 72, 12 or CUSHIM_MEM_MOST_CLASSES. */
unsigned cushim_mem_sizeclass_count(void);

/* The class of a request of 1 .. CUSHIM_MEM_SLAB_LIMIT_BYTES. */
static inline unsigned cushim_mem_sizeclass_of(size_t n_bytes) {
    size_t last = n_bytes - 1; /* so that an exact class size maps to itself */
    unsigned n_grains = (unsigned)(last >> CUSHIM_MEM_LOG2_GRAIN);
    if (cushim_mem_scheme != CUSHIM_MEM_FINE) { /* one question where it is the default */
        if (cushim_mem_scheme == CUSHIM_MEM_EXACT)
            return n_grains;
        return n_grains ? cushim_log2_floor(last) + 1 - CUSHIM_MEM_LOG2_GRAIN : 0;
    }
    if (n_grains < CUSHIM_MEM_N_LINEAR)
        return n_grains;
    unsigned doubling = cushim_log2_floor(last);
    unsigned step =
        (unsigned)(last >> (doubling - CUSHIM_MEM_LOG2_STEPS)) & ((1 << CUSHIM_MEM_LOG2_STEPS) - 1);
    unsigned class_index = CUSHIM_MEM_N_LINEAR +
                           ((doubling - CUSHIM_MEM_LOG2_LINEAR_END) << CUSHIM_MEM_LOG2_STEPS) +
                           step;
    return class_index + (class_index == CUSHIM_MEM_THIRD_CLASS && last >= CUSHIM_MEM_THIRD_BYTES);
}

/* The block size of a class. */
size_t cushim_mem_sizeclass_bytes(unsigned class_index);

/* The pages that a request above the slab limit takes; n_bytes must leave room to round up. */
static inline size_t cushim_mem_pages_of(size_t n_bytes) {
    return (n_bytes + CUSHIM_MEM_PAGE_BYTES - 1) >> CUSHIM_MEM_LOG2_PAGE;
}

#endif
