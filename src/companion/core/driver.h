/*
 * The driver: one table, loaded at first use, and whether this process may use it.
 *
 * States go UNLOADED -> READY or FAILED; cushim_load and cushim_unload go back.  A child forked
 * after the first use is FORKED for good: nothing of the driver or of our locks survives a fork.
 * Lock: one mutex for loading and unloading; a call that finds READY takes none.
 */
#pragma once

#include "companion/shared.h"
#include "base/options.h"
#include "base/atomics.h"

/*
 * The options of the environment: defaults only, and silent unless CUSHIM_LOG says otherwise.  Read
 * once, at the first use of the library; the log's level is set by it.  Threads  any.
 */
const struct cushim_options *cushim_settings(void);

/* The part that the memory engine needs. */
extern struct cushim_cuda cushim_driver_cuda;

/* For calls that need no driver (an arena on the caller's memory): NOCUDA in a forked child. */
enum cushim_status cushim_driver_use_process(const char *what);

/* Whether it is loaded and initialised, in a process that is no forked child. */
static inline bool cushim_driver_is_ready(void) {
    return likely(load_acquire(&cushim_driver_state_now) == CUSHIM_DRIVER_READY);
}

/* Whether this is a child forked after the first use. */
static inline bool cushim_driver_is_forked(void) {
    return load_relaxed(&cushim_driver_state_now) == CUSHIM_DRIVER_FORKED;
}

/* cuDriverGetVersion: 1000 * major + 10 * minor; 0 before it is loaded. */
int cushim_driver_number(void);

/* Load from `path` (NULL: the default search), as cushim_load; unload, when nothing is left. */
enum cushim_status cushim_driver_load(const char *what, const char *path);
void cushim_driver_unload(void);

/* Names tried and the loader's words; "" if nothing failed.  The text stays valid. */
const char *cushim_driver_reason(void);
