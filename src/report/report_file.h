/* Where a report goes: the values of CUSHIM_STATS. */
#ifndef CUSHIM_REPORT_REPORT_FILE_H
#define CUSHIM_REPORT_REPORT_FILE_H

#include <limits.h>

#include "report/report.h"

/* The descriptor that stands behind a word; -1: it is the name of a file. */
int cushim_report_descriptor(const char *where);

/*
 * Write a report to a word or a file; `folder` ("": the current one) is where relative names begin.
 * Where `is_apart`, a name that has no place for the process gets its number before the ending, so
 * that reports of several do not take each other's place.  Returns 0 or an errno; `path` is the
 * name of the file, "" where it is none.
 */
int cushim_report_write(const char *where, const char *folder, bool is_apart,
                        const struct cushim_report *report, char path[PATH_MAX]);

#endif
