/* The fragmentation map: the live parts and the holes of each segment at one moment. */
#pragma once

#include "trace/account.h"

enum { MAP_CELLS = 64, MAP_MOST_ROWS = 48 };

struct map_row {
    uint64_t base, n_bytes, live_bytes, hole_bytes; /* the largest hole */
    uint64_t n_blocks;
    const struct cushim_trace_site *site; /* of its largest block; NULL if it has none */
    char cells[MAP_CELLS + 1];            /* from '0' if nothing in it is live, to '9' if all is */
};

/* A block counts with its requested size, so its rounding is part of the holes. */
struct map {
    uint64_t held_bytes, live_bytes, idle_bytes; /* idle is in segments without a block */
    uint64_t hole_bytes;                         /* the largest */
    size_t n_segments, n_rows;
    struct map_row *rows; /* segments with blocks and most free bytes, by address */
};

struct recording_scope;

/* Make the map of the account's present state.  Returns 0 or ENOMEM. */
int map_make(struct map *map, const struct cushim_trace_account *account,
             const struct recording_scope *scope, size_t most_rows);

void map_free(struct map *map);
