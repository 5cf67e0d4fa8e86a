/*
 * Page files: where the pages of live processes lie, and how another process reads them.
 *
 * The folder is its owner's alone, on a file system in memory; a file is the page and behind it a
 * row for each cache.  Whoever reads takes nothing for granted: the file may be cut, of another
 * version, or made up.
 */
#ifndef CUSHIM_REPORT_PAGE_FILE_H
#define CUSHIM_REPORT_PAGE_FILE_H

#include <limits.h>
#include <stdbool.h>

#include "report/page_calls.h"
#include "report/report.h"

/* Where the calls are, the bytes of a file, and where its sites are, if they are wished: at the
 * end. */
enum {
    CUSHIM_PAGE_CALLS_AT =
        sizeof(struct cushim_page) + CUSHIM_PAGE_CACHES * CUSHIM_PAGE_CACHE_BYTES,
    CUSHIM_PAGE_FILE_BYTES = CUSHIM_PAGE_CALLS_AT + sizeof(struct cushim_page_calls),
    CUSHIM_PAGE_SITES_AT = CUSHIM_PAGE_FILE_BYTES,
    CUSHIM_PAGE_NAME_BYTES = 64
};

static inline size_t cushim_page_file_bytes(const struct cushim_page *page) {
    return CUSHIM_PAGE_FILE_BYTES +
           (page->head.sample_bytes ? sizeof(struct cushim_page_sites) : 0);
}

/* What names of page files end in, and the variable that names their folder. */
#define CUSHIM_PAGE_ENDING          ".page"
#define CUSHIM_PAGE_FOLDER_VARIABLE "CUSHIM_LIVE_DIR"

/* Set by `cushim run` where it waits: a number in hexadecimal that is the same in all children. */
#define CUSHIM_RUN_VARIABLE "CUSHIM_RUN"

/* "PROCESS-DESCRIPTOR-DEVICE-INODE": of the `cushim run` that waits for its child, of its file for
 * a report that it prints when all of the program's output is out, and of the folder of live pages
 * that it sees.  And how that file is called. */
#define CUSHIM_WAITER_VARIABLE "CUSHIM_WAITER"
#define CUSHIM_WAITER_FILE     "cushim-report"

/*
 * Open the folder: $CUSHIM_LIVE_DIR, or the first of $XDG_RUNTIME_DIR/cushim and
 * /dev/shm/cushim-UID that works; made where it is not there and `is_made`.  Only a folder of this
 * user that nobody else can enter is taken.  Returns a descriptor, or -1 with errno.
 */
int cushim_page_folder_open(bool is_made);

/* Where the parts of a page begin, and how many calls have a number: one for each layout, whatever
 * its version is called. */
uint64_t cushim_page_layout(void);

/*
 * Make the file of `page` in a folder, with all its bytes reserved, so that no store through a
 * mapping of it can fail later.  No signal comes of it.  Returns a descriptor, or -1 with errno;
 * then nothing is left.
 */
int cushim_page_file_make(int folder, const char *name, const struct cushim_page *page);

/*
 * Read a page, its caches' rows, its calls and its sites as a report; the last two until the next
 * one is read.  0, or an errno: ENOEXEC where it is no page of this version, EPERM where it belongs
 * to somebody else.
 */
int cushim_page_file_read(int folder, const char *name, struct cushim_report *report);

/* How long the process of a page that ended is known to have gone on: to its normal end, else to
 * the last thing that has a time. */
uint64_t cushim_page_known_ns(const struct cushim_page *page);

/* Does the process of a page have it mapped?  True where nobody can know. */
bool cushim_page_is_alive(const char *name, int64_t process);

#endif
