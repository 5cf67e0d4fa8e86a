/*
 * The program's queries of its own counters (cushim/preload.h).  Nothing here makes a CUDA call.
 * Each call reads for itself, so that any thread may call, also while the process ends.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "cushim/preload.h"
#include "memory/cache/cache.h"
#include "preload/report/own.h"
#include "preload/resolve/export.h"
#include "preload/state/process.h"
#include "preload/observe/tracing.h"
#include "report/page_mark.h"
#include "report/report_file.h"

_Static_assert((int)CUSHIM_PRELOAD_DEVICE == CUSHIM_KIND_DEVICE &&
                   (int)CUSHIM_PRELOAD_MANAGED == CUSHIM_KIND_MANAGED &&
                   (int)CUSHIM_PRELOAD_PINNED == CUSHIM_KIND_PINNED &&
                   (int)CUSHIM_PRELOAD_ASYNC == CUSHIM_KIND_ASYNC &&
                   (int)CUSHIM_PRELOAD_MAPPED == CUSHIM_KIND_MAPPED &&
                   (int)CUSHIM_PRELOAD_ARRAY == CUSHIM_KIND_ARRAY &&
                   (int)CUSHIM_PRELOAD_CONTEXT == CUSHIM_KIND_CONTEXT &&
                   (int)CUSHIM_PRELOAD_SPILLED == CUSHIM_KIND_SPILLED,
               "kinds have the numbers of the public header");

CUSHIM_EXPORT int cushim_preload_active(void) {
    return cushim_process_is_on();
}

static bool is_within(int index, int n) {
    return index >= -1 && index < n;
}

/* ---- counters ---- */

#define SUMMED(X)                                                                                  \
    X(peak_live_bytes, peak_live_bytes)                                                            \
    X(peak_held_bytes, peak_held_bytes)                                                            \
    X(recent_peak_live_bytes, recent_peak_live_bytes)                                              \
    X(recent_peak_held_bytes, recent_peak_held_bytes)                                              \
    X(n_requests, n_requests)                                                                      \
    X(n_no_call, n_hits)                                                                           \
    X(n_frees, n_frees)                                                                            \
    X(n_driver_calls, n_native_allocs)                                                             \
    X(n_driver_calls, n_native_frees)                                                              \
    X(driver_ns, native_alloc_ns)                                                                  \
    X(driver_ns, native_free_ns)                                                                   \
    X(n_waits, n_waits)                                                                            \
    X(wait_ns, wait_ns)                                                                            \
    X(n_out_of_memory, n_out_of_memory)                                                            \
    X(n_findings, n_double_frees)                                                                  \
    X(n_findings, n_interior_frees)                                                                \
    X(n_findings, n_overruns)                                                                      \
    X(n_findings, n_uses_after_free)

static void add_row(struct cushim_preload_stats *to, int device, int kind) {
    struct cushim_mem_stats row;
    cushim_mem_cache_sum(&cushim_page.stats[device][kind], &row);
    struct cushim_report_held held = cushim_report_held(&row);
    to->live_bytes += held.live_bytes;
    to->rounding_bytes += held.rounding_bytes;
    to->spare_bytes += held.spare_bytes;
    to->idle_bytes += held.idle_bytes;
    to->held_bytes += held.held_bytes;
#define ADD(field, counter) to->field += cushim_mem_stats_read(&row.counter);
    SUMMED(ADD)
#undef ADD
}

CUSHIM_EXPORT int cushim_preload_stats(int device, int kind, struct cushim_preload_stats *stats) {
    struct cushim_preload_stats sum = {0};
    size_t n_bytes = stats ? stats->struct_size : 0;
    if (!cushim_process_is_on() || !is_within(device, CUSHIM_MAX_DEVICES) ||
        !is_within(kind, CUSHIM_N_KINDS) || n_bytes < sizeof stats->struct_size)
        return -1;
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++) {
        for (int k = 0; k < CUSHIM_N_KINDS; k++) {
            if ((device < 0 || device == i) && (kind < 0 ? k != CUSHIM_KIND_IMPORTED : kind == k))
                add_row(&sum, i, k);
        }
    }
    sum.struct_size = n_bytes;
    memset(stats, 0, n_bytes);
    memcpy(stats, &sum, n_bytes < sizeof sum ? n_bytes : sizeof sum);
    return 0;
}

CUSHIM_EXPORT int cushim_preload_reset_peak(int device) {
    if (!cushim_process_is_on() || !is_within(device, CUSHIM_MAX_DEVICES))
        return -1;
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++) {
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
            if (device < 0 || device == i)
                cushim_mem_cache_restart_peak(&cushim_page.stats[i][kind]);
        }
    }
    return 0;
}

/* ---- marks and reports ---- */

CUSHIM_EXPORT void cushim_preload_mark(const char *name) {
    struct cushim_preload_stats all = {.struct_size = sizeof all};
    struct cushim_preload_stats pinned = {.struct_size = sizeof pinned}; /* on no device */
    if (!name || cushim_preload_stats(-1, CUSHIM_PRELOAD_ALL, &all) != 0 ||
        cushim_preload_stats(-1, CUSHIM_PRELOAD_PINNED, &pinned) != 0)
        return;
    struct cushim_page_mark mark = {.ns = cushim_clock_ns(),
                                    .live_bytes = all.live_bytes - pinned.live_bytes,
                                    .held_bytes = all.held_bytes - pinned.held_bytes};
    memcpy(mark.name, name, strnlen(name, sizeof mark.name - 1));
    cushim_page_mark_put(&cushim_page, &mark);
    cushim_tracing_mark(mark.name);
}

CUSHIM_EXPORT int cushim_preload_report(const char *path) {
    char written[PATH_MAX];
    if (!path || !*path)
        return EINVAL;
    if (!cushim_process_is_on())
        return ENODEV;
    /* too large for the stacks of some threads */
    struct cushim_report *report =
        mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED)
        return ENOMEM;
    cushim_own_read(report);
    int error = cushim_report_write(path, "", false, report, written);
    munmap(report, sizeof *report);
    return error;
}
