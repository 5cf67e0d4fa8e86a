/* Runs a command for doctor, and reports which of its processes the preload reached, what was
 * pooled there, and what bypassed it. */
#pragma once

#include <stdbool.h>

/* Run argv under the preload `library`, and add rows.  If `is_quiet`, the output of the command
 * goes to standard error, so that standard output has only ours.  Returns the signal that came to
 * this process and ended the command, or 0. */
int command_examine(char **argv, const char *library, bool is_quiet);
