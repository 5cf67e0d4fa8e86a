/*
 * Page files: the place of the pages of live processes, and how another process reads them.
 *
 * The folder is its owner's, on a file system in memory.  A file is the page and behind it a row
 * for each cache.  It is sparse: what its process never used takes no memory.  A reader takes
 * nothing for granted, because the file may be cut, of another version, or made up.
 *
 * A live process holds a lock on its file (fcntl(2), F_OFD_SETLK).  Every reader sees it, whatever
 * its PID, user or mount namespace is, and it ends with the process.  Only a process that may write
 * the file can hold that lock.
 */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "report/page_calls.h"
#include "report/report.h"

/* The offset of the calls, the bytes of a file, and at the end the offset of its sites, if they are
 * wanted. */
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

/* The ending of the names of page files, and the variable that names their folder. */
#define CUSHIM_PAGE_ENDING          ".page"
#define CUSHIM_PAGE_FOLDER_VARIABLE "CUSHIM_LIVE_DIR"

/* `cushim run` sets it if it waits: a hexadecimal number that is the same in all children. */
#define CUSHIM_RUN_VARIABLE "CUSHIM_RUN"

/* "PROCESS-DESCRIPTOR-DEVICE-INODE": the `cushim run` that waits for its child, its file for a
 * report that it prints when all of the program's output is out, and the folder of live pages that
 * it sees.  The others are the name of that file, and the byte in it that stands for a report that
 * its process has written elsewhere. */
#define CUSHIM_WAITER_VARIABLE "CUSHIM_WAITER"
#define CUSHIM_WAITER_FILE     "cushim-report"
#define CUSHIM_WAITER_HAS_ONE  '\0'

/*
 * Open this user's folder: $CUSHIM_LIVE_DIR, or the first of $XDG_RUNTIME_DIR/cushim and
 * /dev/shm/cushim-UID that works; made if it is missing and `is_made`.  The folder must be this
 * user's, and others must not enter it (0700), or only its group may read it (0750).  Returns a
 * descriptor, or -1 with errno: EPERM for the owner or the mode.
 */
int cushim_page_folder_open(bool is_made);

/* The folder that was tried last, for a message about its refusal. */
const char *cushim_page_folder_path(char path[PATH_MAX]);

/* Open a folder that may be another user's, to read pages in it; only its owner can make files
 * there. Returns a descriptor, or -1 with errno. */
int cushim_page_folder_read(const char *path, uid_t *owner);

/* A number for the layout: the offsets of the parts of a page, and which calls have a number.
 * Versions with the same layout have the same number. */
uint64_t cushim_page_layout(void);

/*
 * Make the file of `page` in a folder, with the lock on it.  It has its whole length, and memory
 * for the parts of the page that are not 0.  If its group may read the folder, the group may read
 * the file.  It raises no signal.  Returns a descriptor, or -1 with errno; then nothing is left.
 */
int cushim_page_file_make(int folder, const char *name, const struct cushim_page *page);

/*
 * Read a page, its caches' rows, its calls and its sites as a report; the last two are valid until
 * the next one is read.  0, or an errno: ENOEXEC if it is no page of this version, EPERM if it does
 * not belong to the owner of the folder.
 */
int cushim_page_file_read(int folder, const char *name, struct cushim_report *report);

/* How long the process of a page that ended is known to have run: to its normal end, or to the last
 * thing that has a time. */
uint64_t cushim_page_known_ns(const struct cushim_page *page);

/* Is a file locked by the descriptor or mapping of another process? */
bool cushim_page_file_is_locked(int file);

/* The processes of this user's folder that hold most of a device, at most most_bytes, the largest
 * first; without managed memory, which may lie elsewhere.  At most 64 pages are read. */
void cushim_page_find_others(const struct cushim_page_head *own, const unsigned char uuid[16],
                             uint64_t most_bytes, struct cushim_page_other *others, unsigned n);

/* The kernel's number of this process's PID namespace; 0: unknown. */
uint64_t cushim_page_namespace(void);

/* Does the process of a page live?  Its lock tells; on a file system without locks, whether it has
 * the file mapped.  True if that cannot be known. */
bool cushim_page_is_alive(int folder, const char *name);
