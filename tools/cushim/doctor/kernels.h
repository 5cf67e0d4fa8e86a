/*
 * Reports for which devices the kernel library has code, and what runs on others.  The library is
 * read, not loaded.
 */
#ifndef CUSHIM_TOOLS_KERNELS_H
#define CUSHIM_TOOLS_KERNELS_H

struct machine;

/* Add a row for the file, and one for each device. */
void kernels_examine(const struct machine *machine);

#endif
