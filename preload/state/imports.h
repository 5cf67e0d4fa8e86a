/*
 * Blocks of other processes that are open here by their IPC handles and do not lie at the start of
 * their segment (interposition.md C2).  The driver opened the segment, and needs the start of the
 * segment when the block is closed.
 */
#ifndef CUSHIM_PRELOAD_IMPORTS_H
#define CUSHIM_PRELOAD_IMPORTS_H

#include <stdbool.h>
#include <stdint.h>

/* Note that a block was opened, once more if it is open.  False: host memory is out. */
bool cushim_imports_enter(uint64_t address, uint64_t base);

/* Note that a block is closed once.  Returns the start of its segment; 0: it is none of these.
 */
uint64_t cushim_imports_leave(uint64_t address);

#endif
