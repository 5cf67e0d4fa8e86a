/*
 * Host functions: a thread that runs one is flagged (interposition.md C11).
 *
 * The driver is handed a *thunk* of ours in place of the program's function, and the program's data
 * as it is.  A thunk stands for one function, for as long as the process lives, so nothing is
 * allocated for a launch or a node: graphs are cloned, updated and destroyed without a word to us.
 * Nodes are shown with the program's own function.  A process has 256 thunks; functions beyond that
 * go to the driver as they are, and run unflagged.
 */
#ifndef CUSHIM_PRELOAD_HOST_FUNCTION_H
#define CUSHIM_PRELOAD_HOST_FUNCTION_H

#include "cuda/types.h"

/* What to hand to the driver for a function of the program's; NULL stays NULL.  Takes no lock. */
CUhostFn cushim_host_function_wrap(CUhostFn function);

/* The program's function behind what the driver answered; what is no thunk stays as it is. */
CUhostFn cushim_host_function_unwrap(CUhostFn function);

#endif
