#include "tools/cushim/recording/map.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/list.h"
#include "tools/cushim/recording/recording.h"

/* ---- what is live, by address: blocks of pools, and the segments that contain them ---- */

struct live {
    const struct recording_scope *scope;
    struct cushim_trace_block *blocks;
    struct cushim_trace_segment *segments;
    size_t n_blocks, n_segments;
    int error;
};

static void list_block(const struct cushim_trace_block *block, void *context) {
    struct live *lists = context;
    struct cushim_trace_block *row;
    if (!block->pool || !recording_scope_has(lists->scope, block->device, block->kind))
        return;
    LIST_ADD(lists->blocks, lists->n_blocks, row);
    if (row)
        *row = *block;
    else
        lists->error = ENOMEM;
}

static void list_segment(const struct cushim_trace_segment *segment, void *context) {
    struct live *lists = context;
    struct cushim_trace_segment *row;
    if (!recording_scope_has(lists->scope, segment->device, segment->kind))
        return;
    LIST_ADD(lists->segments, lists->n_segments, row);
    if (row)
        *row = *segment;
    else
        lists->error = ENOMEM;
}

/* Blocks, segments and rows begin with their address. */
static void list(struct live *lists, const struct cushim_trace_account *account) {
    cushim_trace_account_each(account, list_block, lists);
    cushim_trace_account_each_segment(account, list_segment, lists);
    if (lists->n_blocks)
        qsort(lists->blocks, lists->n_blocks, sizeof *lists->blocks, cushim_by_number);
    if (lists->n_segments)
        qsort(lists->segments, lists->n_segments, sizeof *lists->segments, cushim_by_number);
}

/* ---- rows ---- */

/* Segments without a block come last, because they go back when memory is needed. */
static int by_free(const void *left, const void *right) {
    const struct map_row *a = left, *b = right;
    if (!a->n_blocks != !b->n_blocks)
        return !a->n_blocks ? 1 : -1;
    int order = cushim_order(b->n_bytes - b->live_bytes, a->n_bytes - a->live_bytes);
    return order ? order : cushim_by_number(left, right);
}

/* The start of cell i, from the base. */
static uint64_t cell_start(const struct map_row *row, unsigned i) {
    return (uint64_t)((__uint128_t)row->n_bytes * i / MAP_CELLS);
}

static unsigned cell_at(const struct map_row *row, uint64_t offset) {
    unsigned i = (unsigned)((__uint128_t)offset * MAP_CELLS / row->n_bytes);
    return i < MAP_CELLS ? i : MAP_CELLS - 1;
}

/* Add [from, to) of the segment to the live bytes of its cells. */
static void fill(const struct map_row *row, uint64_t live[MAP_CELLS], uint64_t from, uint64_t to) {
    for (unsigned i = cell_at(row, from); i < MAP_CELLS && cell_start(row, i) < to; i++) {
        uint64_t start = cell_start(row, i), end = cell_start(row, i + 1);
        live[i] += cushim_less(cushim_least(to, end), cushim_most(from, start));
    }
}

static void set_cells(struct map_row *row, const uint64_t live[MAP_CELLS]) {
    for (unsigned i = 0; i < MAP_CELLS; i++) {
        uint64_t n_bytes = cell_start(row, i + 1) - cell_start(row, i);
        unsigned tenths = n_bytes ? (unsigned)((__uint128_t)live[i] * 9 / n_bytes) : 0;
        row->cells[i] = (char)('0' + (live[i] && !tenths ? 1 : tenths > 9 ? 9 : tenths));
    }
    row->cells[MAP_CELLS] = 0;
}

/* Make the row of a segment from its blocks.  Blocks are sorted by address, and *next is the
 * first that was not taken. */
static void make_row(struct map_row *row, const struct cushim_trace_segment *segment,
                     const struct live *lists, size_t *next) {
    uint64_t live[MAP_CELLS] = {0}, covered = 0, largest = 0;
    const uint64_t end = segment->base + segment->n_bytes;
    *row = (struct map_row){.base = segment->base, .n_bytes = segment->n_bytes};
    while (*next < lists->n_blocks && lists->blocks[*next].address < segment->base)
        ++*next; /* it is in no segment, because part of the recording is missing */
    for (; *next < lists->n_blocks && lists->blocks[*next].address < end; ++*next) {
        const struct cushim_trace_block *block = &lists->blocks[*next];
        uint64_t from = block->address - segment->base, to = from + block->n_bytes;
        if (from < covered) /* only a made-up recording has blocks in blocks */
            from = covered;
        if (to > segment->n_bytes)
            to = segment->n_bytes;
        if (from >= to)
            continue;
        if (from - covered > row->hole_bytes)
            row->hole_bytes = from - covered;
        covered = to;
        row->n_blocks++;
        row->live_bytes += to - from;
        if (to - from > largest) {
            largest = to - from;
            row->site = block->site;
        }
        fill(row, live, from, to);
    }
    if (segment->n_bytes - covered > row->hole_bytes)
        row->hole_bytes = segment->n_bytes - covered;
    set_cells(row, live);
}

static int make_rows(struct map *map, const struct live *lists, size_t most_rows) {
    size_t next = 0;
    map->rows = reallocarray(NULL, lists->n_segments + 1, sizeof *map->rows);
    if (!map->rows)
        return ENOMEM;
    for (size_t i = 0; i < lists->n_segments; i++) {
        struct map_row *row = &map->rows[map->n_rows];
        if (!lists->segments[i].n_bytes)
            continue;
        make_row(row, &lists->segments[i], lists, &next);
        map->n_rows++;
        map->held_bytes += row->n_bytes;
        map->live_bytes += row->live_bytes;
        map->idle_bytes += row->n_blocks ? 0 : row->n_bytes;
        if (row->hole_bytes > map->hole_bytes)
            map->hole_bytes = row->hole_bytes;
    }
    map->n_segments = map->n_rows;
    if (map->n_rows > most_rows) {
        qsort(map->rows, map->n_rows, sizeof *map->rows, by_free);
        map->n_rows = most_rows;
        qsort(map->rows, map->n_rows, sizeof *map->rows, cushim_by_number);
    }
    return 0;
}

int map_make(struct map *map, const struct cushim_trace_account *account,
             const struct recording_scope *scope, size_t most_rows) {
    struct live live = {.scope = scope};
    *map = (struct map){0};
    list(&live, account);
    int error = live.error ? live.error : make_rows(map, &live, most_rows);
    free(live.blocks);
    free(live.segments);
    if (error)
        map_free(map);
    return error;
}

void map_free(struct map *map) {
    free(map->rows);
    *map = (struct map){0};
}
