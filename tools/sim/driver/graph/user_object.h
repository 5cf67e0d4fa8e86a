/*
 * User objects: a program attaches them to graphs, to learn when the last of them is gone.
 *
 * Graphs and their copies (clones, children, executables, running launches) each hold references.
 * The destructor runs inside the call, or at the end of the launch, that releases the last one; a
 * CUDA call in it is CUDA_ERROR_NOT_PERMITTED.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"

#include <stdbool.h>
#include <stddef.h>

struct sim_user_object;

/* References that one graph holds to one object. */
struct sim_user_row {
    struct sim_user_object *object;
    unsigned n_refs;
};

/* All zero is empty. */
struct sim_user_rows {
    struct sim_user_row *rows;
    size_t n, cap;
};

/* Copy those of another graph; false: no memory. */
bool sim_user_rows_copy(struct sim_user_rows *rows, const struct sim_user_rows *from);

/* Release all. */
void sim_user_rows_finish(struct sim_user_rows *rows);
