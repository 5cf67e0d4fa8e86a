#include "base/bits.h"
#include "tools/cushim/recording/html.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/writer.h"
#include "html_parts.h"
#include "report/json.h"
#include "report/report.h"
#include "tools/cushim/recording/history.h"
#include "tools/cushim/numbers.h"
#include "tools/cushim/recording/recording.h"
#include "tools/cushim/recording/summary.h"

enum { MOST_SITES = 3000, LEAST_SITES = 100 };

struct page {
    struct cushim_writer *out;
    bool is_redacted;
    unsigned n_files;
    int error;
    struct recording *recording;
    bool is_open; /* the recording's object has begun */
    struct history history;
    struct numbers numbers; /* of frames */
};

/* ---- frames ---- */

static const char *file_of(const struct page *page, const char *path) {
    return page->is_redacted ? basename(path) : path;
}

/* Write all frames of the sites, each once. */
static void put_frames(struct page *page) {
    const struct cushim_trace_account *account = &page->recording->account;
    struct cushim_writer *out = page->out;
    cushim_json_begin(out, "frames", "[");
    for (size_t i = 0; i < account->n_sites; i++) {
        const struct cushim_trace_site *site = account->sites[i];
        unsigned k = names_first(page->recording->names, site);
        for (; k < site->n_frames && !page->error; k++) {
            bool is_new;
            uint64_t number;
            if (!numbers_of(&page->numbers, site->frames[k], &number, &is_new))
                page->error = ENOMEM;
            if (page->error || !is_new)
                continue;
            const struct name *name = names_of(page->recording->names, site->frames[k]);
            cushim_json_begin(out, "\n", "[");
            cushim_json_text(out, NULL, name->function);
            cushim_json_text(out, NULL, name->line);
            cushim_json_text(out, NULL, file_of(page, name->module));
            cushim_write(out, "]");
        }
    }
    cushim_write(out, "]");
}

/* ---- sites ---- */

static int by_importance(const void *left, const void *right) {
    const struct cushim_trace_site *a = *(struct cushim_trace_site *const *)left;
    const struct cushim_trace_site *b = *(struct cushim_trace_site *const *)right;
    int order = cushim_order(b->noted_bytes, a->noted_bytes);
    order = order ? order : cushim_order(b->requested_bytes, a->requested_bytes);
    return order ? order : cushim_order(a->number, b->number);
}

/* Keep the most important sites; the page has no more. */
static void choose_sites(struct page *page) {
    struct cushim_trace_account *account = &page->recording->account;
    size_t n = 0, most = MOST_SITES / page->n_files;
    for (size_t i = 0; i < account->n_sites; i++) {
        if (recording_has_site(account->sites[i]) || account->sites[i]->n_refused)
            account->sites[n++] = account->sites[i];
    }
    qsort(account->sites, n, sizeof *account->sites, by_importance);
    if (most < LEAST_SITES)
        most = LEAST_SITES;
    account->n_sites = n < most ? n : most;
}

/* Write the sites as rows of numbers, which `columns` names. */
static void put_sites(struct page *page) {
    const struct cushim_trace_account *account = &page->recording->account;
    struct cushim_writer *out = page->out;
    enum { N_COLUMNS = 15 };
    cushim_json_put(
        out, "columns",
        "[\"id\",\"peak_bytes\",\"peak_blocks\",\"requests\",\"bytes\",\"frees\",\"life_ns\","
        "\"temporary\",\"live_bytes\",\"live_blocks\",\"oldest_ns\",\"waits\",\"wait_ns\","
        "\"refused\",\"grows\"]");
    cushim_json_begin(out, "sites", "[");
    for (size_t i = 0; i < account->n_sites; i++) {
        const struct cushim_trace_site *site = account->sites[i];
        const uint64_t oldest_ns = site->oldest_ns ? site->oldest_ns - account->first_ns : 0;
        const uint64_t numbers[N_COLUMNS] = {
            site->number,          site->noted_bytes, site->n_noted, site->n_requests,
            site->requested_bytes, site->n_frees,     site->life_ns, site->n_temporary,
            site->live_bytes,      site->n_live,      oldest_ns,     site->n_waits,
            site->wait_ns,         site->n_refused,   site->grows};
        cushim_json_begin(out, "\n", "[");
        cushim_json_list(out, NULL, numbers, N_COLUMNS);
        cushim_json_begin(out, NULL, "[");
        for (unsigned k = names_first(page->recording->names, site); k < site->n_frames; k++) {
            bool is_new;
            uint64_t number = 0;
            /* put_frames has added it */
            numbers_of(&page->numbers, site->frames[k], &number, &is_new);
            cushim_json_number(out, NULL, number);
        }
        cushim_write(out, "]");
        cushim_json_text(out, NULL, names_library(page->recording->names, site));
        cushim_write(out, "]");
    }
    cushim_write(out, "]");
}

