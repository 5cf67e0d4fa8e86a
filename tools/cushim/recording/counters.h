/* Reads a recording as a report, for commands that read both. */
#pragma once

#include "tools/cushim/reports.h"

/* Is it a recording, or a folder with recordings? */
bool counters_is_recording(const char *what);

/* As reports_of, but also for recordings.  Each becomes a report with the counters that a
 * recording has (condition_is_recorded). */
bool counters_reports_of(const char *what, reports_show_fn *show, void *context);
