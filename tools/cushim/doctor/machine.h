/* Reports what this machine has: the driver, its devices, the runtimes. */
#pragma once

#include <stdbool.h>

/* Add the rows.  Returns whether a device answered, because a probe needs one. */
bool machine_examine(void);
