/* What the driver knows of a host thread: its stack of contexts, its capture mode, and what it is
 * inside. */
#pragma once

#include "abi.h"

#include <stdbool.h>

enum { SIM_CONTEXT_STACK_DEPTH = 64 };

struct sim_context;

struct sim_thread {
    unsigned long number; /* from 1; 0 until sim_thread() is first called */
    CUstreamCaptureMode capture_mode;
    bool is_in_host_function;
    bool is_in_destructor; /* of a user object; the lock is held */
    unsigned depth;
    struct sim_context *contexts[SIM_CONTEXT_STACK_DEPTH];
};

/* The calling thread's own; takes no lock. */
struct sim_thread *sim_thread(void);
