#include "tools/cushim/recording/html.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/writer.h"
#include "html_parts.h"
#include "report/report.h"
#include "tools/cushim/recording/history.h"
#include "tools/cushim/recording/numbers.h"
#include "tools/cushim/recording/recording.h"
#include "tools/cushim/recording/summary.h"

enum { MOST_SITES = 3000, LEAST_SITES = 100, LEAST_MOMENTS = 16 };

struct page {
    struct cushim_writer *out;
    bool is_redacted;
    unsigned n_files;
    int error;
    struct recording recording;
    struct history history;
    struct numbers numbers; /* of frames */
};

static void put_text(struct cushim_writer *out, const char *name, const char *text) {
    cushim_write(out, "\"%s\":", name);
    cushim_report_put_string(out, text);
    cushim_write(out, ",");
}

static void put_number(struct cushim_writer *out, const char *name, uint64_t n) {
    cushim_write(out, "\"%s\":%" PRIu64 ",", name, n);
}

static const char *after(const char *separator, size_t i) {
    return i ? separator : "";
}

/* ---- frames ---- */

static const char *file_of(const struct page *page, const char *path) {
    const char *slash = strrchr(path, '/');
    return page->is_redacted && slash ? slash + 1 : path;
}

/* All frames of the sites, each once. */
static void put_frames(struct page *page) {
    const struct cushim_trace_account *account = &page->recording.account;
    struct cushim_writer *out = page->out;
    cushim_write(out, "\"frames\":[");
    for (size_t i = 0; i < account->n_sites; i++) {
        const struct cushim_trace_site *site = account->sites[i];
        unsigned k = names_first(page->recording.names, site);
        for (; k < site->n_frames && !page->error; k++) {
            bool is_new;
            uint64_t number;
            if (!numbers_of(&page->numbers, site->frames[k], &number, &is_new))
                page->error = ENOMEM;
            if (page->error || !is_new)
                continue;
            const struct name *name = names_of(page->recording.names, site->frames[k]);
            cushim_write(out, "%s[", number ? ",\n" : "");
            cushim_report_put_string(out, name->function);
            cushim_write(out, ",");
            cushim_report_put_string(out, name->line);
            cushim_write(out, ",");
            cushim_report_put_string(out, file_of(page, name->module));
            cushim_write(out, "]");
        }
    }
    cushim_write(out, "],");
}

/* ---- sites ---- */

