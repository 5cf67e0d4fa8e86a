/*
 * Starts a program as a child, as `cushim run` does if a report is asked for, and writes the report
 * of each process of the run that ended without one.
 */
#pragma once

#include <sys/types.h>

/* Called when the program ended, with its number and its status as of waitpid(2). */
typedef void wait_end_fn(pid_t process, int status, void *context);

/*
 * Start `argv` as a child and wait for its end.  Signals that others send are passed on.  Reports
 * go to `where`, a value of CUSHIM_STATS, or nowhere if it is NULL.  If no process of the run has a
 * report, a line with the program's name and `none` is printed, unless `none` is NULL.  `at_end`
 * may be NULL.
 *
 * This process then ends as the program ended, by the same signal if it was one.  Returns, with
 * errno, only if nothing could be started.
 */
void wait_for(char **argv, const char *where, const char *none, wait_end_fn *at_end, void *context);
