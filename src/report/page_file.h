/*
 * Page files: where the pages of live processes lie, and how another process reads them.
 *
 * The folder is its owner's, on a file system in memory; a file is the page and behind it a row for
 * each cache.  It has holes: what its process never used takes no memory.  Whoever reads takes
 * nothing for granted: the file may be cut, of another version, or made up.
 *
 * A process that lives holds a lock on its file (fcntl(2), F_OFD_SETLK), which every reader sees,
 * whatever its PID, user or mount namespace is, and which ends with the process.  Only who may
 * write the file can hold that lock.
 */
#ifndef CUSHIM_REPORT_PAGE_FILE_H
#define CUSHIM_REPORT_PAGE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

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
 * that it sees.  How that file is called; and the byte in it that stands for a report that its
 * process has written elsewhere. */
#define CUSHIM_WAITER_VARIABLE "CUSHIM_WAITER"
#define CUSHIM_WAITER_FILE     "cushim-report"
#define CUSHIM_WAITER_HAS_ONE  '\0'

/*
 * Open this user's folder: $CUSHIM_LIVE_DIR, or the first of $XDG_RUNTIME_DIR/cushim and
 * /dev/shm/cushim-UID that works; made if it is not there and `is_made`.  Only a folder of this
 * user is taken, which others cannot enter (0700), or its group may read (0750).  Returns a
 * descriptor, or -1 with errno: EPERM for the owner or the mode.
 */
int cushim_page_folder_open(bool is_made);

/* The folder that was tried last, and why it was refused. */
const char *cushim_page_folder_path(char path[PATH_MAX]);

/* Open a folder that may be somebody else's, to read pages in it: nobody but its owner can make
 * files there.  Returns a descriptor, or -1 with errno. */
int cushim_page_folder_read(const char *path, uid_t *owner);

/* Where the parts of a page begin, and how many calls have a number: one for each layout, whatever
 * its version is called. */
uint64_t cushim_page_layout(void);

/*
 * Make the file of `page` in a folder, with the lock on it.  It has its whole length, and memory
 * for what of the page is not 0.  A folder that its group may read makes a file that the group may
 * read. No signal comes of it.  Returns a descriptor, or -1 with errno; then nothing is left.
 */
int cushim_page_file_make(int folder, const char *name, const struct cushim_page *page);

/*
 * Read a page, its caches' rows, its calls and its sites as a report; the last two until the next
 * one is read.  0, or an errno: ENOEXEC if it is no page of this version, EPERM if it belongs to
 * somebody else than the folder does.
 */
int cushim_page_file_read(int folder, const char *name, struct cushim_report *report);

/* How long the process of a page that ended is known to have gone on: to its normal end, else to
 * the last thing that has a time. */
uint64_t cushim_page_known_ns(const struct cushim_page *page);

/* Is a file locked by somebody else's descriptor or mapping? */
bool cushim_page_file_is_locked(int file);

/* The kernel's number of this process's PID namespace; 0: not known. */
uint64_t cushim_page_namespace(void);

/* Does the process of a page live?  Its lock tells.  If it could have none (a file system without
 * locks), whether it has the file mapped.  True if nobody can know. */
bool cushim_page_is_alive(int folder, const char *name);

#endif