/* ---- history ---- */

static void put_bucket(struct cushim_writer *out, const char *name, uint64_t kinds,
                       const struct history_bucket *bucket) {
    uint64_t numbers[3 + CUSHIM_N_KINDS] = {bucket->least, bucket->most, bucket->held};
    size_t n = 3;
    for (int i = 0; i < CUSHIM_N_KINDS; i++) {
        if (kinds >> i & 1)
            numbers[n++] = bucket->of_kinds[i];
    }
    cushim_json_list(out, name, numbers, n);
}

static void put_buckets(struct cushim_writer *out, const struct history *history) {
    cushim_json_begin(out, "kinds", "[");
    for (int i = 0; i < CUSHIM_N_KINDS; i++) {
        if (history->kinds >> i & 1)
            cushim_json_text(out, NULL, cushim_report_kind((enum cushim_kind)i));
    }
    cushim_write(out, "]");
    put_bucket(out, "peak", history->kinds, &history->peak);
    cushim_json_begin(out, "buckets", "[");
    for (unsigned i = 0; i < history->n_buckets; i++)
        put_bucket(out, NULL, history->kinds, &history->buckets[i]);
    cushim_write(out, "]");
}

/* -1 if there is no site. */
static int64_t number_of(const struct cushim_trace_site *site) {
    return site ? (int64_t)site->number : -1;
}

static void put_map(struct cushim_writer *out, const struct map *map) {
    cushim_json_begin(out, "map", "{");
    cushim_json_numbers(out, "held live idle hole segments",
                        (const uint64_t[]){map->held_bytes, map->live_bytes, map->idle_bytes,
                                           map->hole_bytes, map->n_segments});
    cushim_json_begin(out, "rows", "[");
    for (size_t i = 0; i < map->n_rows; i++) {
        const struct map_row *row = &map->rows[i];
        cushim_json_put(out, NULL,
                        "[\"0x%" PRIx64 "\",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                        ",%" PRId64 ",\"%s\"]",
                        row->base, row->n_bytes, row->live_bytes, row->hole_bytes, row->n_blocks,
                        number_of(row->site), row->cells);
    }
    cushim_write(out, "]}");
}

static void put_moments(struct cushim_writer *out, const struct history *history) {
    cushim_json_begin(out, "moments", "[");
    for (unsigned i = 0; i < history->n_moments; i++) {
        const struct history_moment *moment = &history->moments[i];
        cushim_json_begin(out, "\n", "{");
        cushim_json_numbers(out, "ns peak rest",
                            (const uint64_t[]){moment->ns, moment->is_peak, moment->rest_bytes});
        cushim_json_begin(out, "of", "[");
        for (size_t k = 0; k < moment->n; k++) {
            cushim_json_number(out, NULL, moment->shares[k].site->number);
            cushim_json_number(out, NULL, moment->shares[k].n_bytes);
        }
        cushim_write(out, "]");
        if (moment->map.n_rows)
            put_map(out, &moment->map);
        cushim_write(out, "}");
    }
    cushim_write(out, "]");
}

static void put_marks(struct cushim_writer *out, const struct history *history) {
    cushim_json_number(out, "more_marks", history->n_more_marks);
    cushim_json_begin(out, "marks", "[");
    for (unsigned i = 0; i < history->n_marks; i++) {
        const struct history_mark *mark = &history->marks[i];
        cushim_json_begin(out, NULL, "{");
        cushim_json_numbers(out, "ns bytes", (const uint64_t[]){mark->ns, mark->n_bytes});
        cushim_json_put(out, "site", "%" PRId64, number_of(mark->site));
        cushim_json_text(out, "text", mark->text);
        cushim_write(out, "}");
    }
    cushim_write(out, "]");
}

