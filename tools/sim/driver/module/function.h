/*
 * Kernels: functions sim_kernel_<name> of the program or a library of it, found by name whenever a
 * module is asked for them.
 *
 * A function is made once for each name and never ends, whatever module it was asked from.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "sim.h"

#include <stdbool.h>
#include <stddef.h>

struct sim_function {
    char *name;
    sim_kernel_fn *kernel;       /* NULL: the program has none */
    const size_t *param_bytes;   /* ends with 0; NULL: none */
    const size_t *param_offsets; /* NULL: as sim_function_offset places them */
    size_t shared_bytes;         /* static, from the image */
    int capability, most_threads, n_registers, local_bytes; /* 0: not in the image */
    int dynamic_shared_bytes; /* the limit that was set; 0: the initial one */
    unsigned long n_skipped;  /* turns that the option `kernels` skipped */
    bool is_of_program;       /* the kernel and its sizes are a program's or a library's */
    bool is_wide;             /* may be launched in clusters of more than 8 blocks */
    struct sim_parts *parts;  /* of launches in parts (launch_parts.c); NULL: none was given */
    struct sim_function *next;
};

/* The function of a name, made if necessary; NULL: no memory. */
struct sim_function *sim_function_get(const char *name);

/* Does the program, or a loaded library, have a function for the kernel of a name? */
bool sim_function_is_of_program(const char *name);

struct sim_image_row;

/* What an image says of the kernel, if the program has none of the name. */
void sim_function_describe(struct sim_function *function, const struct sim_image_row *row);

/* The program has no such kernel, but an image declares it: one that does nothing. */
void sim_function_declare(struct sim_function *function);

/*
 * The place of a parameter in the packed buffer: after the one before, at a multiple of the largest
 * power of two up to 8 that divides its size.  params NULL: the end of the last one.
 */
size_t sim_function_offset(const struct sim_function *function, size_t i);

/* The most dynamic shared memory that a launch may ask for. */
size_t sim_function_shared_limit(const struct sim_function *function);

CUresult sim_function_of_handle(CUfunction handle, struct sim_function **out);
