/*
 * Libraries that are unloaded (interposition.md B18): no pointer into one is used after it may be
 * gone.
 *
 * What is known of libraries is valid while none is being unloaded, and is checked after each
 * dlclose that unloaded something: the driver's table and with it all that we know of contexts, the
 * runtimes' tables, and which code means which runtime.  While a dlclose is under way, a thread
 * that needs a table asks the loader, and no entry point takes its fast path.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_uint cushim_unload_n __attribute__((visibility("hidden"))); /* under way */

static inline bool cushim_unload_is_under_way(void) {
    return atomic_load_explicit(&cushim_unload_n, memory_order_acquire) != 0;
}

/* If anything was unloaded since the last time, forget what went with it. */
void cushim_unload_settle(void);
