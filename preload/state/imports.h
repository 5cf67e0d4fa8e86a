/* Blocks of other processes that are open here and do not begin their segment (HOOKS.md C2). */
#ifndef CUSHIM_PRELOAD_IMPORTS_H
#define CUSHIM_PRELOAD_IMPORTS_H

#include <stdbool.h>
#include <stdint.h>

/* Opened once more; false: host memory is out. */
bool cushim_imports_enter(uint64_t address, uint64_t base);

/* Closed once; the base of its segment, or 0 where it is none of these. */
uint64_t cushim_imports_leave(uint64_t address);

#endif
