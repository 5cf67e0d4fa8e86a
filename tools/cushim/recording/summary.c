#include "base/bits.h"
#include "tools/cushim/run_reports.h"
#include "tools/cushim/recording/summary.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/utf8.h"
#include "base/writer.h"
#include "report/json.h"
#include "report/report.h"
#include "report/site.h"
#include "tools/cushim/numbers.h"

enum { MOST_SITES = 10, MOST_FEW = 5, LEAD_BYTES = 80 };

/* A measure of sites: a number of each, by its offset.  Of a site that grows it is what is live. */
#define BY(member) offsetof(struct cushim_trace_site, member)

static uint64_t measure_of(const struct cushim_trace_site *site, size_t measure) {
    if (measure == BY(grows))
        return site->grows ? site->live_bytes : 0;
    return *(const uint64_t *)((const char *)site + measure);
}

/* ---- sites ---- */

static int by_measure(const void *left, const void *right, void *context) {
    const size_t measure = *(const size_t *)context;
    const struct cushim_trace_site *a = *(struct cushim_trace_site *const *)left;
    const struct cushim_trace_site *b = *(struct cushim_trace_site *const *)right;
    int order = cushim_order(measure_of(b, measure), measure_of(a, measure));
    return order ? order : cushim_order(a->number, b->number);
}

/* Sort the sites by a measure, the largest first.  Returns how many have any of it. */
static size_t sort(struct cushim_trace_account *account, size_t measure) {
    size_t n = 0;
    qsort_r(account->sites, account->n_sites, sizeof *account->sites, by_measure, &measure);
    while (n < account->n_sites && measure_of(account->sites[n], measure))
        n++;
    return n;
}

/* Write a row for each of the largest sites, and one for the others. */
static void put_sites(struct cushim_writer *out, struct recording *recording, size_t measure,
                      bool is_noted) {
    char lead[LEAD_BYTES];
    uint64_t rest = 0, all = 0;
    size_t n = sort(&recording->account, measure);
    for (size_t i = 0; i < n; i++)
        all += measure_of(recording->account.sites[i], measure);
    for (size_t i = 0; i < n; i++) {
        const struct cushim_trace_site *site = recording->account.sites[i];
        uint64_t n_bytes = measure_of(site, measure),
                 n_blocks = is_noted ? site->n_noted : site->n_live;
        if (i >= MOST_SITES) {
            rest += n_bytes;
            continue;
        }
        snprintf(lead, sizeof lead, "  %8s %10s %9s %-6s  ", text_of_share(n_bytes, all),
                 CUSHIM_BYTES(n_bytes), CUSHIM_COUNT(n_blocks), n_blocks == 1 ? "block" : "blocks");
        names_put_site(out, lead, recording->names, site);
    }
    if (n > MOST_SITES)
        cushim_write(out, "  %8s %10s from %s\n", text_of_share(rest, all), CUSHIM_BYTES(rest),
                     CUSHIM_SOME(n - MOST_SITES, "other site"));
}

/* ---- text ---- */

static const char *const ends[] = {
    [CUSHIM_TRACE_RUNNING] = "it still runs, or its end was not recorded",
    [CUSHIM_TRACE_ENDED] = "it called exit",
    [CUSHIM_TRACE_FAILED] = "the recording ended early: its file could not be written",
    [CUSHIM_TRACE_FULL] = "the recording ended early: its file was full",
    [CUSHIM_TRACE_STOPPED] = "the process ran on",
};

const char *summary_end(const struct cushim_trace_head *head, char text[static 64]) {
    uint64_t state = atomic_load(&head->state), next_status = atomic_load(&head->next_status);
    int status = (int)(next_status - 1);
    char by[32];
    bool is_cut = state == CUSHIM_TRACE_FAILED || state == CUSHIM_TRACE_FULL;
    if (next_status && !is_cut && WIFSIGNALED(status)) {
        snprintf(text, 64, "%s ended it", run_reports_signal(WTERMSIG(status), by));
        return text;
    }
    if (next_status && !is_cut && WIFEXITED(status)) {
        snprintf(text, 64, "it ended with status %d", WEXITSTATUS(status));
        return text;
    }
    return state < sizeof ends / sizeof *ends && ends[state] ? ends[state]
                                                             : "how it ended is unknown";
}

