/*
 * Kernels: functions sim_kernel_<name> of the program or a library of it, found by name whenever a
 * module is asked for them.
 *
 * A function is made once a name and never ends, whatever module it was asked from.
 */
#ifndef CUSHIM_SIM_FUNCTION_H
#define CUSHIM_SIM_FUNCTION_H

#include "tools/sim/driver/core/abi.h"
#include "sim.h"

#include <stdbool.h>
#include <stddef.h>

struct sim_function {
    char *name;
    sim_kernel_fn *kernel;       /* NULL: the program has none */
    const size_t *param_bytes;   /* ends with 0; NULL: none */
    const size_t *param_offsets; /* NULL: as sim_function_offset places them */
    size_t shared_bytes;         /* static, as the image says */
    int capability, most_threads, n_registers, local_bytes; /* 0: the image does not say */
    int dynamic_shared_bytes; /* the limit that was set; 0: as it was made */
    unsigned long n_skipped;  /* turns that the option `kernels` made nothing of */
    bool is_of_program;       /* the kernel and its sizes are a program's or a library's */
    bool is_wide;             /* may be launched in clusters of more than 8 blocks */
    struct sim_parts *parts;  /* of launches in parts (launch_parts.c); NULL: none was said */
    struct sim_function *next;
};

/* The function of a name, made if need be; NULL: no memory. */
struct sim_function *sim_function_get(const char *name);

/* Whether the program, or a library that is loaded, has a function for the kernel of a name. */
bool sim_function_is_of_program(const char *name);

struct sim_image_row;

/* What an image says of the kernel, where the program has none of the name. */
void sim_function_describe(struct sim_function *function, const struct sim_image_row *row);

/* The program has no such kernel, but an image declares it: one that does nothing. */
void sim_function_declare(struct sim_function *function);

/*
 * Where a parameter lies in the packed buffer: behind the one before, on a boundary of the largest
 * power of two up to 8 that divides its size.  The end of the last one; params NULL: none.
 */
size_t sim_function_offset(const struct sim_function *function, size_t i);

/* How much dynamic shared memory a launch may ask for. */
size_t sim_function_shared_limit(const struct sim_function *function);

CUresult sim_function_of_handle(CUfunction handle, struct sim_function **out);

#endif
