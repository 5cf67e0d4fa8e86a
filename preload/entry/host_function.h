/*
 * Host functions: a thread that runs one is flagged (interposition.md C11).
 *
 * The driver is handed a *thunk* of ours in place of the program's function, and the program's data
 * as it is.  A thunk stands for one function as long as the process lives.  So a launch or a node
 * needs no allocation, which we could not free, because graphs are cloned, updated and destroyed
 * unseen.  The program sees nodes with its own function.  A process has 256 thunks; functions
 * beyond that go to the driver as they are, and run unflagged.
 */
#pragma once

#include "cuda/types.h"

/* The function to hand to the driver for one of the program's; NULL stays NULL.  Takes no lock. */
CUhostFn cushim_host_function_wrap(CUhostFn function);

/* The program's function for one that the driver answered; if it is no thunk, it stays as it is. */
CUhostFn cushim_host_function_unwrap(CUhostFn function);
