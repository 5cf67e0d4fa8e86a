/* The fragmentation map: what of each segment is live, and where the holes are, at one moment. */
#ifndef CUSHIM_TOOLS_MAP_H
#define CUSHIM_TOOLS_MAP_H

#include "trace/account.h"

enum { MAP_CELLS = 64, MAP_MOST_ROWS = 48 };

struct map_row {
    uint64_t base, n_bytes, live_bytes, hole_bytes; /* the largest hole */
    uint64_t n_blocks;
    const struct cushim_trace_site *site; /* of its largest block; NULL: it has none */
    char cells[MAP_CELLS + 1];            /* '0': nothing is live there, to '9': all */
};

/* Blocks are as long as was asked for: what they are rounded by is part of the holes. */
struct map {
    uint64_t held_bytes, live_bytes, idle_bytes; /* idle: of segments without a block */
    uint64_t hole_bytes;                         /* the largest */
    size_t n_segments, n_rows;
    struct map_row
        *rows; /* those that blocks keep, and of these with most free bytes; by address */
};

struct recording_scope;

/* Of what the account has now; 0 or ENOMEM. */
int map_make(struct map *map, const struct cushim_trace_account *account,
             const struct recording_scope *scope, size_t most_rows);

void map_free(struct map *map);

#endif
