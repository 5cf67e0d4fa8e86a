/* Describes one moment of a recording: what is live, which sites have it, and how segments are
 * filled. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cushim_writer;

enum moment_group {
    MOMENT_SITE,
    MOMENT_SIZE, /* up to a power of two */
    MOMENT_THREAD,
    MOMENT_LIBRARY, /* that asked */
    MOMENT_CONTEXT, /* as the pool of the context; requests that the driver served have none */
    MOMENT_N_GROUPS
};

extern const char *const moment_groups[MOMENT_N_GROUPS + 1];

struct moment_wish {
    bool is_wanted, is_end;
    uint64_t ns; /* after the start; 0 for the peak */
    enum moment_group group;
    /* only requests between the mark of this name and the next mark; NULL for all */
    const char *range;
};

/* Read "peak", "end", or a time such as 1.5s, 200ms or 4min.  Returns false if the text is none
 * of these. */
bool moment_take_time(struct moment_wish *wish, const char *text);

/* Write about one recording.  Returns 0 or an errno, ENODATA if it has no such range. */
int moment_text(struct cushim_writer *out, const char *path, const struct moment_wish *wish);
