/* The clock: nanoseconds since some point in the past, never going back. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t cushim_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Like cushim_clock_ns, at the resolution of the kernel's tick (1 to 10 ms) and a quarter of the
 * cost. */
static inline uint64_t cushim_clock_coarse_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
