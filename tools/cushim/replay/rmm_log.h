/* Makes a recording of a log of RMM (its logging_resource_adaptor), so that it can be planned. */
#ifndef CUSHIM_TOOLS_REPLAY_RMM_LOG_H
#define CUSHIM_TOOLS_REPLAY_RMM_LOG_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct rmm_log {
    char folder[PATH_MAX], path[PATH_MAX]; /* of the recording; both exist until rmm_log_end */
    uint64_t n_wrong;                      /* lines that were skipped, because they are no events */
};

/* Does a file begin like such a log? */
bool rmm_log_is(const char *path);

/* Make the recording, in a new folder below TMPDIR.  Returns 0 or an errno; nothing is left
 * after an error. */
int rmm_log_begin(struct rmm_log *log, const char *path);
void rmm_log_end(const struct rmm_log *log);

#endif