static void put_head(struct cushim_writer *out, const struct cushim_trace_account *account) {
    const struct cushim_trace_head *head = &account->reader.head;
    enum { LEAD = sizeof "cushim : " - 1, PRODUCT = 12, HOST = 20, LEAST_NAME = 8 };
    char end[64], arguments[1024], host[64], product[64], rest[256], *name = arguments;
    snprintf(arguments, sizeof arguments, "%s", *head->arguments ? head->arguments : head->program);
    snprintf(host, sizeof host, "%s", head->host);
    snprintf(product, sizeof product, "%s", head->product);
    cushim_utf8_clean(arguments);
    cushim_utf8_clean(host);
    cushim_utf8_clean(product);
    int n = snprintf(rest, sizeof rest, "   process %" PRIu64 " on %s", head->process,
                     cushim_utf8_fit(host, HOST));
    if (cushim_trace_rank(head) >= 0)
        n +=
            snprintf(rest + n, sizeof rest - (size_t)n, ", rank %" PRId64, cushim_trace_rank(head));
    if (cushim_trace_rank(head) >= 0 && cushim_trace_ranks(head) >= 0)
        snprintf(rest + n, sizeof rest - (size_t)n, " of %" PRId64, cushim_trace_ranks(head));
    cushim_utf8_fit(rest, 80 - LEAD - PRODUCT - LEAST_NAME);
    cushim_utf8_fit(product, PRODUCT);
    size_t columns = 80 - LEAD - cushim_utf8_columns(product) - cushim_utf8_columns(rest);
    /* the folder of the program goes first, because its name says more */
    for (char *at = name; cushim_utf8_columns(arguments) > columns && *at && *at != ' '; at++)
        name = *at == '/' ? at + 1 : name;
    cushim_write(out, "cushim %s: %s%s\n", product, cushim_utf8_fit(name, columns), rest);
    cushim_write(out, "  recorded %s%s, %s; %s\n",
                 CUSHIM_TIME(cushim_trace_account_since(account, recording_end_ns(account))),
                 atomic_load(&head->is_software) ? " (no GPU)" : "",
                 CUSHIM_SOME(account->n_events, "event"), summary_end(head, end));
}

typedef void words_fn(char *text, size_t n_bytes, const struct cushim_trace_site *site);

/* Write a row for each of the few largest sites, of which the first begins with a word and its
 * blanks.  Returns how many sites there are. */
static size_t put_few(struct cushim_writer *out, struct recording *recording, size_t measure,
                      const char *word, words_fn *words) {
    char lead[LEAD_BYTES];
    size_t n = sort(&recording->account, measure);
    for (size_t i = 0; i < n && i < MOST_FEW; i++) {
        const struct cushim_trace_site *site = recording->account.sites[i];
        int n_word = snprintf(lead, sizeof lead, "%-*s", (int)strlen(word), i ? "" : word);
        words(lead + n_word, sizeof lead - (size_t)n_word, site);
        names_put_site(out, lead, recording->names, site);
    }
    return n;
}

static void churn_words(char *text, size_t n_bytes, const struct cushim_trace_site *site) {
    snprintf(text, n_bytes,
             "%s freed before the next request: ", CUSHIM_SOME(site->n_temporary, "block"));
}

static void wait_words(char *text, size_t n_bytes, const struct cushim_trace_site *site) {
    snprintf(text, n_bytes, "%11s %9s %-5s   ", CUSHIM_TIME(site->wait_ns),
             CUSHIM_COUNT(site->n_waits), site->n_waits == 1 ? "free" : "frees");
}

static void refused_words(char *text, size_t n_bytes, const struct cushim_trace_site *site) {
    snprintf(text, n_bytes, "%s found no memory: ", CUSHIM_SOME(site->n_refused, "request"));
}

/* A cache that asks again at another place of its own has one row. */
static void put_refused(struct cushim_writer *out, struct recording *recording, const char *word) {
    enum { MOST_JOINED = 64 };
    struct cushim_trace_site **sites = recording->account.sites;
    size_t n = sort(&recording->account, BY(n_refused));
    for (size_t i = 1; i < n && i < MOST_JOINED; i++) {
        size_t k = 0;
        while (k < i &&
               !(sites[k]->n_refused && names_are_alike(recording->names, sites[k], sites[i])))
            k++;
        if (k < i) {
            sites[k]->n_refused += sites[i]->n_refused;
            sites[i]->n_refused = 0;
        }
    }
    put_few(out, recording, BY(n_refused), word, refused_words);
}

static void leak_words(char *text, size_t n_bytes, const struct cushim_trace_site *site) {
    snprintf(text, n_bytes, "%s, %s live at the end: ", CUSHIM_LEAK(site->hour_bytes),
             CUSHIM_BYTES(site->live_bytes));
}

