/* What doctor learns by running a command: which of its processes the preload reached, what was
 * pooled there, and what bypassed it. */
#ifndef CUSHIM_TOOLS_DOCTOR_COMMAND_H
#define CUSHIM_TOOLS_DOCTOR_COMMAND_H

#include <stdbool.h>

/* Run argv under the preload `library`, and add rows.  With `is_quiet` the output of the command
 * goes to standard error, so that only ours is on standard output. */
void command_examine(char **argv, const char *library, bool is_quiet);

#endif
