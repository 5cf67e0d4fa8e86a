#include "report/site.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "report/frame.h"
#include "report/json.h"
#include "report/library.h"
#include "report/words.h"

enum { MOMENTS = CUSHIM_PAGE_SITE_MOMENTS, MOST_TOLD = 10 };

static void set(atomic_uint_fast64_t *word, uint64_t n) {
    atomic_store_explicit(word, n, memory_order_relaxed);
}

/* ---- writing ---- */

struct cushim_page_site *cushim_site_find(struct cushim_page_sites *sites, uint64_t key) {
    for (unsigned i = 0; i < CUSHIM_PAGE_SITES; i++) {
        struct cushim_page_site *site = &sites->rows[(key + i) % CUSHIM_PAGE_SITES];
        uint64_t found = cushim_mem_stats_read(&site->key);
        if (!found || found == key)
            return site;
    }
    return NULL;
}

/* The moment of event number i, from 0.  From MOMENTS events on each has 2, 4, 8, ... of them. */
static unsigned moment_of(uint64_t i) {
    unsigned log2_events = i < MOMENTS ? 0 : cushim_log2_floor(i) - cushim_log2_floor(MOMENTS / 2);
    return (unsigned)(i >> log2_events);
}

/* Note what is live after an event; when the moments are full, two become one. */
static void note(struct cushim_page_site *site, uint64_t live_bytes, uint64_t run_ns) {
    uint64_t i = cushim_mem_stats_read(&site->n_events);
    bool is_full = i >= MOMENTS && !(i & (i - 1));
    for (unsigned k = 0; is_full && k < MOMENTS / 2; k++) {
        set(&site->moments[k], cushim_mem_stats_read(&site->moments[2 * k + 1]));
        set(&site->moments_ns[k], cushim_mem_stats_read(&site->moments_ns[2 * k + 1]));
    }
    set(&site->moments[moment_of(i)], live_bytes);
    set(&site->moments_ns[moment_of(i)], run_ns);
    set(&site->n_events, i + 1);
}

/* The bytes that a sample stands for. */
static uint64_t weight_bytes(uint64_t sample_bytes, uint64_t n_bytes) {
    return n_bytes < sample_bytes ? sample_bytes : n_bytes;
}

static uint64_t weight(uint64_t sample_bytes, uint64_t n_bytes) {
    return (uint64_t)((__uint128_t)weight_bytes(sample_bytes, n_bytes) * CUSHIM_SITE_WHOLE /
                      n_bytes);
}

static void change(struct cushim_page_site *site, uint64_t n_live, uint64_t live_bytes,
                   uint64_t gap_bytes, uint64_t run_ns) {
    set(&site->n_live, cushim_mem_stats_read(&site->n_live) + n_live);
    set(&site->gap_bytes, cushim_mem_stats_read(&site->gap_bytes) + gap_bytes);
    set(&site->live_bytes, live_bytes += cushim_mem_stats_read(&site->live_bytes));
    note(site, live_bytes, run_ns);
    cushim_mem_stats_raise(&site->peak_live_bytes, live_bytes);
}

void cushim_site_add(struct cushim_page_site *site, uint64_t sample_bytes, uint64_t n_bytes,
                     uint64_t run_ns) {
    uint64_t bytes = weight_bytes(sample_bytes, n_bytes);
    change(site, weight(sample_bytes, n_bytes), bytes, bytes - n_bytes, run_ns);
}

void cushim_site_subtract(struct cushim_page_site *site, uint64_t sample_bytes, uint64_t n_bytes,
                          uint64_t run_ns) {
    uint64_t bytes = weight_bytes(sample_bytes, n_bytes);
    change(site, -weight(sample_bytes, n_bytes), -bytes, n_bytes - bytes, run_ns);
}

/* ---- reading ---- */

static uint64_t root(__uint128_t n) {
    uint64_t result = 0;
    for (uint64_t bit = (uint64_t)1 << 63; bit; bit >>= 1) {
        if ((__uint128_t)(result | bit) * (result | bit) <= n)
            result |= bit;
    }
    return result;
}