static void put_waits(struct cushim_writer *out, struct recording *recording,
                      const struct recording_scope *scope) {
    if (!scope->n_waits)
        return;
    cushim_write(out, "waits     %s in %s\n", CUSHIM_TIME(scope->wait_ns),
                 CUSHIM_SOME(scope->n_waits, "free"));
    put_few(out, recording, BY(wait_ns), "          ", wait_words);
}

/* Returns whether a site of it may leak. */
static bool put_scope(struct cushim_writer *out, struct recording *recording,
                      const struct recording_scope *scope) {
    char name[32];
    cushim_write(out, "\n%s\n", recording_scope_name(scope, name));
    cushim_write(out, "peak      %s live after %s", CUSHIM_BYTES(scope->peak_bytes),
                 CUSHIM_TIME(scope->peak_ns));
    if (scope->peak_held_bytes)
        cushim_write(out, "; %s held at most", CUSHIM_BYTES(scope->peak_held_bytes));
    cushim_write(out, "\n");
    if (scope->n_before)
        cushim_write(out, "before    %s, %s lived when the recording began\n",
                     CUSHIM_SOME(scope->n_before, "block"), CUSHIM_BYTES(scope->before_bytes));
    put_sites(out, recording, BY(noted_bytes), true);
    put_few(out, recording, BY(n_temporary), "churn     ", churn_words);
    put_waits(out, recording, scope);
    put_refused(out, recording, "refused   ");
    size_t n_alive = sort(&recording->account, BY(live_bytes));
    cushim_write(out, "alive     %s, %s at the end, from %s\n", CUSHIM_SOME(scope->n_live, "block"),
                 CUSHIM_BYTES(scope->live_bytes), CUSHIM_SOME(n_alive, "site"));
    put_sites(out, recording, BY(live_bytes), false);
    return put_few(out, recording, BY(grows), "leak      ", leak_words) != 0;
}

/* Write what the numbers above do not include. */
static void put_gaps(struct cushim_writer *out, const struct recording *recording) {
    const struct cushim_trace_account *account = &recording->account;
    const struct {
        uint64_t n;
        const char *one, *many;
    } rows[] = {
        {atomic_load(&account->reader.head.n_lost), "event was not written",
         "events were not written"},
        {account->reader.n_damaged, "piece of the file cannot be read",
         "pieces of the file cannot be read"},
        {account->n_strange, "event is impossible and was skipped",
         "events are impossible and were skipped"},
        {account->n_foreign, "free of memory whose request was not recorded",
         "frees of memory whose request was not recorded"},
        {account->n_disorder, "address was allocated again while it was live",
         "addresses were allocated again while they were live"},
        {names_newer(recording->names), "file has changed since: its lines may be wrong",
         "files have changed since: their lines may be wrong"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].n)
            cushim_write(out, "missing   %s %s\n", CUSHIM_COUNT(rows[i].n),
                         rows[i].n == 1 ? rows[i].one : rows[i].many);
    }
}

static int put_text(void *context, struct recording *recording, const struct recording_scope *scope,
                    int i, int n) {
    static bool may_leak; /* in a scope of this recording */
    struct cushim_writer *out = context;
    may_leak &= i != 0;
    if (i == 0)
        put_head(out, &recording->account);
    if (scope)
        may_leak |= put_scope(out, recording, scope);
    else if (!atomic_load(&recording->account.reader.head.n_lost))
        cushim_write(out, "  no memory was requested\n");
    if (i + 1 >= n)
        put_gaps(out, recording);
    if (i + 1 >= n && may_leak)
        cushim_write(out, "\nadvice    free what may leak after its last use, or drop what still "
                          "refers to it\n");
    return 0;
}

int summary_text(struct cushim_writer *out, const char *path) {
    return recording_each_scope(path, NULL, 0, put_text, out);
}

void summary_refused(struct cushim_writer *out, const char *path) {
    static struct recording recording; /* too large for a stack */
    struct cushim_trace_account *account = &recording.account;
    if (cushim_trace_account_open(account, path) != 0)
        return;
    while (cushim_trace_account_next(account))
        continue;
    account->n_sites = sort(account, BY(n_refused)); /* because names of the others take time */
    if (names_find(&recording.names, account) == 0)
        put_refused(out, &recording, "cushim: ");
    recording_close(&recording);
    cushim_writer_flush(out);
}

/* ---- JSON ---- */

