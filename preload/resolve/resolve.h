/*
 * The resolver: which real function belongs to a call, and which pointer a look-up gets
 * (interposition.md B).
 *
 * It has two sides.  Hooks ask for a table of real functions and call through it.  Look-ups (dlsym,
 * cuGetProcAddress, cudaGetDriverEntryPoint) give the real answer to a route, which replaces it if
 * we have a hook for it.  Nothing here logs or starts anything (B5).  Tables are filled under a
 * lock and published by one atomic store; a table goes with its library (preload/resolve/unload.h).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/types.h"
#include "preload/resolve/export.h"
#include "preload/resolve/unload.h"
#include "report/page_calls.h"

/* The driver's table; NULL: no driver is known, and it is searched for. */
extern _Atomic(struct cushim_cuda *) cushim_driver_known __attribute__((visibility("hidden")));
struct cushim_cuda *cushim_driver_search(void);

/**
 * The driver's real functions.  A slot of an OPTIONAL row may be NULL; that of a function which the
 * program just called is not.
 * @return the table, the same at every call, never freed | NULL: no libcuda is loaded (B17)
 * Threads  any; two loads once filled; until then, and while a library is being unloaded, a walk
 *          over the loaded objects
 */
static inline struct cushim_cuda *cushim_driver(void) {
    /* in this order: if no library is being unloaded any more, the effects of the last unload are
     * visible */
    bool is_stable = !cushim_unload_is_under_way();
    struct cushim_cuda *cuda = atomic_load_explicit(&cushim_driver_known, memory_order_acquire);
    return __builtin_expect(cuda && is_stable, 1) ? cuda : cushim_driver_search();
}

/* The first REQUIRED name that the driver lacks, static; NULL: none, or no driver is known yet. */
const char *cushim_driver_missing(void);

/* Is it the software device's (tools/sim), whose times say nothing about a GPU? */
bool cushim_driver_is_software(void);

/**
 * The real functions of the libcudart that a caller means.  If the process has several, it is the
 * one that the caller's object names in DT_NEEDED, then the one whose functions dlsym was asked
 * for, then the first.
 * @param caller  the address of the call: __builtin_return_address(0) in the hook
 * @return the table, never freed | NULL: no libcudart.so is loaded, or more than eight
 * Threads  any; a few loads for a page of code seen before (callers.h)
 */
struct cushim_cudart *cushim_runtime(const void *caller);

/* The resolver's counts of look-ups, and how often each hook was called.  With a live page they are
 * in its file (preload/state/live.h). */
extern struct cushim_page_calls cushim_page_calls __attribute__((visibility("hidden")));
