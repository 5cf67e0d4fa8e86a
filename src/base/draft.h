/*
 * Atomic file replacement: a file is there complete or not at all.
 *
 * The text is written to a temporary file beside it, which is renamed when it is complete.  So if
 * several writers use one name, one complete file remains, and a full disk leaves the earlier file.
 * Something that is no regular file (a pipe, a device) is written in place.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

struct cushim_draft {
    const char *path; /* the caller's, which keeps it until the end */
    int fd;
    bool is_new; /* set it before the end: an existing file stays, and the end gives EEXIST */
    char beside[PATH_MAX]; /* "": written in place */
};

/*
 * Begin: only the owner may read it (0600), links are not followed, and a pipe without a reader
 * does not block.  Returns 0 or an errno; then nothing was made.
 */
int cushim_draft_begin(struct cushim_draft *draft, const char *path);

/*
 * End.  If `error` is 0 all was written; if not, the draft is removed and the old file stays.
 * Returns `error`, or an errno if the end itself fails.
 */
int cushim_draft_end(struct cushim_draft *draft, int error);
