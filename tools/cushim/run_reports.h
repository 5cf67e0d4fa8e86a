/*
 * Writes the reports of a run that `cushim run` waits for.  If a process ended without a report,
 * its report is made from its live page.
 *
 * If all reports go to one place (standard error, FILE), they are written together: the program
 * that was started, then a section for each other process, then a table.  Processes leave their
 * pages for that.  In a folder each process has its own file, and run.json lists them.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct run_reports {
    const char *where;       /* a value of CUSHIM_STATS; NULL if no report is wanted */
    char together[PATH_MAX]; /* if `where` is a file, its name, which all of the run uses */
    char **argv;
    uint64_t number; /* of the run */
    time_t began;
    uint64_t start_ns;
    int left;      /* the file in which the program leaves a report to be printed, or -1 */
    ino_t file;    /* of FILE before the run, or 0 */
    pid_t started; /* these two are set when the program ended */
    int status;    /* as of waitpid(2) */
    bool has_page; /* set by run_reports_end: the program that was started had a page */
    bool
        has_none; /* set by run_reports_end: no process of the run has a report, or will have one */
};

/*
 * Before the start: can a report be made there?  If it is a folder, it is made.  Returns 0 or an
 * errno; `path` is the name that was tried.
 */
int run_reports_can_be_made(const char *where, char path[PATH_MAX]);

/* Before the start: set the variables by which processes know the run.  Returns 0 or an errno. */
int run_reports_begin(struct run_reports *run, char **argv, const char *where);

/* After the end: write the reports.  Returns false if the program that was started has none. */
bool run_reports_end(struct run_reports *run);

/* "SIGKILL", or the number of a signal without a name.  Returns `text`. */
const char *run_reports_signal(int number, char text[32]);