void summary_put_facts(struct cushim_writer *out, const struct recording *recording) {
    const struct cushim_trace_account *account = &recording->account;
    const struct cushim_trace_head *head = &account->reader.head;
    char end[64];
    cushim_json_text(out, "cushim", head->product);
    cushim_json_text(out, "end", summary_end(head, end));
    if (atomic_load(&head->is_software))
        cushim_json_bool(out, "is_software", true);
    cushim_json_numbers(out, "pid run_ns events lost damaged strange foreign disorder newer",
                        (const uint64_t[]){head->process, account->last_ns - account->first_ns,
                                           account->n_events, atomic_load(&head->n_lost),
                                           account->reader.n_damaged, account->n_strange,
                                           account->n_foreign, account->n_disorder,
                                           names_newer(recording->names)});
}

void summary_put_scope(struct cushim_writer *out, const struct recording_scope *scope,
                       const char *names) {
    cushim_json_numbers(out, names,
                        (const uint64_t[]){scope->n_requests, scope->n_hits, scope->peak_bytes,
                                           scope->peak_ns, scope->peak_held_bytes,
                                           scope->live_bytes, scope->n_live, scope->n_waits,
                                           scope->wait_ns, scope->n_refused});
    if (scope->n_before)
        cushim_json_numbers(out, "blocks_before bytes_before",
                            (const uint64_t[]){scope->n_before, scope->before_bytes});
}

static void put_stack(struct cushim_writer *out, const struct recording *recording,
                      const struct cushim_trace_site *site) {
    cushim_json_begin(out, "stack", "[");
    for (unsigned i = names_first(recording->names, site); i < site->n_frames; i++) {
        const struct name *name = names_of(recording->names, site->frames[i]);
        cushim_json_begin(out, NULL, "{");
        cushim_json_text(out, "function", name->function);
        cushim_json_text(out, "line", name->line);
        cushim_json_text(out, "module", name->module);
        cushim_json_number(out, "offset", name->offset);
        cushim_write(out, "}");
    }
    cushim_write(out, "]");
}

static void put_json_site(struct cushim_writer *out, const struct recording *recording,
                          const struct cushim_trace_site *site) {
    cushim_json_begin(out, "\n      ", "{");
    cushim_json_numbers(
        out,
        "requests requested_bytes bytes_at_peak blocks_at_peak live_bytes live_blocks "
        "frees life_ns temporary wait_ns refused",
        (const uint64_t[]){site->n_requests, site->requested_bytes, site->noted_bytes,
                           site->n_noted, site->live_bytes, site->n_live, site->n_frees,
                           site->life_ns, site->n_temporary, site->wait_ns, site->n_refused});
    cushim_json_bool(out, "grows", site->grows);
    cushim_json_text(out, "library", names_library(recording->names, site));
    put_stack(out, recording, site);
    cushim_write(out, "}");
}

static void put_json_scope(struct cushim_writer *out, struct recording *recording,
                           const struct recording_scope *scope) {
    char name[32];
    struct cushim_trace_account *account = &recording->account;
    cushim_json_begin(out, "\n    ", "{");
    cushim_json_text(out, "memory", recording_scope_name(scope, name));
    summary_put_scope(out, scope,
                      "requests no_call peak_live_bytes peak_ns peak_held_bytes live_bytes "
                      "live_blocks waits wait_ns refused");
    cushim_json_begin(out, "sites", "[");
    sort(account, BY(noted_bytes));
    for (size_t i = 0; i < account->n_sites; i++) {
        if (recording_has_site(account->sites[i]) || account->sites[i]->n_refused)
            put_json_site(out, recording, account->sites[i]);
    }
    cushim_write(out, "]}");
}

static int put_json(void *context, struct recording *recording, const struct recording_scope *scope,
                    int i, int n) {
    const struct cushim_trace_head *head = &recording->account.reader.head;
    struct cushim_writer *out = context;
    if (i == 0) {
        cushim_json_begin(out, NULL, "{");
        cushim_json_text(out, "schema", "cushim-trace-summary/1");
        cushim_json_text(out, "program", head->program);
        cushim_json_text(out, "arguments", head->arguments);
        cushim_json_text(out, "host", head->host);
        if (cushim_trace_rank(head) >= 0)
            cushim_json_number(out, "rank", (uint64_t)cushim_trace_rank(head));
        if (cushim_trace_rank(head) >= 0 && cushim_trace_ranks(head) >= 0)
            cushim_json_number(out, "ranks", (uint64_t)cushim_trace_ranks(head));
        summary_put_facts(out, recording);
        cushim_json_begin(out, "memory", "[");
    }
    if (scope)
        put_json_scope(out, recording, scope);
    if (i + 1 >= n)
        cushim_write(out, "]}\n");
    return 0;
}

int summary_json(struct cushim_writer *out, const char *path) {
    return recording_each_scope(path, NULL, 0, put_json, out);
}