bool cushim_site_grows(const uint64_t live_bytes[], const uint64_t moments_ns[], unsigned n,
                       uint64_t end_ns, uint64_t slack_bytes, uint64_t peak_bytes,
                       uint64_t *hour_bytes) {
    enum { QUARTERS = 4, FEWEST = 2 * QUARTERS, LATE_PARTS = 8 };
    const uint64_t second_ns = 1000000000, minute_ns = 60 * second_ns;
    unsigned first = 0, last = n - 1, late = last;
    *hour_bytes = 0;
    while (first < n && !live_bytes[first])
        first++;
    if (n - first < FEWEST || live_bytes[last] <= live_bytes[first] ||
        live_bytes[last] - live_bytes[first] < peak_bytes / 100)
        return false;
    uint64_t before_bytes = 0;
    for (unsigned quarter = 0; quarter < QUARTERS; quarter++) {
        uint64_t least_bytes = UINT64_MAX, most_bytes = 0;
        for (unsigned i = first + (n - first) * quarter / QUARTERS;
             i < first + (n - first) * (quarter + 1) / QUARTERS; i++) {
            least_bytes = cushim_least(least_bytes, live_bytes[i]);
            most_bytes = cushim_most(most_bytes, live_bytes[i]);
        }
        if (quarter && cushim_less(least_bytes, before_bytes) <= slack_bytes)
            return false;
        before_bytes = most_bytes;
    }
    uint64_t grown_bytes = live_bytes[last] - live_bytes[first];
    uint64_t ns = cushim_less(end_ns, moments_ns[first]);
    uint64_t late_ns = cushim_less(end_ns, cushim_most(ns, second_ns) / QUARTERS);
    while (late > first && moments_ns[late] >= late_ns)
        late--;
    if (cushim_less(live_bytes[last], live_bytes[late]) < grown_bytes / LATE_PARTS)
        return false;
    if (ns >= minute_ns)
        *hour_bytes = (uint64_t)((__uint128_t)grown_bytes * 60 * minute_ns / ns);
    return true;
}

char *cushim_site_leak(char text[CUSHIM_SOME_BYTES], uint64_t hour_bytes) {
    snprintf(text, CUSHIM_SOME_BYTES, "may leak%s%s%s", hour_bytes ? ", +" : "",
             hour_bytes ? CUSHIM_BYTES(hour_bytes) : "", hour_bytes ? "/h" : "");
    return text;
}

/* With a slack for what sampling may explain. */
static bool grows(const struct cushim_page_site *row, const struct cushim_report *report,
                  uint64_t error_bytes, uint64_t *hour_bytes) {
    enum { ERRORS = 4, QUARTERS_ON = 3 };
    uint64_t live_bytes[MOMENTS], moments_ns[MOMENTS];
    uint64_t n_events = cushim_mem_stats_read(&row->n_events);
    for (int i = 0; i < MOMENTS; i++) {
        live_bytes[i] = cushim_mem_stats_read(&row->moments[i]);
        moments_ns[i] = cushim_mem_stats_read(&row->moments_ns[i]);
    }
    return n_events &&
           cushim_site_grows(live_bytes, moments_ns, moment_of(n_events - 1) + 1, report->run_ns,
                             ERRORS * error_bytes / QUARTERS_ON,
                             cushim_report_sum_all(report, peak_live_bytes), hour_bytes);
}

bool cushim_site_get(const struct cushim_report *report, unsigned i, struct cushim_site *site) {
    const struct cushim_page_site *row = report->sites ? &report->sites->rows[i] : NULL;
    if (!row || !atomic_load_explicit(&row->key, memory_order_acquire))
        return false;
    uint64_t n_live = cushim_mem_stats_read(&row->n_live);
    uint64_t gap_bytes = cushim_mem_stats_read(&row->gap_bytes);
    *site = (struct cushim_site){
        .n_live = (n_live + CUSHIM_SITE_WHOLE / 2) / CUSHIM_SITE_WHOLE,
        .is_spilled = cushim_mem_stats_read(&row->key) & CUSHIM_PAGE_SITE_SPILLED,
        .live_bytes = cushim_mem_stats_read(&row->live_bytes),
        .peak_live_bytes = cushim_mem_stats_read(&row->peak_live_bytes),
        .error_bytes = root((__uint128_t)report->page.head.sample_bytes * gap_bytes),
        .n_frames =
            row->n_frames < CUSHIM_PAGE_SITE_FRAMES ? row->n_frames : CUSHIM_PAGE_SITE_FRAMES,
    };
    site->grows = grows(row, report, site->error_bytes, &site->hour_bytes);
    for (unsigned k = 0; k < CUSHIM_PAGE_SITE_FRAMES; k++)
        site->frames[k] = row->frames[k];
    cushim_frame_clean(site->frames, CUSHIM_PAGE_SITE_FRAMES);
    return true;
}

