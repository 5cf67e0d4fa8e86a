/*
 * The kernel library, if it is there: the devices that it has code for, and what runs elsewhere.
 * It is read, not loaded.
 */
#ifndef CUSHIM_TOOLS_KERNELS_H
#define CUSHIM_TOOLS_KERNELS_H

struct machine;

/* A row for the file and one for each device that answered. */
void kernels_examine(const struct machine *machine);

#endif
