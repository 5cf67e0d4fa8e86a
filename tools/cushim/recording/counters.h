/* A recording as a report: the counters that it has, for who reads both. */
#ifndef CUSHIM_TOOLS_COUNTERS_H
#define CUSHIM_TOOLS_COUNTERS_H

#include "tools/cushim/reports.h"

/* Is it a recording, or a folder of some? */
bool counters_is_recording(const char *what);

/* What reports_of does, of recordings, too; each is a report with those of its counters that a
 * recording has (condition_is_recorded). */
bool counters_reports_of(const char *what, reports_show_fn *show, void *context);

#endif
