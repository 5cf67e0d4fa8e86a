#include "base/bits.h"
#include "tools/cushim/recording/moment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"
#include "base/writer.h"
#include "report/report.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/numbers.h"
#include "tools/cushim/recording/history.h"
#include "tools/cushim/recording/map.h"
#include "tools/cushim/recording/recording.h"

enum { MOST_GROUPS = 20, MOST_ROWS = 8, LABEL_BYTES = 80 };

const char *const moment_groups[MOMENT_N_GROUPS + 1] = {"site", "size", "thread", "library",
                                                        "context"};

bool moment_take_time(struct moment_wish *wish, const char *text) {
    wish->is_end = strcmp(text, "end") == 0;
    wish->ns = 0;
    return wish->is_end || strcmp(text, "peak") == 0 || arguments_time(text, &wish->ns);
}

/* ---- groups ---- */

struct group {
    uint64_t key;
    const struct cushim_trace_site *site; /* by site */
    char label[LABEL_BYTES];
    uint64_t n_blocks, n_bytes;
    UT_hash_handle hh;
};

/* A part of the run, in time from the first event on. */
struct span {
    uint64_t start_ns, end_ns;
};

struct groups {
    const struct moment_wish *wish;
    const struct recording_scope *scope;
    const struct cushim_trace_account *account;
    const struct names *names;
    struct span spans[HISTORY_MARKS]; /* of the range */
    size_t n_spans;
    struct group *rows;
    uint64_t n_blocks, n_bytes;
    int error;
};

static bool is_in_range(const struct groups *groups, uint64_t time_ns) {
    if (!groups->wish->range)
        return true;
    uint64_t ns = time_ns - groups->account->first_ns;
    for (size_t i = 0; i < groups->n_spans; i++) {
        if (ns >= groups->spans[i].start_ns && ns < groups->spans[i].end_ns)
            return true;
    }
    return false;
}

/* The group of a block, and its label; a group by site has none. */
static uint64_t key_of(const struct groups *groups, const struct cushim_trace_block *block,
                       char label[LABEL_BYTES]) {
    uint64_t key = block->pool;
    enum moment_group group = groups->wish->group;
    if (group == MOMENT_SITE)
        return block->site->number;
    if (group == MOMENT_SIZE) {
        key = block->n_bytes > 1 ? 64 - (uint64_t)__builtin_clzll(block->n_bytes - 1) : 0;
        snprintf(label, LABEL_BYTES, "up to %s each",
                 CUSHIM_BYTES((uint64_t)1 << (key < 63 ? key : 63)));
    } else if (group == MOMENT_THREAD) {
        key = block->thread;
        snprintf(label, LABEL_BYTES, "thread %" PRIu64, key);
    } else if (group == MOMENT_LIBRARY) {
        const char *library = names_library(groups->names, block->site);
        key = 0xcbf29ce484222325u; /* a hash of the name */
        for (const char *at = library; *at; at++)
            key = (key ^ (unsigned char)*at) * 0x100000001b3u;
        snprintf(label, LABEL_BYTES, "%s",
                 *library ? library : "no frame of a library or the program");
    } else if (key) {
        snprintf(label, LABEL_BYTES, "pool 0x%" PRIx64, key);
    } else {
        strcpy(label, "the driver's own");
    }
    return key;
}

static void add_block(const struct cushim_trace_block *block, void *context) {
    struct groups *groups = context;
    struct group *group;
    if (groups->error || !recording_scope_has(groups->scope, block->device, block->kind) ||
        !is_in_range(groups, block->time_ns))
        return;
    char label[LABEL_BYTES] = "";
    uint64_t key = key_of(groups, block, label);
    HASH_GET(groups->rows, key, key, group);
    if (!group) {
        groups->error = ENOMEM;
        return;
    }
    group->site = block->site;
    memcpy(group->label, label, sizeof label);
    group->n_blocks++;
    group->n_bytes += block->n_bytes;
    groups->n_blocks++;
    groups->n_bytes += block->n_bytes;
}

static int by_bytes(const struct group *a, const struct group *b) {
    int order = cushim_order(b->n_bytes, a->n_bytes);
    return order ? order : cushim_order(a->key, b->key);
}

/* Find the spans of the range: each is from a mark of its name to the next mark. */
static void find_spans(struct groups *groups, const struct history *history) {
    for (unsigned i = 0; groups->wish->range && i < history->n_marks; i++) {
        const struct history_mark *mark = &history->marks[i];
        if (mark->site || strncmp(mark->text, groups->wish->range, HISTORY_TEXT_BYTES - 1) != 0)
            continue;
        unsigned k = i + 1;
        while (k < history->n_marks && history->marks[k].site)
            k++;
        groups->spans[groups->n_spans++] =
            (struct span){mark->ns, k < history->n_marks ? history->marks[k].ns : UINT64_MAX};
    }
}

/* ---- text ---- */

static void put_group(struct cushim_writer *out, const struct groups *groups,
                      const struct group *group) {
    char lead[80];
    snprintf(lead, sizeof lead, "  %9s %10s %9s %-6s  ",
             text_of_share(group->n_bytes, groups->n_bytes), CUSHIM_BYTES(group->n_bytes),
             CUSHIM_COUNT(group->n_blocks), group->n_blocks == 1 ? "block" : "blocks");
    if (groups->wish->group == MOMENT_SITE)
        names_put_site(out, lead, groups->names, group->site);
    else
        cushim_write(out, "%s%s\n", lead, group->label);
}

