/* What this machine has of CUDA: rows about the driver, its devices, the toolkit, the runtimes. */
#ifndef CUSHIM_TOOLS_MACHINE_H
#define CUSHIM_TOOLS_MACHINE_H

#include <stdbool.h>

struct report;

/* Returns whether a device answered, so that a probe makes sense. */
bool machine_examine(struct report *report);

#endif
