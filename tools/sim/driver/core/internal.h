/*
 * Internal memory: what the driver keeps for itself in a context.
 *
 * On a GPU, a context that was made after another one ended was seen to have such memory where
 * blocks of that one had been: no query knows the address, and yet sets succeed.  With the option
 * `internal` a context takes this many bytes from where large blocks of ended contexts were (small
 * ones, in shared pages, were elsewhere).  Sets and copies are accepted and do nothing, because
 * nothing may look there.
 */
#pragma once

#include "tools/sim/driver/memory/block.h"

/* The block goes with its context: note its pages, if they are its own. */
void sim_internal_note(const struct sim_block *block);

/* A root begins to live: take noted pages that are free, as many as the option says. */
void sim_internal_take(struct sim_context *root);
