/* Making streams, for the entry points of contexts and green contexts. */
#pragma once

#include "tools/sim/driver/core/abi.h"

struct sim_context;

/* A stream of a context, with its arguments checked and its priority brought into range. */
CUresult sim_stream_make(CUstream *out, struct sim_context *context, unsigned flags, int priority);
