/*
 * Atomic file replacement: a file is there whole or not at all.
 *
 * The text is written to a temporary file beside it, which is renamed when it is complete.  So of
 * several writers of one name one file remains, and a full disk leaves the earlier file.  What is
 * no regular file (a pipe, a device) is written in place.
 */
#ifndef CUSHIM_BASE_DRAFT_H
#define CUSHIM_BASE_DRAFT_H

#include <limits.h>
#include <stdbool.h>

struct cushim_draft {
    const char *path; /* the caller's, who keeps it until the end */
    int fd;
    bool is_new; /* set it before the end: what has the name by then stays, and EEXIST is the end */
    char beside[PATH_MAX]; /* "": written in place */
};

/*
 * Begin: for the owner alone (0600), never through a link, never waiting for a reader of a pipe.
 * Returns 0 or an errno; then nothing was made.
 */
int cushim_draft_begin(struct cushim_draft *draft, const char *path);

/*
 * End: with `error` 0 all was written, else the draft goes and what was there stays.
 * Returns `error`, or an errno if the end itself fails.
 */
int cushim_draft_end(struct cushim_draft *draft, int error);

#endif
