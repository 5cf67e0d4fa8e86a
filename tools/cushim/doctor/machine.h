/* Reports what this machine has: the driver, its devices, the runtimes. */
#ifndef CUSHIM_TOOLS_MACHINE_H
#define CUSHIM_TOOLS_MACHINE_H

#include <stdbool.h>

/* Add the rows.  Returns whether a device answered, because a probe needs one. */
bool machine_examine(void);

#endif
