/* Lists what is live at one moment, by address: blocks of pools, and the segments that contain
 * them. */
#ifndef CUSHIM_TOOLS_LIVE_LISTS_H
#define CUSHIM_TOOLS_LIVE_LISTS_H

#include "trace/account.h"

struct recording_scope;

struct live {
    const struct recording_scope *scope;
    struct cushim_trace_block *blocks;
    struct cushim_trace_segment *segments;
    size_t n_blocks, n_segments;
    bool has_native; /* blocks that the driver served are listed, too */
    int error;
};

/* List all of a scope at the account's present state.  Returns 0 or ENOMEM. */
int live_list(struct live *live, const struct cushim_trace_account *account,
              const struct recording_scope *scope, bool has_native);

void live_free(struct live *live);

#endif
