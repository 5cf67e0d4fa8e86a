#pragma once

#include "alloc.h"
#include "trace.h"

/*
 * Plays a trace and prints its line.  A sample is one block: its malloc and its free.
 *
 * The first pass measures the held device memory, less `before_bytes`; the second reads the clock
 * at every call, the third does not.  A pass of more than a second is not repeated, and its samples
 * count.
 */
void replay(const char *name, const struct trace *trace, const struct settings *settings,
            size_t before_bytes);
