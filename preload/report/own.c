#include "preload/report/own.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "memory/cache/cache.h"
#include "preload/observe/check.h"
#include "preload/state/live.h"
#include "preload/state/process.h"

void cushim_own_read(struct cushim_report *own) {
    static char text[32]; /* written only at the end of the process */
    *own = (struct cushim_report){.put_json = cushim_own_json};
    atomic_store(&cushim_page.n_unchecked, cushim_mem_stats_read(&cushim_check.n_unchecked));
    cushim_page_copy(&own->page, &cushim_page);
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++)
            cushim_mem_cache_sum(&cushim_page.stats[device][kind], &own->page.stats[device][kind]);
    }
    own->sites = own->page.head.sample_bytes ? &cushim_page_sites : NULL;
    own->calls = &cushim_page_calls;
    if (cushim_process.exit_status) {
        snprintf(text, sizeof text, "with status %d", cushim_process.exit_status & 0xff);
        own->ended = text;
    }
    own->run_ns = cushim_clock_ns() - own->page.head.start_ns;
}

const struct cushim_report *cushim_own_report(void) {
    static struct cushim_report own;
    cushim_own_read(&own);
    return &own;
}

void cushim_own_tell(void) {
    const struct cushim_report *report = cushim_own_report();
    log_info("engine",
             "ended; requests of device memory: %lu, without a driver call: %lu, bypassed: %lu",
             (unsigned long)cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_requests),
             (unsigned long)cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_hits),
             (unsigned long)cushim_mem_stats_read(&report->page.n_bypassed));
}