static void put_groups(struct cushim_writer *out, struct groups *groups) {
    uint64_t n_bytes = 0, n = 0;
    HASH_SORT(groups->rows, by_bytes);
    for (struct group *group = groups->rows; group; group = group->hh.next) {
        if (n++ < MOST_GROUPS)
            put_group(out, groups, group);
        else
            n_bytes += group->n_bytes;
    }
    HASH_FREE(groups->rows);
    if (n > MOST_GROUPS)
        cushim_write(out, "  %18s from %s\n", CUSHIM_BYTES(n_bytes),
                     CUSHIM_SOME(n - MOST_GROUPS, "other"));
}

/* Write "[##o.  ]", with half as many cells as the map has. */
static void put_cells(struct cushim_writer *out, const struct map_row *row) {
    char text[MAP_CELLS / 2 + 1];
    for (unsigned i = 0; i < MAP_CELLS / 2; i++) {
        unsigned ninths = (unsigned)(row->cells[2 * i] - '0' + row->cells[2 * i + 1] - '0');
        text[i] = " .o#"[!ninths ? 0 : ninths < 9 ? 1 : ninths < 18 ? 2 : 3];
    }
    text[MAP_CELLS / 2] = 0;
    cushim_write(out, "[%s]", text);
}

static void put_map(struct cushim_writer *out, const struct map *map) {
    if (!map->n_segments)
        return;
    cushim_write(out,
                 "held      %s in %s: live %s, idle %s\n"
                 "          largest hole %s\n",
                 CUSHIM_BYTES(map->held_bytes), CUSHIM_SOME(map->n_segments, "segment"),
                 CUSHIM_BYTES(map->live_bytes), CUSHIM_BYTES(map->idle_bytes),
                 CUSHIM_BYTES(map->hole_bytes));
    for (size_t i = 0; i < map->n_rows; i++) {
        const struct map_row *row = &map->rows[i];
        cushim_write(out, "  0x%-12" PRIx64 " %10s %6s %-6s ", row->base,
                     CUSHIM_BYTES(row->n_bytes), CUSHIM_COUNT(row->n_blocks),
                     row->n_blocks == 1 ? "block" : "blocks");
        put_cells(out, row);
        cushim_write(out, "\n");
    }
    if (map->n_segments > map->n_rows)
        cushim_write(
            out, "  %zu of %zu segments: those with blocks, and of these with most free bytes\n",
            map->n_rows, map->n_segments);
}

static int put_scope(struct cushim_writer *out, const char *path,
                     const struct recording_scope *scope, const struct moment_wish *wish,
                     struct history *history) {
    static struct recording recording; /* too large for a stack, as the next */
    static struct groups groups;
    struct map map;
    char name[32];
    struct recording_scope until = *scope;
    until.until_ns = wish->is_end ? 0 : wish->ns ? wish->ns : scope->peak_ns;
    history_begin(history, &until, 0);
    int error = recording_read(&recording, path, &until, history);
    if (error)
        return error;
    groups = (struct groups){
        .wish = wish, .scope = scope, .account = &recording.account, .names = recording.names};
    find_spans(&groups, history);
    if (wish->range && !groups.n_spans) {
        recording_close(&recording);
        return ENODATA;
    }
    cushim_trace_account_each(&recording.account, add_block, &groups);
    error = groups.error;
    if (!error)
        error = map_make(&map, &recording.account, scope, MOST_ROWS);
    if (!error) {
        char line[256];
        snprintf(line, sizeof line, "%s after %s%s: %s live in %s%s%s",
                 recording_scope_name(scope, name),
                 CUSHIM_TIME(recording.account.last_ns - recording.account.first_ns),
                 wish->is_end || (wish->ns && wish->ns >= scope->run_ns) ? ", the end"
                 : wish->ns                                              ? ""
                                                                         : ", the peak",
                 CUSHIM_BYTES(groups.n_bytes), CUSHIM_SOME(groups.n_blocks, "block"),
                 wish->range ? " of the range " : "", wish->range ? wish->range : "");
        cushim_utf8_clean(line);
        cushim_write(out, "%s\n", cushim_utf8_fit(line, 80));
        if (atomic_load(&recording.account.reader.head.is_software))
            cushim_write(out, "          (no GPU: recorded on the software device)\n");
        put_groups(out, &groups);
        put_map(out, &map);
        map_free(&map);
    }
    recording_close(&recording);
    return error;
}

int moment_text(struct cushim_writer *out, const char *path, const struct moment_wish *wish) {
    struct recording_scope scopes[RECORDING_SCOPES];
    struct history *history = calloc(1, sizeof *history);
    int n = recording_scopes(path, scopes), error = n < 0 ? -n : history ? 0 : ENOMEM;
    if (!error && !n)
        cushim_write(out, "no memory was requested\n");
    for (int i = 0; i < n && !error; i++) {
        cushim_write(out, "%s", i ? "\n" : "");
        error = put_scope(out, path, &scopes[i], wish, history);
        history_free(history);
    }
    free(history);
    return error;
}
