/*
 * Kernels: functions sim_kernel_<name> of the program, found by name when they are first wanted.
 *
 * A function is made once a name and never ends, whatever module it was asked from.
 */
#ifndef CUSHIM_SIM_FUNCTION_H
#define CUSHIM_SIM_FUNCTION_H

#include "abi.h"
#include "sim.h"

#include <stddef.h>

struct sim_function {
    char *name;
    sim_kernel_fn *kernel;     /* NULL: the program has none */
    const size_t *param_bytes; /* ends with 0; NULL: none */
    struct sim_function *next;
};

/* The function of a name, made if need be; NULL: no memory. */
struct sim_function *sim_function_get(const char *name);

CUresult sim_function_of_handle(CUfunction handle, struct sim_function **out);

#endif