struct cushim_site_growth cushim_site_growth(const struct cushim_report *report) {
    struct cushim_site_growth growth = {0};
    struct cushim_site site;
    for (unsigned i = 0; i < CUSHIM_PAGE_SITES; i++) {
        if (!cushim_site_get(report, i, &site) || !site.grows)
            continue;
        growth.n_sites++;
        growth.n_live += site.n_live;
        growth.live_bytes += site.live_bytes;
        growth.hour_bytes += site.hour_bytes;
    }
    return growth;
}

/* ---- telling ---- */

/* Which rows were written: others may go on counting, and no row is written twice or left out. */
struct told {
    bool rows[CUSHIM_PAGE_SITES];
};

/* The row with most bytes of those that were not written; -1: all were. */
static int next(const struct cushim_report *report, struct told *told) {
    uint64_t most_bytes = 0;
    int best = -1;
    for (int i = 0; report->sites && i < CUSHIM_PAGE_SITES; i++) {
        const struct cushim_page_site *row = &report->sites->rows[i];
        uint64_t live_bytes = cushim_mem_stats_read(&row->live_bytes);
        if (told->rows[i] || !cushim_mem_stats_read(&row->key) ||
            (best >= 0 && live_bytes <= most_bytes))
            continue;
        best = i;
        most_bytes = live_bytes;
    }
    if (best >= 0)
        told->rows[best] = true;
    return best;
}

static void put_row(struct cushim_writer *out, const struct cushim_report *report, int number,
                    const struct cushim_site *site) {
    char name[32];
    snprintf(name, sizeof name, "site %d", number);
    cushim_write(out, "  %-10s %10s %9s %9s %10s", name, CUSHIM_COUNT(site->n_live),
                 CUSHIM_BYTES(site->live_bytes),
                 site->error_bytes ? CUSHIM_BYTES(site->error_bytes) : "counted",
                 CUSHIM_BYTES(site->peak_live_bytes));
    if (site->is_spilled)
        cushim_write(out, "  in host memory");
    if (site->grows)
        cushim_write(out, "  %s", CUSHIM_LEAK(site->hour_bytes));
    cushim_write(out, "\n");
    cushim_frame_text(out, "", site->frames, site->n_frames, report->find_line);
}

void cushim_site_text(struct cushim_writer *out, const struct cushim_report *report) {
    struct told told = {{false}};
    struct cushim_site site;
    uint64_t n_more = 0, more_bytes = 0;
    int i, n_told = 0;
    if (!report->sites)
        return;
    cushim_write(out, "\n%-12s %10s %9s %9s %10s  (sampled each %s)\n", "alive", "blocks",
                 CUSHIM_WORD(live), "+- error", CUSHIM_WORD(peak_live),
                 CUSHIM_BYTES(report->page.head.sample_bytes));
    while ((i = next(report, &told)) >= 0) {
        if (!cushim_site_get(report, (unsigned)i, &site) || !site.live_bytes)
            continue;
        if (n_told < MOST_TOLD) {
            put_row(out, report, ++n_told, &site);
        } else {
            n_more++;
            more_bytes += site.live_bytes;
        }
    }
    if (!n_told && report->page.head.sample_bytes > 1)
        cushim_write(out,
                     "  no live block was sampled: one stack is taken for each %s\n"
                     "  of requests; --sites=1 takes one for every request\n",
                     CUSHIM_BYTES(report->page.head.sample_bytes));
    else if (!n_told)
        cushim_write(out, "  nothing that was sampled is live\n");
    if (n_more)
        cushim_write(out, "  and %" PRIu64 " site%s more, with %s\n", n_more,
                     n_more == 1 ? "" : "s", CUSHIM_BYTES(more_bytes));
    uint64_t n_lost = cushim_mem_stats_read(&report->sites->n_lost);
    if (n_lost)
        cushim_write(out, "  %s sample%s of sites that found no row\n", CUSHIM_COUNT(n_lost),
                     n_lost == 1 ? " is" : "s are");
}

/* ---- by library ---- */

/* Who asked: the first frame of a package or the program. */
static void library_of(const struct cushim_site *site, char name[CUSHIM_LIBRARY_BYTES]) {
    for (uint64_t i = 0; i < site->n_frames; i++) {
        if (!*site->frames[i].file ||
            cushim_library_of(site->frames[i].file, name) > CUSHIM_LIBRARY_PACKAGE)
            continue;
        if (!*name)
            snprintf(name, CUSHIM_LIBRARY_BYTES, "the program itself");
        return;
    }
    snprintf(name, CUSHIM_LIBRARY_BYTES, "unknown");
}

struct library {
    char name[CUSHIM_LIBRARY_BYTES];
    uint64_t n_live, live_bytes;
};

