/*
 * The scheduler: one thread that gives the streams their turns.
 *
 * It starts with the first step that is not done at once, with all signals blocked.  It draws
 * random numbers to pick among the streams whose first step is ready, one turn at a time.  A test
 * may hold it, and allow single turns.  It ends when the process does.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_stream;

/* A stream is about to get a step, under the same hold of the lock.  If no thread can be made it
 * fails, and the stream is unchanged. */
CUresult sim_scheduler_add(struct sim_stream *stream);

/* Has no stream a step left? */
bool sim_scheduler_is_idle(void);

/* The next number of the sequence, below n. */
uint64_t sim_scheduler_draw(uint64_t n);

/* The process ends: no more turns; waits a little for a running turn. */
void sim_scheduler_finish(void);