static int by_importance(const void *left, const void *right) {
    const struct cushim_trace_site *a = *(struct cushim_trace_site *const *)left;
    const struct cushim_trace_site *b = *(struct cushim_trace_site *const *)right;
    if (a->noted_bytes != b->noted_bytes)
        return a->noted_bytes > b->noted_bytes ? -1 : 1;
    if (a->requested_bytes != b->requested_bytes)
        return a->requested_bytes > b->requested_bytes ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* The most important ones; the page has no more. */
static void choose_sites(struct page *page) {
    struct cushim_trace_account *account = &page->recording.account;
    size_t n = 0, most = MOST_SITES / page->n_files;
    for (size_t i = 0; i < account->n_sites; i++) {
        if (account->sites[i]->n_requests || account->sites[i]->n_refused)
            account->sites[n++] = account->sites[i];
    }
    qsort(account->sites, n, sizeof *account->sites, by_importance);
    if (most < LEAST_SITES)
        most = LEAST_SITES;
    account->n_sites = n < most ? n : most;
}

/* Rows of numbers; `columns` names them. */
static void put_sites(struct page *page) {
    const struct cushim_trace_account *account = &page->recording.account;
    struct cushim_writer *out = page->out;
    cushim_write(out, "\"columns\":[\"id\",\"peak_bytes\",\"peak_blocks\",\"requests\",\"bytes\","
                      "\"frees\",\"life_ns\",\"temporary\",\"live_bytes\",\"live_blocks\","
                      "\"oldest_ns\",\"waits\",\"wait_ns\",\"refused\",\"grows\"],\"sites\":[");
    for (size_t i = 0; i < account->n_sites; i++) {
        const struct cushim_trace_site *site = account->sites[i];
        const uint64_t numbers[] = {site->number,
                                    site->noted_bytes,
                                    site->n_noted,
                                    site->n_requests,
                                    site->requested_bytes,
                                    site->n_frees,
                                    site->life_ns,
                                    site->n_temporary,
                                    site->live_bytes,
                                    site->n_live,
                                    site->oldest_ns ? site->oldest_ns - account->first_ns : 0,
                                    site->n_waits,
                                    site->wait_ns,
                                    site->n_refused,
                                    recording_grows(site)};
        cushim_write(out, "%s[[", after(",\n", i));
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            cushim_write(out, "%s%" PRIu64, after(",", k), numbers[k]);
        cushim_write(out, "],[");
        unsigned first = names_first(page->recording.names, site);
        for (unsigned k = first; k < site->n_frames; k++) {
            bool is_new;
            uint64_t number = 0;
            numbers_of(&page->numbers, site->frames[k], &number, &is_new); /* it is there */
            cushim_write(out, "%s%" PRIu64, after(",", k - first), number);
        }
        cushim_write(out, "]]");
    }
    cushim_write(out, "],");
}

/* ---- history ---- */

static void put_buckets(struct page *page) {
    struct cushim_writer *out = page->out;
    cushim_write(out, "\"buckets\":[");
    for (unsigned i = 0; i < page->history.n_buckets; i++) {
        const struct history_bucket *bucket = &page->history.buckets[i];
        cushim_write(out, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", after(",", i), bucket->least,
                     bucket->most, bucket->held);
    }
    cushim_write(out, "],\n");
}

static void put_map(struct cushim_writer *out, const struct map *map) {
    cushim_write(out, ",\"map\":{");
    put_number(out, "held", map->held_bytes);
    put_number(out, "live", map->live_bytes);
    put_number(out, "idle", map->idle_bytes);
    put_number(out, "hole", map->hole_bytes);
    put_number(out, "segments", map->n_segments);
    cushim_write(out, "\"rows\":[");
    for (size_t i = 0; i < map->n_rows; i++) {
        const struct map_row *row = &map->rows[i];
        cushim_write(out,
                     "%s[\"0x%" PRIx64 "\",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64
                     ",\"%s\"]",
                     after(",", i), row->base, row->n_bytes, row->live_bytes, row->hole_bytes,
                     row->n_blocks, row->site ? (int64_t)row->site->number : -1, row->cells);
    }
    cushim_write(out, "]}");
}

static void put_moments(struct page *page) {
    struct cushim_writer *out = page->out;
    cushim_write(out, "\"moments\":[");
    for (unsigned i = 0; i < page->history.n_moments; i++) {
        const struct history_moment *moment = &page->history.moments[i];
        cushim_write(out, "%s{\"ns\":%" PRIu64 ",\"peak\":%d,\"rest\":%" PRIu64 ",\"of\":[",
                     after(",\n", i), moment->ns, moment->is_peak, moment->rest_bytes);
        for (size_t k = 0; k < moment->n; k++)
            cushim_write(out, "%s%" PRIu64 ",%" PRIu64, after(",", k),
                         moment->shares[k].site->number, moment->shares[k].n_bytes);
        cushim_write(out, "]");
        if (moment->map.n_rows)
            put_map(out, &moment->map);
        cushim_write(out, "}");
    }
    cushim_write(out, "],\n");
}

static void put_marks(struct page *page) {
    struct cushim_writer *out = page->out;
    put_number(out, "more_marks", page->history.n_more_marks);
    cushim_write(out, "\"marks\":[");
    for (unsigned i = 0; i < page->history.n_marks; i++) {
        const struct history_mark *mark = &page->history.marks[i];
        cushim_write(
            out, "%s{\"ns\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"site\":%" PRId64 ",\"text\":",
            after(",", i), mark->ns, mark->n_bytes, mark->site ? (int64_t)mark->site->number : -1);
        cushim_report_put_string(out, mark->text);
        cushim_write(out, "}");
    }
    cushim_write(out, "],");
}

static void put_copies(struct page *page) {
    struct cushim_writer *out = page->out;
    cushim_write(out, "\"copies\":[");
    for (unsigned i = 0; i < page->history.n_copies; i++) {
        const struct history_copies *row = &page->history.copies[i];
        cushim_write(out, "%s{\"to_host\":%d,\"by_driver\":%d,", after(",", i), row->is_to_host,
                     row->is_by_driver);
        put_number(out, "n", row->n);
        put_number(out, "bytes", row->n_bytes);
        put_number(out, "timed_bytes", row->timed_bytes);
        put_number(out, "ns", row->ns);
        cushim_write(out, "\"why\":");
        cushim_report_put_string(out, row->why);
        cushim_write(out, "}");
    }
    cushim_write(out, "]");
}

/* ---- recordings ---- */

static void put_scope(struct page *page, const struct recording_scope *scope) {
    char name[32];
    struct cushim_writer *out = page->out;
    choose_sites(page);
    put_text(out, "name", recording_scope_name(scope, name));
    put_number(out, "requests", scope->n_requests);
    put_number(out, "no_call", scope->n_hits);
    put_number(out, "peak_bytes", scope->peak_bytes);
    put_number(out, "peak_ns", scope->peak_ns);
    put_number(out, "held_bytes", scope->peak_held_bytes);
    put_number(out, "live_bytes", scope->live_bytes);
    put_number(out, "live_blocks", scope->n_live);
    put_number(out, "waits", scope->n_waits);
    put_number(out, "wait_ns", scope->wait_ns);
    put_number(out, "refused", scope->n_refused);
    put_frames(page);
    put_sites(page);
    numbers_free(&page->numbers);
    put_buckets(page);
    put_moments(page);
    put_marks(page);
    put_copies(page);
}

static void put_head(struct page *page) {
    const struct cushim_trace_account *account = &page->recording.account;
    struct cushim_writer *out = page->out;
    const struct cushim_trace_head *head = &account->reader.head;
    put_text(out, "program", file_of(page, head->program));
    put_text(out, "arguments", page->is_redacted ? "" : head->arguments);
    put_text(out, "host", page->is_redacted ? "" : head->host);
    put_text(out, "cushim", head->product);
    put_text(out, "end", summary_end(head, (char[64]){0}));
    put_text(out, "free", head->is_relaxed ? "relaxed" : "exact");
    put_number(out, "pid", head->process);
    if (cushim_trace_rank(head) >= 0)
        put_number(out, "rank", (uint64_t)cushim_trace_rank(head));
    put_number(out, "start_wall_ns", head->start_wall_ns);
    put_number(out, "run_ns", account->last_ns - account->first_ns);
    if (atomic_load(&head->is_software))
        cushim_write(out, "\"is_software\":true,");
    put_number(out, "events", account->n_events);
    put_number(out, "lost", atomic_load(&head->n_lost));
    put_number(out, "damaged", account->reader.n_damaged);
    put_number(out, "strange", account->n_strange);
    put_number(out, "foreign", account->n_foreign);
    put_number(out, "disorder", account->n_disorder);
    put_number(out, "newer", names_newer(page->recording.names));
}

/* A recording.  Its first scope is read before anything is written, so that one that cannot be read
 * leaves nothing. */
static int put_recording(struct page *page, const char *path, const char *comma) {
    struct recording_scope scopes[CUSHIM_TRACE_DEVICES + 1];
    int n = recording_scopes(path, scopes), error = n < 0 ? -n : 0;
    unsigned most = n > 0 ? HISTORY_MOMENTS / ((unsigned)n * page->n_files) : 0;
    if (error)
        return error;
    for (int i = 0; i < (n ? n : 1); i++) {
        history_begin(&page->history, &scopes[i], most < LEAST_MOMENTS ? LEAST_MOMENTS : most);
        error = recording_read(&page->recording, path, &scopes[i], &page->history);
        if (error && !i)
            return error;
        if (!i) {
            cushim_write(page->out, "%s{", comma);
            put_head(page);
            cushim_write(page->out, "\"scopes\":[");
        }
        if (!error && n) {
            cushim_write(page->out, "%s{", after(",\n", (size_t)i));
            put_scope(page, &scopes[i]);
            cushim_write(page->out, "}");
        }
        if (!error)
            recording_close(&page->recording);
        history_free(&page->history);
    }
    cushim_write(page->out, "]}");
    return page->error;
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
    cushim_write(out, "{\"schema\":\"cushim-page/1\",\"recordings\":[");
    for (size_t i = 0; i < files->n; i++) {
        int error = put_recording(page, files->paths[i], after(",\n", n));
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
