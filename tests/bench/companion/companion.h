/*
 * The raw driver beside the library, kernels, and contests, for the benches of the companion
 * library.
 *
 * A contest times several ways to do the same work in one process, one sample of each in turn, so
 * that drift of the machine affects all of them.  Each way has its own line under its variant; if
 * the first one is "native", the lines of the others say what they add to it.
 */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/cushim.h"
#include "tests/bench/bench.h"

struct companion_settings {
    unsigned time_ms; /* time for each way of a case */
    bool is_tiny;     /* a trial run, whose counts and sizes measure nothing */
};

typedef void companion_run(const struct companion_settings *settings);
companion_run run_companion_pool, run_companion_arena, run_companion_graph, run_companion_launch,
    run_companion_mapped, run_companion_copy;

/* Prints the line of what the numbers depend on; the context must be current. */
void companion_print_host(const struct companion_settings *settings);

/* A call of the library that must succeed. */
#define need(expr) companion_must(#expr, (expr))
static inline void companion_must(const char *what, enum cushim_status status) {
    if (status != CUSHIM_OK) {
        fprintf(stderr, "%s: %s\n", what, cushim_last_error());
        exit(1);
    }
}

/* ---- the raw driver; names of <cuda.h> are the newest revisions ---- */

#define COMPANION_RAW(X)                                                                           \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxGetCurrent)                                                                             \
    X(cuDeviceGetDefaultMemPool)                                                                   \
    X(cuMemPoolSetAttribute)                                                                       \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuMemAllocAsync)                                                                             \
    X(cuMemFreeAsync)                                                                              \
    X(cuMemcpyHtoD)                                                                                \
    X(cuMemcpyDtoH)                                                                                \
    X(cuMemcpyDtoHAsync)                                                                           \
    X(cuMemsetD8)                                                                                  \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuLaunchKernel)                                                                              \
    X(cuGraphLaunch)                                                                               \
    X(cuStreamGetFlags)                                                                            \
    X(cuStreamWaitEvent)                                                                           \
    X(cuStreamSynchronize)

#define COMPANION_FIELD(name) __typeof__(name) *name;
struct companion_raw {
    COMPANION_RAW(COMPANION_FIELD)
};

/* The library's own entry points, so that both sides call the same driver. */
extern struct companion_raw raw;

/* Makes the primary context of device 0 current in the calling thread. */
void companion_enter(void);

/* All kernels of tests/companion as an image: PTX, or the software device's own. */
const char *companion_image(void);
bool companion_is_simulated(void);

/* Creates a non-blocking stream of the library and returns the driver's handle too. */
struct companion_stream {
    struct cushim_stream *handle;
    CUstream cu;
};
struct companion_stream companion_stream_create(void);

/* Fill device memory and wait, because streams of the benches do not wait for the legacy stream. */
void companion_fill(cushim_devptr at, unsigned char value, size_t bytes);

/* Check the device's bytes; a difference ends the program. */
void companion_check(const char *what, cushim_devptr at, const void *wanted, size_t bytes);

/* ---- contests ---- */

struct companion_way {
    const char *variant;
    void (*run)(void *cookie, size_t n); /* the work, n times in a row */
};

struct companion_contest {
    const char *name;
    const struct companion_way *ways;
    size_t n_ways; /* at most 8 */
    void *cookie;
    size_t n_each;                /* calls in a sample; 0: as many as last 100 clock readings */
    void (*settle)(void *cookie); /* called after each sample, not timed; or NULL */
};

void companion_contest(const struct companion_contest *contest,
                       const struct companion_settings *settings);

/* The number of calls that last a hundred clock readings, at most 4096. */
size_t companion_batch(void (*run)(void *cookie, size_t n), void *cookie);

/* Sort and print a way's samples; `more` is "" or further fields. */
void companion_print(const char *name, const char *variant, struct bench_samples *samples,
                     const char *more);
