/* Where a report goes: the values of CUSHIM_STATS. */
#ifndef CUSHIM_REPORT_REPORT_FILE_H
#define CUSHIM_REPORT_REPORT_FILE_H

#include <limits.h>

#include "report/report.h"

/* The descriptor that stands behind a word; -1: it is the name of a file. */
int cushim_report_descriptor(const char *where);

/* Is it a folder, in which each process has a file?  It ends in a slash, or is one. */
bool cushim_report_is_folder(const char *where, const char *folder);

/* Do reports of several processes go there together?  A word, or a name without places. */
bool cushim_report_is_shared(const char *where, const char *folder);

/* The name of the file which a report of this process, or of a child with the number `process`,
 * gets from a name; false: it is too long. */
bool cushim_report_name(char path[PATH_MAX], const char *where, long process);

/* Is a file to be JSON? */
bool cushim_report_is_json(const char *path);

/*
 * Write a report to a word, a file, or a file of its own in a folder; `folder` ("": the current
 * one) is where relative names begin.  A name that has no place for the rank of a job gets it
 * before the ending, and where `is_apart` one that has none for the process gets its number there,
 * so that reports of several do not take each other's place. Returns 0 or an errno; `path` is the
 * name of the file, "" where it is none.
 */
int cushim_report_write(const char *where, const char *folder, bool is_apart,
                        const struct cushim_report *report, char path[PATH_MAX]);

#endif
