#include "tools/cushim/commands/diff_sites.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "base/writer.h"
#include "report/frame.h"
#include "report/site.h"
#include "tools/cushim/json.h"
#include "tools/cushim/recording/recording.h"
#include "tools/cushim/symbols.h"

enum { N_SIDES = 2, N_SHOWN = 2, MOST_SITES = 15 };

/* Two frames of a stack, whose lines have only the file.  All of it is a key. */
struct place {
    struct name frames[N_SHOWN];
};

struct row {
    struct place place;
    uint64_t n_bytes[N_SIDES];
    UT_hash_handle hh;
};

static struct row *rows;
static bool is_sampled[N_SIDES], is_recorded[N_SIDES]; /* of each side: it has such a report */

/* ---- places ---- */

/* Set a frame of a place; `file` may be a path, with the line behind a colon. */
static void set_frame(struct name *frame, const char *function, const char *file) {
    file = basename(file);
    snprintf(frame->function, NAME_BYTES, "%s", function);
    snprintf(frame->line, NAME_BYTES, "%.*s", (int)strcspn(file, ":"), file);
    cushim_utf8_clean(frame->function);
    cushim_utf8_clean(frame->line);
}

static void add_place(int side, const struct place *place, uint64_t n_bytes) {
    struct row *row;
    HASH_GET(rows, place, *place, row);
    if (row)
        row->n_bytes[side] += n_bytes;
}

/* ---- of a page ---- */

static void add_page(int side, const struct cushim_report *report) {
    struct cushim_site site;
    for (unsigned i = 0; report->sites && i < CUSHIM_PAGE_SITES; i++) {
        struct place place = {0};
        if (!cushim_site_get(report, i, &site))
            continue;
        for (uint64_t k = 0; k < site.n_frames && k < N_SHOWN; k++) {
            char function[CUSHIM_REPORT_LINE_BYTES], line[CUSHIM_REPORT_LINE_BYTES];
            bool has_line = cushim_frame_line(&site.frames[k], report->find_line, function, line);
            set_frame(&place.frames[k], function, has_line ? line : site.frames[k].file);
        }
        add_place(side, &place, site.peak_live_bytes);
    }
}

/* ---- of JSON ---- */

static void set_frame_of_json(struct name *to, struct json_object *frame) {
    const char *function = json_text(frame, "function"), *line = json_text(frame, "line");
    const char *file = line && *line ? line : json_text(frame, "file");
    set_frame(to, function ? function : "", file ? file : "");
}

static bool add_json(int side, struct json_object *json) {
    struct json_object *list = json_list(json, "sites");
    for (size_t i = 0; i < json_length(list); i++) {
        struct json_object *site = json_object_array_get_idx(list, i);
        struct json_object *stack = json_list(site, "stack");
        struct place place = {0};
        for (size_t k = 0; k < json_length(stack) && k < N_SHOWN; k++)
            set_frame_of_json(&place.frames[k], json_object_array_get_idx(stack, k));
        add_place(side, &place, json_number(site, "peak_live_bytes"));
    }
    return list != NULL;
}

/* ---- of recordings ---- */

static int add_scope(void *context, struct recording *recording,
                     const struct recording_scope *scope, int i_scope, int n_scopes) {
    (void)i_scope;
    for (size_t i = 0; n_scopes && scope->device >= 0 && i < recording->account.n_sites; i++) {
        const struct cushim_trace_site *site = recording->account.sites[i];
        unsigned first = names_first(recording->names, site);
        struct place place = {0};
        for (unsigned k = first; k < site->n_frames && k < first + N_SHOWN; k++) {
            const struct name *name = names_of(recording->names, site->frames[k]);
            set_frame(&place.frames[k - first], name->function,
                      *name->line ? name->line : name->module);
        }
        add_place(*(int *)context, &place, site->noted_bytes);
    }
    return 0;
}

void diff_sites_add(int side, const struct cushim_report *report,
                    const struct report_origin *origin) {
    if (origin->is_recording) {
        is_recorded[side] |= recording_each_scope(origin->name, NULL, 0, add_scope, &side) == 0;
    } else if (origin->json) {
        is_sampled[side] |= add_json(side, (struct json_object *)origin->json);
    } else if (report->sites) {
        symbols_learn(report);
        add_page(side, report);
        is_sampled[side] = true;
    }
}

/* ---- output ---- */

static uint64_t distance(const struct row *row) {
    return cushim_distance(row->n_bytes[0], row->n_bytes[1]);
}

static int by_distance(const struct row *a, const struct row *b) {
    int order = cushim_order(distance(b), distance(a));
    return order ? order : memcmp(&a->place, &b->place, sizeof a->place);
}

void diff_change_text(char text[24], uint64_t before, uint64_t after) {
    __int128_t per_1000 = before ? ((__int128_t)after - (__int128_t)before) * 1000 / before : 0;
    int64_t shown = per_1000 > 9999999 ? 9999999 : (int64_t)per_1000;
    uint64_t size = (uint64_t)(shown < 0 ? -shown : shown);
    if (before == after)
        strcpy(text, "0");
    else if (!before)
        strcpy(text, "new");
    else
        snprintf(text, 24, "%c%u.%u %%", after < before ? '-' : '+', (unsigned)(size / 10),
                 (unsigned)(size % 10));
}

static bool is_named(const struct name *frame) {
    return *frame->function || *frame->line;
}

void diff_sites_put(struct cushim_writer *out) {
    bool has_peaks = is_recorded[0] && is_recorded[1], has_samples = is_sampled[0] && is_sampled[1];
    static const struct name no_stack = {.function = "no stack"};
    unsigned n = 0, n_more = 0;
    if (has_peaks == has_samples || is_recorded[0] != is_recorded[1])
        return;
    HASH_SORT(rows, by_distance);
    for (struct row *row = rows; row && distance(row); row = row->hh.next) {
        char change[24], lead[64];
        if (!n)
            cushim_write(out, "\n  %11s %11s %11s  %s\n", "before", "after", "change",
                         has_peaks ? "at the peak, by site" : "peak live of a site, sampled");
        if (n++ >= MOST_SITES) {
            n_more++;
            continue;
        }
        diff_change_text(change, row->n_bytes[0], row->n_bytes[1]);
        snprintf(lead, sizeof lead, "  %11s %11s %11s  ", CUSHIM_BYTES(row->n_bytes[0]),
                 CUSHIM_BYTES(row->n_bytes[1]), change);
        const struct name *frames[N_SHOWN] = {&no_stack};
        unsigned n_frames = 0;
        while (n_frames < N_SHOWN && is_named(&row->place.frames[n_frames])) {
            frames[n_frames] = &row->place.frames[n_frames];
            n_frames++;
        }
        names_put_place(out, lead, frames, n_frames ? n_frames : 1);
    }
    if (n_more)
        cushim_write(out, "  and %s more\n", CUSHIM_SOME(n_more, "site"));
}
