/* The options of the software device, read once from the environment; see sim_options.def. */
#pragma once

#include <stdint.h>

/* The value of latency_ns for `real`. */
#define SIM_LATENCY_REAL UINT64_MAX

/* What to do with kernels for which the program has no function; the values of `kernels`. */
enum sim_kernels {
    SIM_KERNELS_PROGRAM, /* images of a GPU do not load */
    SIM_KERNELS_SKIP,    /* every image loads; a launch is a step that does nothing */
    SIM_KERNELS_FAIL,    /* every image loads; a launch fails */
};

struct sim_options {
#define OPT(type, name, value, min, max, unit, sentence) uint64_t name;
#include "sim_options.def"
#undef OPT
};

/* Written by the first call, read by all; any thread. */
const struct sim_options *sim_options(void);
