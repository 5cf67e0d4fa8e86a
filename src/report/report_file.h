/* The destination of a report: the values of CUSHIM_STATS. */
#pragma once

#include <limits.h>

#include "report/report.h"

/* The descriptor that a word means; -1: it is the name of a file. */
int cushim_report_descriptor(const char *where);

/* Is it a folder, in which each process has a file?  It ends in a slash, or is one. */
bool cushim_report_is_folder(const char *where, const char *folder);

/* Do several processes write their reports there together?  A word, or a name without places. */
bool cushim_report_is_shared(const char *where, const char *folder);

/* The name of the file for a report of this process, or of the child `process`; false: it is too
 * long. */
bool cushim_report_name(char path[PATH_MAX], const char *where, long process);

/* Does the name ask for JSON? */
bool cushim_report_is_json(const char *path);

/*
 * Write a report to a word, a file, or a file of its own in a folder; relative names begin in
 * `folder` ("": the current one).  So that several reports do not replace each other, a name
 * without a place for the rank of a job gets it before the ending, and with `is_apart` a name
 * without one for the process gets its number there. Returns 0 or an errno; `path` is the name of
 * the file, "" if there is none.
 */
int cushim_report_write(const char *where, const char *folder, bool is_apart,
                        const struct cushim_report *report, char path[PATH_MAX]);
