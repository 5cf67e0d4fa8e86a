/*
 * Reads reports of processes from a file of JSON with one or several, from a folder of such files,
 * or from a live page.  From a file only the counters are read, not its sites, records and calls.
 */
#pragma once

#include <stdbool.h>

#include "report/report.h"

struct json_object;

/* Several reports in a file: {"schema": REPORTS_SCHEMA, "reports": [...]}. */
#define REPORTS_SCHEMA "cushim-reports/1"

/* The origin of a report, valid while it is shown. */
struct report_origin {
    const char *name;               /* of the file or the process */
    const struct json_object *json; /* as it was read; NULL for a live page or a recording */
    bool is_recording;
};

typedef void reports_show_fn(const struct cushim_report *report, const struct report_origin *origin,
                             void *context);

/* Show each report of what a user names: a file, a folder, or the number of a process with a
 * live page.  Returns false, after a message, if a part cannot be read; the rest is shown. */
bool reports_of(const char *what, reports_show_fn *show, void *context);

/* The same for the files of a folder that are reports; others are skipped. */
bool reports_of_folder(const char *folder, reports_show_fn *show, void *context);
