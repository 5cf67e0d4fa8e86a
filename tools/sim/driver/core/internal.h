/*
 * Internal memory: what the driver keeps for itself in a context.
 *
 * On a GPU a context that was made after another went was seen to have such memory where blocks of
 * that one had been: no question knows the address, and yet sets succeed.  With the option
 * `internal` a context takes so many bytes where large blocks of contexts that went were (small
 * ones, in shared pages, lay elsewhere).  Sets and copies are taken and do nothing, since nobody
 * may look.
 */
#ifndef CUSHIM_SIM_INTERNAL_H
#define CUSHIM_SIM_INTERNAL_H

#include "tools/sim/driver/memory/block.h"

/* The block goes with its context: remember its pages, if they are its own. */
void sim_internal_note(const struct sim_block *block);

/* A root begins to live: take pages that were noted and are free, as many as the option says. */
void sim_internal_take(struct sim_context *root);

#endif
