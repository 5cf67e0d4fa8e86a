/* Starts another program with the preload library in it, as `cushim run` does. */
#pragma once

#include <stdbool.h>

#include "tools/cushim/wait.h"

/*
 * Start argv[first] under the preload.  Waits for its end if `at_end` is not NULL, and calls it
 * then; also if `waits` and a report is asked for.  Returns an exit code if nothing was started.
 */
int run_program(int first, char **argv, bool waits, wait_end_fn *at_end, void *context);
