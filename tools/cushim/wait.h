/*
 * Waiting for a program: `cushim run` with a report starts it as a child, and writes the report of
 * each process of the run that ended without one.
 */
#ifndef CUSHIM_TOOLS_WAIT_H
#define CUSHIM_TOOLS_WAIT_H

#include <sys/types.h>

/* Called when the program ended, with its number and its status as of waitpid(2). */
typedef void wait_end_fn(pid_t process, int status, void *context);

/*
 * Start `argv` as a child and wait for its end; signals that others send are passed on.  Reports go
 * to `where` (a value of CUSHIM_STATS); NULL: none is written.  If no process of the run has one,
 * the program's name and `none` are printed as a line; NULL: nothing is.  `at_end`, unless it is
 * NULL, is called when the program ended.
 *
 * Ends this process as the program ended, by the same signal if it was one.  Returns only if
 * nothing could be started; errno has the reason.
 */
void wait_for(char **argv, const char *where, const char *none, wait_end_fn *at_end, void *context);

#endif
