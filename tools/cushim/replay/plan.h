/*
 * Plans what a recording would have held with another setting.  Its requests and frees go through
 * the memory engine again, in order and by one thread, on a driver without a device.
 *
 * Times are not planned.  No work is ever under way, so no free waits.
 */
#pragma once

#include "tools/cushim/replay/setting.h"
#include "trace/account.h"

/* Device memory of each device, then pinned memory. */
enum { PLAN_SCOPES = CUSHIM_TRACE_DEVICES + 2 }; /* as those of a recording */

struct plan_sums {
    uint64_t n_requests;
    uint64_t n_refused; /* found no memory in the plan, but may have found it in the run */
    uint64_t n_calls;   /* driver calls for memory */
    uint64_t live_bytes, peak_live_bytes;
    uint64_t held_bytes, peak_held_bytes; /* unknown for `native`: the driver packs blocks */
    uint64_t driver_bytes;                /* of these: what the driver served in the run, too */
};

struct plan {
    int error; /* an errno */
    struct plan_sums sums[PLAN_SCOPES];
};

/* Plan one recording.  It is done in a child, because the engine decides some things once for
 * each process.  Returns 0 or an errno. */
int plan_make(struct plan *plan, const char *path, const struct setting *setting);

/* Sum up the recorded run itself. */
int plan_recorded(struct plan *plan, const char *path);

/* Find the least limit, in steps of 2 MiB, with which no more is refused than without one; 0 if
 * there is none. */
int plan_least_limit(uint64_t *n_bytes, const char *path, const struct setting *setting);
