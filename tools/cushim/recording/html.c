#include "base/bits.h"
#include "tools/cushim/recording/html.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/writer.h"
#include "html_parts.h"
#include "report/report.h"
#include "tools/cushim/json.h"
#include "tools/cushim/recording/history.h"
#include "tools/cushim/numbers.h"
#include "tools/cushim/recording/recording.h"
#include "tools/cushim/recording/summary.h"

enum { MOST_SITES = 3000, LEAST_SITES = 100 };

struct page {
    struct json_output json;
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
    struct json_output *json = &page->json;
    json_begin(json, "frames", "[");
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
            json_begin(json, NULL, "\n[");
            json_put_text(json, NULL, name->function);
            json_put_text(json, NULL, name->line);
            json_put_text(json, NULL, file_of(page, name->module));
            json_end(json, "]");
        }
    }
    json_end(json, "]");
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
    struct json_output *json = &page->json;
    enum { N_COLUMNS = 15 };
    json_put(json, "columns",
             "[\"id\",\"peak_bytes\",\"peak_blocks\",\"requests\",\"bytes\",\"frees\",\"life_ns\","
             "\"temporary\",\"live_bytes\",\"live_blocks\",\"oldest_ns\",\"waits\",\"wait_ns\","
             "\"refused\",\"grows\"]");
    json_begin(json, "sites", "[");
    for (size_t i = 0; i < account->n_sites; i++) {
        const struct cushim_trace_site *site = account->sites[i];
        const uint64_t oldest_ns = site->oldest_ns ? site->oldest_ns - account->first_ns : 0;
        const uint64_t grows = site->grows;
        const uint64_t numbers[N_COLUMNS] = {
            site->number,          site->noted_bytes, site->n_noted, site->n_requests,
            site->requested_bytes, site->n_frees,     site->life_ns, site->n_temporary,
            site->live_bytes,      site->n_live,      oldest_ns,     site->n_waits,
            site->wait_ns,         site->n_refused,   grows};
        json_begin(json, NULL, "\n[");
        json_begin(json, NULL, "[");
        for (size_t k = 0; k < N_COLUMNS; k++)
            json_put_number(json, NULL, numbers[k]);
        json_end(json, "]");
        json_begin(json, NULL, "[");
        for (unsigned k = names_first(page->recording->names, site); k < site->n_frames; k++) {
            bool is_new;
            uint64_t number = 0;
            /* put_frames has added it */
            numbers_of(&page->numbers, site->frames[k], &number, &is_new);
            json_put_number(json, NULL, number);
        }
        json_end(json, "]");
        json_put_text(json, NULL, names_library(page->recording->names, site));
        json_end(json, "]");
    }
    json_end(json, "]");
}

/* ---- history ---- */

static void put_bucket(struct json_output *json, const char *name, uint64_t kinds,
                       const struct history_bucket *bucket) {
    json_begin(json, name, "[");
    json_put_number(json, NULL, bucket->least);
    json_put_number(json, NULL, bucket->most);
    json_put_number(json, NULL, bucket->held);
    for (int i = 0; i < CUSHIM_N_KINDS; i++) {
        if (kinds >> i & 1)
            json_put_number(json, NULL, bucket->of_kinds[i]);
    }
    json_end(json, "]");
}

static void put_buckets(struct json_output *json, const struct history *history) {
    json_begin(json, "kinds", "[");
    for (int i = 0; i < CUSHIM_N_KINDS; i++) {
        if (history->kinds >> i & 1)
            json_put_text(json, NULL, cushim_report_kind((enum cushim_kind)i));
    }
    json_end(json, "]");
    put_bucket(json, "peak", history->kinds, &history->peak);
    json_begin(json, "buckets", "[");
    for (unsigned i = 0; i < history->n_buckets; i++)
        put_bucket(json, NULL, history->kinds, &history->buckets[i]);
    json_end(json, "]");
}

/* -1 if there is no site. */
static int64_t number_of(const struct cushim_trace_site *site) {
    return site ? (int64_t)site->number : -1;
}

static void put_map(struct json_output *json, const struct map *map) {
    json_begin(json, "map", "{");
    json_put_numbers(json, "held live idle hole segments",
                     (const uint64_t[]){map->held_bytes, map->live_bytes, map->idle_bytes,
                                        map->hole_bytes, map->n_segments});
    json_begin(json, "rows", "[");
    for (size_t i = 0; i < map->n_rows; i++) {
        const struct map_row *row = &map->rows[i];
        json_put(json, NULL,
                 "[\"0x%" PRIx64 "\",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64
                 ",\"%s\"]",
                 row->base, row->n_bytes, row->live_bytes, row->hole_bytes, row->n_blocks,
                 number_of(row->site), row->cells);
    }
    json_end(json, "]}");
}