static void put_copies(struct cushim_writer *out, const struct history *history) {
    cushim_json_begin(out, "copies", "[");
    for (unsigned i = 0; i < history->n_copies; i++) {
        const struct history_copies *row = &history->copies[i];
        cushim_json_begin(out, NULL, "{");
        cushim_json_numbers(out, "to_host by_driver n bytes timed_bytes ns",
                            (const uint64_t[]){row->is_to_host, row->is_by_driver, row->n,
                                               row->n_bytes, row->timed_bytes, row->ns});
        cushim_json_text(out, "why", row->why);
        cushim_write(out, "}");
    }
    cushim_write(out, "]");
}

/* ---- recordings ---- */

static void put_scope(struct page *page, const struct recording_scope *scope) {
    char name[32];
    struct cushim_writer *out = page->out;
    cushim_json_begin(out, "\n", "{");
    cushim_json_text(out, "name", recording_scope_name(scope, name));
    if (scope->device >= 0) {
        cushim_json_text(out, "device", page->recording->devices[scope->device].name);
        cushim_json_number(out, "device_bytes", page->recording->devices[scope->device].n_bytes);
    }
    summary_put_scope(out, scope,
                      "requests no_call peak_bytes peak_ns held_bytes live_bytes live_blocks waits "
                      "wait_ns refused");
    choose_sites(page);
    put_frames(page);
    put_sites(page);
    numbers_free(&page->numbers);
    put_buckets(out, &page->history);
    put_moments(out, &page->history);
    put_marks(out, &page->history);
    put_copies(out, &page->history);
    cushim_write(out, "}");
}

static void put_head(struct page *page) {
    const struct cushim_trace_head *head = &page->recording->account.reader.head;
    struct cushim_writer *out = page->out;
    cushim_json_text(out, "program", file_of(page, head->program));
    cushim_json_text(out, "arguments", page->is_redacted ? "" : head->arguments);
    cushim_json_text(out, "host", page->is_redacted ? "" : head->host);
    cushim_json_text(out, "free", head->is_relaxed ? "relaxed" : "exact");
    if (cushim_trace_rank(head) >= 0)
        cushim_json_number(out, "rank", (uint64_t)cushim_trace_rank(head));
    cushim_json_number(out, "start_wall_ns", head->start_wall_ns);
    cushim_json_number(out, "recorded_ns",
                       cushim_trace_account_since(&page->recording->account,
                                                  recording_end_ns(&page->recording->account)));
    summary_put_facts(out, page->recording);
}

static int see_scope(void *context, struct recording *recording,
                     const struct recording_scope *scope, int i, int n) {
    struct page *page = context;
    (void)n;
    page->recording = recording;
    if (!i) {
        cushim_json_begin(page->out, "\n", "{");
        put_head(page);
        cushim_json_begin(page->out, "scopes", "[");
        page->is_open = true;
    }
    if (scope)
        put_scope(page, scope);
    return page->error;
}

/* Write one recording.  Its first scope is read before anything is written, so a recording that
 * cannot be read leaves nothing. */
static int put_recording(struct page *page, const char *path) {
    page->is_open = false;
    int error = recording_each_scope(path, &page->history, HISTORY_MOMENTS / page->n_files,
                                     see_scope, page);
    if (page->is_open)
        cushim_write(page->out, "]}");
    return error;
}

unsigned html_put(struct cushim_writer *out, const struct recording_files *files, bool is_redacted,
                  void (*complain_of)(const char *path, int error)) {
    struct page *page = calloc(1, sizeof *page);
    unsigned n = 0;
    if (!page) {
        complain_of("the page", ENOMEM);
        return 0;
    }
    page->out = out;
    page->is_redacted = is_redacted;
    page->n_files = (unsigned)files->n;
    cushim_write_bytes(out, html_before, sizeof html_before);
    cushim_write(out, "{");
    cushim_json_text(out, "schema", "cushim-page/1");
    cushim_json_begin(out, "recordings", "[");
    for (size_t i = 0; i < files->n; i++) {
        int error = put_recording(page, files->paths[i]);
        if (error)
            complain_of(files->paths[i], error);
        else
            n++;
    }
    cushim_write(out, "]}");
    cushim_write_bytes(out, html_after, sizeof html_after);
    free(page);
    return n;
}
