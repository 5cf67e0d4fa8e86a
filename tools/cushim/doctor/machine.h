/* Reports what this machine has: the driver, its devices, the toolkit, the runtimes. */
#ifndef CUSHIM_TOOLS_MACHINE_H
#define CUSHIM_TOOLS_MACHINE_H

#include <stdbool.h>

#include "tools/cushim/doctor/driver.h"

/* The driver, if one answered, and the number of its devices. */
struct machine {
    struct driver driver;
    int driver_version; /* 13010: CUDA 13.1 */
    int n_devices;
};

/* Versions are numbers such as 13010: 13.1. */
#define MACHINE_VERSION               "%d.%d"
#define MACHINE_VERSION_PARTS(number) (number) / 1000, (number) % 1000 / 10

/* Add the rows, and fill `machine`.  Returns whether a device answered, because a probe needs
 * one. */
bool machine_examine(struct machine *machine);

#endif