static void put_moments(struct json_output *json, const struct history *history) {
    json_begin(json, "moments", "[");
    for (unsigned i = 0; i < history->n_moments; i++) {
        const struct history_moment *moment = &history->moments[i];
        json_begin(json, NULL, "\n{");
        json_put_number(json, "ns", moment->ns);
        json_put_number(json, "peak", moment->is_peak);
        json_put_number(json, "rest", moment->rest_bytes);
        json_begin(json, "of", "[");
        for (size_t k = 0; k < moment->n; k++) {
            json_put_number(json, NULL, moment->shares[k].site->number);
            json_put_number(json, NULL, moment->shares[k].n_bytes);
        }
        json_end(json, "]");
        if (moment->map.n_rows)
            put_map(json, &moment->map);
        json_end(json, "}");
    }
    json_end(json, "]");
}

static void put_marks(struct json_output *json, const struct history *history) {
    json_put_number(json, "more_marks", history->n_more_marks);
    json_begin(json, "marks", "[");
    for (unsigned i = 0; i < history->n_marks; i++) {
        const struct history_mark *mark = &history->marks[i];
        json_begin(json, NULL, "{");
        json_put_number(json, "ns", mark->ns);
        json_put_number(json, "bytes", mark->n_bytes);
        json_put(json, "site", "%" PRId64, number_of(mark->site));
        json_put_text(json, "text", mark->text);
        json_end(json, "}");
    }
    json_end(json, "]");
}

static void put_copies(struct json_output *json, const struct history *history) {
    json_begin(json, "copies", "[");
    for (unsigned i = 0; i < history->n_copies; i++) {
        const struct history_copies *row = &history->copies[i];
        json_begin(json, NULL, "{");
        json_put_numbers(json, "to_host by_driver n bytes timed_bytes ns",
                         (const uint64_t[]){row->is_to_host, row->is_by_driver, row->n,
                                            row->n_bytes, row->timed_bytes, row->ns});
        json_put_text(json, "why", row->why);
        json_end(json, "}");
    }
    json_end(json, "]");
}

/* ---- recordings ---- */

static void put_scope(struct page *page, const struct recording_scope *scope) {
    char name[32];
    struct json_output *json = &page->json;
    json_begin(json, NULL, "\n{");
    json_put_text(json, "name", recording_scope_name(scope, name));
    if (scope->device >= 0) {
        json_put_text(json, "device", page->recording->devices[scope->device].name);
        json_put_number(json, "device_bytes", page->recording->devices[scope->device].n_bytes);
    }
    summary_put_scope(json, scope,
                      "requests no_call peak_bytes peak_ns held_bytes live_bytes live_blocks waits "
                      "wait_ns refused");
    choose_sites(page);
    put_frames(page);
    put_sites(page);
    numbers_free(&page->numbers);
    put_buckets(json, &page->history);
    put_moments(json, &page->history);
    put_marks(json, &page->history);
    put_copies(json, &page->history);
    json_end(json, "}");
}

static void put_head(struct page *page) {
    const struct cushim_trace_head *head = &page->recording->account.reader.head;
    struct json_output *json = &page->json;
    json_put_text(json, "program", file_of(page, head->program));
    json_put_text(json, "arguments", page->is_redacted ? "" : head->arguments);
    json_put_text(json, "host", page->is_redacted ? "" : head->host);
    json_put_text(json, "free", head->is_relaxed ? "relaxed" : "exact");
    if (cushim_trace_rank(head) >= 0)
        json_put_number(json, "rank", (uint64_t)cushim_trace_rank(head));
    json_put_number(json, "start_wall_ns", head->start_wall_ns);
    summary_put_facts(json, page->recording);
}

static int see_scope(void *context, struct recording *recording,
                     const struct recording_scope *scope, int i, int n) {
    struct page *page = context;
    (void)n;
    page->recording = recording;
    if (!i) {
        json_begin(&page->json, NULL, "\n{");
        put_head(page);
        json_begin(&page->json, "scopes", "[");
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
        json_end(&page->json, "]}");
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
    page->json.out = out;
    page->is_redacted = is_redacted;
    page->n_files = (unsigned)files->n;
    cushim_write_bytes(out, html_before, sizeof html_before);
    json_begin(&page->json, NULL, "{");
    json_put_text(&page->json, "schema", "cushim-page/1");
    json_begin(&page->json, "recordings", "[");
    for (size_t i = 0; i < files->n; i++) {
        int error = put_recording(page, files->paths[i]);
        if (error)
            complain_of(files->paths[i], error);
        else
            n++;
    }
    json_end(&page->json, "]}");
    cushim_write_bytes(out, html_after, sizeof html_after);
    free(page);
    return n;
}
