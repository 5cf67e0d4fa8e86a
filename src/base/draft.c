#include "base/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/output.h"

static const char draft_name[] = ".cushim-XXXXXX";

/* In the same folder, because a rename cannot cross file systems. */
static bool name_beside(struct cushim_draft *draft) {
    const char *slash = strrchr(draft->path, '/');
    size_t folder_bytes = slash ? (size_t)(slash - draft->path) + 1 : 0;
    if (folder_bytes + sizeof draft_name > sizeof draft->beside)
        return false;
    memcpy(draft->beside, draft->path, folder_bytes);
    memcpy(draft->beside + folder_bytes, draft_name, sizeof draft_name);
    return true;
}

int cushim_draft_begin(struct cushim_draft *draft, const char *path) {
    struct stat status;
    bool is_there = lstat(path, &status) == 0;
    *draft = (struct cushim_draft){.path = path, .fd = -1};
    if (!is_there && errno != ENOENT)
        return errno;
    if (is_there && S_ISLNK(status.st_mode))
        return ELOOP;
    if (is_there && !S_ISREG(status.st_mode)) {
        draft->fd = cushim_output_aside(
            open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
        return draft->fd < 0 ? errno : 0;
    }
    if (is_there && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return errno;
    if (!name_beside(draft))
        return ENAMETOOLONG;
    draft->fd = cushim_output_aside(mkostemp(draft->beside, O_CLOEXEC));
    return draft->fd < 0 ? errno : 0;
}

/* Some file systems cannot rename without replacing; for those, the name was free a moment ago. */
static int move(const struct cushim_draft *draft) {
    if (draft->is_new) {
        /* by its number, because some C libraries lack the function */
        if (syscall(SYS_renameat2, AT_FDCWD, draft->beside, AT_FDCWD, draft->path,
                    RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EINVAL && errno != ENOSYS)
            return errno;
    }
    return rename(draft->beside, draft->path) == 0 ? 0 : errno;
}

int cushim_draft_end(struct cushim_draft *draft, int error) {
    if (close(draft->fd) != 0 && !error)
        error = errno;
    if (!*draft->beside)
        return error;
    if (!error)
        error = move(draft);
    if (error)
        unlink(draft->beside);
    return error;
}
