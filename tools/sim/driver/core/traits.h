/* What is special about an exported function: see traits.def. */
#pragma once

#include "symbol.h"

#include <stdint.h>

enum sim_trait {
    EARLY = 1,    /* answers before cuInit, after the end and in a fork's child */
    QUIET = 2,    /* no work of the driver's: not counted by sim_fail_at */
    HARMLESS = 4, /* answers in a damaged context */
    UNSAFE = 8,   /* refused while a capture forbids unsafe calls; it invalidates that capture */
    BARRED = 16,  /* refused inside a host function */
};

struct sim_traits {
    unsigned traits;  /* of enum sim_trait */
    uint32_t real_ns; /* the time of the call on an H200, without work that it waits for */
};

struct sim_traits sim_traits_of(unsigned symbol);