static int by_live(const void *left, const void *right) {
    const struct library *a = left, *b = right;
    int order = cushim_order(b->live_bytes, a->live_bytes);
    return order ? order : strcmp(a->name, b->name);
}

static void put_library(struct cushim_writer *out, const char *name, uint64_t n_live,
                        uint64_t live_bytes) {
    if (live_bytes)
        cushim_write(out, "  %21s %9s  %s\n", n_live ? CUSHIM_COUNT(n_live) : "",
                     CUSHIM_BYTES(live_bytes), name);
}

/* What no place asked for, so that all rows add up to what the process has. */
static void put_rest(struct cushim_writer *out, const struct cushim_report *report) {
    uint64_t spare_bytes = 0;
    uint64_t pools_bytes = cushim_report_sum(report, CUSHIM_KIND_ASYNC, held_bytes);
    pools_bytes =
        cushim_less(pools_bytes, cushim_report_sum(report, CUSHIM_KIND_ASYNC, live_bytes));
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        for (unsigned kind = 0; kind < CUSHIM_KIND_IMPORTED; kind++) {
            struct cushim_report_held held =
                cushim_report_held(cushim_report_stats(report, device, (enum cushim_kind)kind));
            spare_bytes += cushim_kind_is_on_device(kind) ? held.held_bytes - held.live_bytes : 0;
        }
    }
    put_library(out, CUSHIM_LIBRARY_CONTEXTS, 0,
                cushim_report_sum(report, CUSHIM_KIND_CONTEXT, live_bytes));
    put_library(out, "held by cushim and not live", 0, cushim_less(spare_bytes, pools_bytes));
    put_library(out, "held by the driver's pools and not live", 0, pools_bytes);
    put_library(out, "imported, and in the sum of what made it", 0,
                cushim_report_sum(report, CUSHIM_KIND_IMPORTED, live_bytes));
}

void cushim_site_libraries(struct cushim_writer *out, const struct cushim_report *report) {
    enum { MOST = 32 };
    struct library libraries[MOST] = {{.n_live = 0}};
    struct cushim_site site;
    char name[CUSHIM_LIBRARY_BYTES];
    unsigned n = 0;
    for (unsigned i = 0; i < CUSHIM_PAGE_SITES; i++) {
        unsigned k = 0;
        if (!cushim_site_get(report, i, &site) || !site.live_bytes)
            continue;
        library_of(&site, name);
        while (k < n && strcmp(libraries[k].name, name) != 0)
            k++;
        if (k == MOST) /* the last row has the rest */
            snprintf(libraries[--k].name, sizeof name, "others");
        else if (k == n)
            strcpy(libraries[n++].name, name);
        libraries[k].n_live += site.n_live;
        libraries[k].live_bytes += site.live_bytes;
    }
    qsort(libraries, n, sizeof *libraries, by_live);
    cushim_write(out, "\n%-12s %10s %9s  (sampled each %s)\n", "alive", "blocks", CUSHIM_WORD(live),
                 CUSHIM_BYTES(report->page.head.sample_bytes));
    for (unsigned k = 0; k < n; k++)
        put_library(out, libraries[k].name, libraries[k].n_live, libraries[k].live_bytes);
    if (!n)
        cushim_write(out, "  nothing that was sampled\n");
    put_rest(out, report);
}

static void put_json(struct cushim_writer *out, const struct cushim_report *report,
                     const struct cushim_site *site) {
    cushim_json_begin(out, "\n    ", "{");
    cushim_json_numbers(out, "live_blocks live_bytes error_bytes peak_live_bytes",
                        (const uint64_t[]){site->n_live, site->live_bytes, site->error_bytes,
                                           site->peak_live_bytes});
    cushim_json_bool(out, "grows", site->grows);
    if (site->is_spilled)
        cushim_json_bool(out, "spilled", true);
    cushim_json_begin(out, "stack", "");
    cushim_frame_json(out, site->frames, site->n_frames, report->find_line);
    cushim_write(out, "}");
}

void cushim_site_json(struct cushim_writer *out, const struct cushim_report *report) {
    struct told told = {{false}};
    struct cushim_site site;
    int i;
    if (!report->sites)
        return;
    cushim_json_number(out, "\n  sample_bytes", report->page.head.sample_bytes);
    cushim_json_number(out, "\n  lost_samples", cushim_mem_stats_read(&report->sites->n_lost));
    cushim_json_begin(out, "\n  sites", "[");
    while ((i = next(report, &told)) >= 0) {
        if (cushim_site_get(report, (unsigned)i, &site))
            put_json(out, report, &site);
    }
    cushim_write(out, "]");
}
