#ifndef CUSHIM_TESTS_BENCH_REPLAY_H
#define CUSHIM_TESTS_BENCH_REPLAY_H

#include "alloc.h"
#include "trace.h"

/*
 * Plays a trace, and prints its line.  A sample is a block: its malloc and its free.
 *
 * The first pass asks in between how much of the device is held, `before_bytes` taken off; the
 * second reads the clock at every call, the third none.  A pass of more than a second is not
 * repeated, and its samples count.
 */
void replay(const char *name, const struct trace *trace, const struct settings *settings,
            size_t before_bytes);

#endif
