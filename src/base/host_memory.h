/* The memory of the host, as the kernel tells it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read the begin of a file of the kernel, with a 0 behind it; false: there is nothing. */
bool cushim_read_text(const char *path, char *text, size_t n_bytes);

/* How much more the process may take: of the machine, and of each group (version 2) that it is in,
 * because the driver charges such memory to it.  UINT64_MAX: the kernel does not tell. */
uint64_t cushim_host_memory_bytes(int64_t process);
