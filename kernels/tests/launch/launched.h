/*
 * What the suites of paths share: a software device of a chosen kind, whose kernels do nothing, so
 * that shapes may be those of models; and a record of what was launched on it.
 */
#ifndef CUSHIM_KERNELS_TESTS_LAUNCHED_H
#define CUSHIM_KERNELS_TESTS_LAUNCHED_H

#include "cushim/kernels.h"
#include "kernels/tests/launch/fixture.h"

/* The last launch. */
struct launch {
    char kernel[128];
    unsigned grid, block, cluster, shared_bytes; /* along x; cluster is 1 if there are none */
};
extern struct launch launched;

/* The names since launched_begin() or launched_clear(), each with a space behind it. */
extern char all_launched[2048];
void launched_clear(void);

/* Once in a process, because a driver is of one kind. */
void launched_begin(const char *capability);

/* An address, aligned or off by one element; there is no memory. */
static inline void *place(bool is_aligned, size_t n_elem_bytes) {
    return (void *)(uintptr_t)((1ull << 40) + (is_aligned ? 0 : n_elem_bytes)); // NOLINT
}

#endif
