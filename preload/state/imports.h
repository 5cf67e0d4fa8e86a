/*
 * Memory of other processes that is open here by IPC handles (interposition.md C2).  For a block
 * that does not lie at the start of its segment the driver opened the segment, and needs the start
 * of the segment when the block is closed.  What the driver opened has a row, too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Note that a block was opened, once more if it is open.  False: host memory is out. */
bool cushim_imports_enter(uint64_t address, uint64_t base);

/* Note that it is closed once.  Returns the start of its segment; 0: it is none of these. */
uint64_t cushim_imports_leave(uint64_t address);

bool cushim_imports_has(uint64_t address);
