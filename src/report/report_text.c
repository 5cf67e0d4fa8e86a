/* The report as text, for people. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "report/advice.h"
#include "report/finding.h"
#include "report/large_copies.h"
#include "report/page_mark.h"
#include "report/shortage.h"
#include "report/site.h"
#include "report/words.h"

enum { MARK_BYTES = 44 }; /* of the name of a mark: what fits into a line */

enum { WIDTH = 80 };

static void put_kind(struct cushim_writer *out, const struct cushim_report *report, int device,
                     enum cushim_kind kind) {
    const struct cushim_mem_stats *stats = cushim_report_stats(report, device, kind);
    cushim_write(out, "  %-8s %11s %11s %11s %11s %9s %10s\n", cushim_report_kind(kind),
                 CUSHIM_COUNT(cushim_mem_stats_read(&stats->n_requests)),
                 CUSHIM_COUNT(cushim_mem_stats_read(&stats->n_hits)),
                 CUSHIM_COUNT(cushim_mem_stats_read(&stats->n_misses) +
                              cushim_mem_stats_read(&stats->n_natively)),
                 CUSHIM_COUNT(cushim_mem_stats_read(&stats->n_frees)),
                 CUSHIM_BYTES(cushim_mem_stats_read(&stats->live_bytes)),
                 CUSHIM_BYTES(cushim_mem_stats_read(&stats->peak_live_bytes)));
}

/* The held bytes, and the parts that add up to them. */
static void put_held(struct cushim_writer *out, const struct cushim_report *report, int device) {
    bool has_head = false;
    for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
        const struct cushim_mem_stats *stats =
            cushim_report_stats(report, device, (enum cushim_kind)kind);
        uint64_t peak_bytes = cushim_mem_stats_read(&stats->peak_held_bytes);
        struct cushim_report_held held = cushim_report_held(stats);
        if (!peak_bytes)
            continue;
        if (!has_head)
            cushim_write(out, "  %-8s %10s = %9s + %9s + %9s + %9s %10s\n", "held", "in all",
                         CUSHIM_WORD(live), CUSHIM_WORD(rounding), CUSHIM_WORD(spare),
                         CUSHIM_WORD(idle), CUSHIM_WORD(peak_held));
        has_head = true;
        cushim_write(out, "  %-8s %10s = %9s + %9s + %9s + %9s %10s\n",
                     cushim_report_kind((enum cushim_kind)kind), CUSHIM_BYTES(held.held_bytes),
                     CUSHIM_BYTES(held.live_bytes), CUSHIM_BYTES(held.rounding_bytes),
                     CUSHIM_BYTES(held.spare_bytes), CUSHIM_BYTES(held.idle_bytes),
                     CUSHIM_BYTES(peak_bytes));
    }
}

/* One row of what frees and requests cost: how often, and how long in all. */
static void put_cost(struct cushim_writer *out, const struct cushim_report *report,
                     const char *what, const atomic_uint_fast64_t *times,
                     const atomic_uint_fast64_t *ns) {
    bool is_software = cushim_mem_stats_read(&report->page.head.is_software);
    uint64_t n = cushim_mem_stats_read(times);
    cushim_write(out, "  %-24s %9s %s, %s%s\n", what, CUSHIM_COUNT(n), n == 1 ? "time" : "times",
                 CUSHIM_TIME(cushim_mem_stats_read(ns)), is_software && n ? " (no GPU)" : "");
}

/* The driver calls made for device memory, and the waits of frees. */
static void put_driver(struct cushim_writer *out, const struct cushim_report *report, int device) {
    const struct cushim_mem_stats *stats = cushim_report_stats(report, device, CUSHIM_KIND_DEVICE);
    put_cost(out, report, "driver allocated", &stats->n_native_allocs, &stats->native_alloc_ns);
    put_cost(out, report, "driver freed", &stats->n_native_frees, &stats->native_free_ns);
    put_cost(out, report, "free waited for the GPU", &stats->n_waits, &stats->wait_ns);
    if (report->page.head.is_relaxed)
        put_cost(out, report, "  for what the host sees", &stats->n_effect_waits,
                 &stats->effect_wait_ns);
    cushim_write(out, "  %-24s %9s\n", "segments",
                 CUSHIM_COUNT(cushim_mem_stats_read(&stats->n_segments)));
}

/* One row: how often something happened. */
static void put_times(struct cushim_writer *out, const char *what,
                      const atomic_uint_fast64_t *times, const char *one) {
    uint64_t n = cushim_mem_stats_read(times);
    if (n)
        cushim_write(out, "  %-24s %9s %s%s\n", what, CUSHIM_COUNT(n), one, n == 1 ? "" : "s");
}

static void put_device(struct cushim_writer *out, const struct cushim_report *report, int device) {
    enum { LEAD = sizeof "device 63  , " - 1 };
    const struct cushim_mem_stats *stats = cushim_report_stats(report, device, CUSHIM_KIND_DEVICE);
    const char *place = report->page.device_places[device];
    char name[CUSHIM_NAME_BYTES];
    cushim_utf8_fit(strcpy(name, report->page.device_names[device]),
                    WIDTH - LEAD - CUSHIM_PCI_BYTES);
    cushim_write(out, "\ndevice %d%s%s%s%s\n", device, *name ? "  " : "", name, *place ? ", " : "",
                 place);
    /* two blanks before each head: the text behind one belongs to the same column */
    cushim_write(out, "  %-8s %11s %11s %11s %11s %9s %10s\n", "memory", CUSHIM_WORD(requests),
                 CUSHIM_WORD(no_call), CUSHIM_WORD(driver), CUSHIM_WORD(frees), CUSHIM_WORD(live),
                 CUSHIM_WORD(peak_live));
    for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
        if (cushim_report_has(report, device, (enum cushim_kind)kind))
            put_kind(out, report, device, (enum cushim_kind)kind);
    }
    put_held(out, report, device);
    uint64_t limit_bytes = cushim_mem_stats_read(&report->page.head.limit_bytes[device]);
    if (limit_bytes)
        cushim_write(out, "  %-8s %10s of the device\n", "limit", CUSHIM_BYTES(limit_bytes));
    if (cushim_report_has(report, device, CUSHIM_KIND_DEVICE))
        put_driver(out, report, device);
    put_times(out, "out of memory", &stats->n_out_of_memory, "time");
    put_times(out, "  made room", &stats->n_reclaim_steps, "time");
    put_times(out, "  waited for the GPU", &stats->n_reclaim_waits, "time");
    put_times(out, "arena served", &stats->n_arena, "request");
    put_times(out, "  rewound", &stats->n_arena_rewinds, "time");
    put_times(out, "  kept at a reset", &stats->n_arena_kept, "chunk");
}

static uint64_t copies_of(const struct cushim_report *report, int direction) {
    uint64_t n = 0;
    for (int memory = 0; memory < CUSHIM_N_HOST_MEMORIES; memory++)
        n += cushim_mem_stats_read(&report->page.copies.n_copies[direction][memory]);
    return n;
}

static void put_copies(struct cushim_writer *out, const struct cushim_report *report) {
    static const char *const names[CUSHIM_N_DIRECTIONS] = {"to device", "to host",    "on devices",
                                                           "on host",   "by address", "set"};
    bool has_header = false;
    for (int direction = 0; direction < CUSHIM_N_DIRECTIONS; direction++) {
        if (!copies_of(report, direction))
            continue;
        if (!has_header)
            cushim_write(out, "\n%-12s %11s %9s %11s %9s %11s %9s\n", "copies", "pageable", "bytes",
                         "pinned", "bytes", "other", "bytes");
        has_header = true;
        cushim_write(out, "  %-10s", names[direction]);
        static const enum cushim_host_memory order[] = {CUSHIM_HOST_PAGEABLE, CUSHIM_HOST_PINNED,
                                                        CUSHIM_HOST_NONE};
        for (int i = 0; i < CUSHIM_N_HOST_MEMORIES; i++) {
            uint64_t n = cushim_mem_stats_read(&report->page.copies.n_copies[direction][order[i]]);
            uint64_t n_bytes =
                cushim_mem_stats_read(&report->page.copies.n_bytes[direction][order[i]]);
            cushim_write(out, " %11s %9s", n ? CUSHIM_COUNT(n) : "-",
                         n ? CUSHIM_BYTES(n_bytes) : "-");
        }
        cushim_write(out, "\n");
    }
}

static void put_marks(struct cushim_writer *out, const struct cushim_report *report) {
    uint64_t n = cushim_mem_stats_read(&report->page.n_marks);
    struct cushim_page_mark mark;
    if (n)
        cushim_write(out, "\n%-12s %9s %9s  %s\n", "marks  after", CUSHIM_WORD(live),
                     CUSHIM_WORD(held), "name");
    if (n > CUSHIM_PAGE_MARKS)
        cushim_write(out, "  the last %d of %s\n", CUSHIM_PAGE_MARKS, CUSHIM_COUNT(n));
    for (unsigned i = 0; i < CUSHIM_PAGE_MARKS; i++) {
        if (!cushim_page_mark_get(&report->page, i, &mark))
            continue;
        mark.name[MARK_BYTES] = 0;
        cushim_utf8_clean(mark.name); /* the last character may be cut */
        cushim_write(out, "  %10s %9s %9s  %s\n", CUSHIM_TIME(cushim_report_since(report, mark.ns)),
                     CUSHIM_BYTES(mark.live_bytes), CUSHIM_BYTES(mark.held_bytes), mark.name);
    }
}

bool cushim_report_put_finding(struct cushim_writer *out, uint64_t n, const char *one,
                               const char *many) {
    if (n)
        cushim_write(out, "finding: %s %s\n", CUSHIM_COUNT(n), n == 1 ? one : many);
    return n != 0;
}

/* How much lies on the host in place of the device, or did. */
static bool put_spilled(struct cushim_writer *out, const struct cushim_report *report) {
    uint64_t n_bytes = cushim_report_sum(report, CUSHIM_KIND_SPILLED, held_bytes);
    uint64_t peak_bytes = cushim_report_sum(report, CUSHIM_KIND_SPILLED, peak_held_bytes);
    if (n_bytes)
        cushim_write(out, "finding: %s lie in host memory: kernels reach them at PCIe speed\n",
                     CUSHIM_BYTES(n_bytes));
    else if (peak_bytes)
        cushim_write(out, "finding: %s lay in host memory: kernels reached them at PCIe speed\n",
                     CUSHIM_BYTES(peak_bytes));
    return peak_bytes != 0;
}

bool cushim_report_findings_text(struct cushim_writer *out, const struct cushim_report *report) {
    bool has_any = cushim_mem_stats_read(&report->page.n_findings) != 0;
    has_any |= put_spilled(out, report);
#define PUT(name, field, one, many)                                                                \
    has_any |= cushim_report_put_finding(out, cushim_report_sum_all(report, field), one, many);
    CUSHIM_REPORT_FINDINGS(PUT)
#undef PUT
    has_any |= cushim_report_put_finding(out, cushim_mem_stats_read(&report->page.n_foreign_frees),
                                         "free of memory that was not seen being allocated",
                                         "frees of memory that was not seen being allocated");
    has_any |=
        cushim_report_put_finding(out, cushim_mem_stats_read(&report->page.n_refused_handles),
                                  "IPC handle refused: its block shares 2 MiB, or is spilled",
                                  "IPC handles refused: blocks share 2 MiB, or are spilled");
    has_any |=
        cushim_report_put_finding(out, cushim_mem_stats_read(&report->page.n_stuck_blocks),
                                  "block freed in a capture is never reused (no user objects)",
                                  "blocks freed in a capture are never reused (no user objects)");
    return cushim_finding_text(out, report) || has_any;
}

bool cushim_report_shortages_text(struct cushim_writer *out, const struct cushim_report *report) {
    struct cushim_page_shortage shortage;
    bool has_any = false;
    for (unsigned i = 0; i < CUSHIM_PAGE_SHORTAGES; i++) {
        uint64_t number = cushim_shortage_get(&report->page, i, &shortage);
        if (!number)
            continue;
        cushim_write(out, "\n");
        has_any = true;
        cushim_shortage_text(out, number, &shortage, &report->page.head,
                             report->is_of_page && !report->ended, report->find_line);
    }
    return has_any;
}

/* "99.97": n as a percentage of all, cut and not rounded, so that 100.00 means all of them. */
static const char *share(char text[CUSHIM_AMOUNT_BYTES], uint64_t n, uint64_t n_all) {
    uint64_t per_10000 = (uint64_t)((__uint128_t)n * 10000 / n_all);
    snprintf(text, CUSHIM_AMOUNT_BYTES, "%u.%02u", (unsigned)(per_10000 / 100),
             (unsigned)(per_10000 % 100));
    return text;
}

static const char *const verdict_indent = "         ";

/* One kind of driver call that we made: how many, how long in all, and how long each. */
static void put_measured(struct cushim_writer *out, const struct cushim_report *report, uint64_t n,
                         uint64_t ns, const char *one) {
    bool is_software = cushim_mem_stats_read(&report->page.head.is_software);
    if (!n)
        return;
    cushim_write(out, "%s%s took %s", verdict_indent, CUSHIM_SOME(n, one), CUSHIM_TIME(ns));
    if (n > 1)
        cushim_write(out, ", %s each", CUSHIM_TIME(ns / n));
    cushim_write(out, is_software ? " (no GPU)\n" : " (measured)\n");
}

/* What no heap serves: mapped memory may serve again, and the driver serves the rest. */
static void put_forwarded(struct cushim_writer *out, const struct cushim_report *report) {
    static const struct {
        enum cushim_kind kind;
        const char *how;
    } rows[] = {{CUSHIM_KIND_MAPPED, "by cuMemCreate"},
                {CUSHIM_KIND_ASYNC, "in stream order"},
                {CUSHIM_KIND_ARRAY, "as arrays"}};
    char text[CUSHIM_AMOUNT_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t n = cushim_report_sum(report, rows[i].kind, n_requests);
        uint64_t n_hits = cushim_report_sum(report, rows[i].kind, n_hits);
        if (!n)
            continue;
        cushim_write(out, "%s%s were asked for %s (%s):", verdict_indent,
                     CUSHIM_BYTES(cushim_report_sum(report, rows[i].kind, requested_bytes)),
                     rows[i].how, CUSHIM_SOME(n, "call"));
        if (n_hits)
            cushim_write(out, "\n%s%s %% of these made no driver call\n", verdict_indent,
                         share(text, n_hits, n));
        else
            cushim_write(out, " forwarded\n");
    }
}

static void put_verdict(struct cushim_writer *out, const struct cushim_report *report) {
    uint64_t n_requests = cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_requests);
    uint64_t n_hits = cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_hits);
    uint64_t n_misses = cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_misses);
    uint64_t n_refused = cushim_report_sum_all(report, n_refused) -
                         cushim_report_sum(report, CUSHIM_KIND_PINNED, n_refused);
    bool is_forwarded = cushim_report_sum(report, CUSHIM_KIND_MAPPED, n_requests) ||
                        cushim_report_sum(report, CUSHIM_KIND_ASYNC, n_requests) ||
                        cushim_report_sum(report, CUSHIM_KIND_ARRAY, n_requests);
    const char *requests = CUSHIM_SOME(n_requests, "request");
    char text[CUSHIM_AMOUNT_BYTES];
    if (n_requests && (n_hits || n_misses))
        cushim_write(out, "verdict: %s %% of %s made no driver call\n",
                     share(text, n_hits, n_requests), requests);
    else if (n_requests)
        cushim_write(out, "verdict: cushim pooled no device memory: %s went to the driver\n",
                     requests);
    else if (is_forwarded)
        cushim_write(out, "verdict: no device memory was asked for by cudaMalloc or cuMemAlloc\n");
    else if (n_refused)
        cushim_write(out,
                     "verdict: there was no memory for %s of device memory, and no other came\n",
                     CUSHIM_SOME(n_refused, "request"));
    else
        cushim_write(out, "verdict: no device memory was asked for\n");
    put_measured(out, report, cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_native_allocs),
                 cushim_report_sum(report, CUSHIM_KIND_DEVICE, native_alloc_ns),
                 "driver allocation");
    put_measured(out, report, cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_native_frees),
                 cushim_report_sum(report, CUSHIM_KIND_DEVICE, native_free_ns), "driver free");
    put_forwarded(out, report);
}

/* A line that is cut at the width of the terminal. */
struct line {
    char text[2048];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->text + line->n, sizeof line->text - line->n, format, arguments);
    va_end(arguments);
    line->n += strlen(line->text + line->n);
}

static void end_line(struct line *line, struct cushim_writer *out) {
    cushim_utf8_clean(line->text);
    cushim_write(out, "%s\n", cushim_utf8_fit(line->text, WIDTH));
}

static void put_arguments(struct cushim_writer *out, const struct cushim_page_head *head) {
    struct line line = {0};
    const char *word = cushim_report_next_text(head->arguments, head->n_argument_bytes, NULL);
    if (!word || !cushim_report_next_text(head->arguments, head->n_argument_bytes, word))
        return; /* the first line has its name */
    add(&line, " ");
    for (; word; word = cushim_report_next_text(head->arguments, head->n_argument_bytes, word)) {
        /* so that a person can tell it from its neighbours */
        const char *quote = *word && !strpbrk(word, " \t\n'\"") ? "" : "'";
        add(&line, " %s%s%s", quote, word, quote);
    }
    end_line(&line, out);
}

static void put_head(struct cushim_writer *out, const struct cushim_report *report) {
    const struct cushim_page_head *head = &report->page.head;
    uint64_t version = cushim_mem_stats_read(&head->driver_version);
    struct line line = {0};
    put_arguments(out, head);
    if (*head->host)
        add(&line, "  on %s", head->host);
    if (version)
        add(&line, "%sdriver of CUDA %" PRIu64 ".%" PRIu64, line.n ? ", " : "  ", version / 1000,
            version / 10 % 100);
    const char *option = cushim_report_next_text(head->options, head->n_option_bytes, NULL);
    for (; option; option = cushim_report_next_text(head->options, head->n_option_bytes, option))
        add(&line, "%s%s", line.n ? ", " : "  ", option);
    if (line.n)
        end_line(&line, out);
}

/* If the process did not report itself: how it ended, and where the numbers come from. */
static void put_end(struct cushim_writer *out, const struct cushim_report *report) {
    uint64_t n_lost = cushim_mem_stats_read(&report->page.head.n_lost_caches);
    if (!report->is_of_page)
        return;
    cushim_write(out, "  %s; read from its live page\n",
                 report->ended ? report->ended : "it goes on");
    if (n_lost)
        cushim_write(out, "  %s thread%s had no row in it: some requests are missing\n",
                     CUSHIM_COUNT(n_lost), n_lost == 1 ? "" : "s");
}

void cushim_report_title(struct cushim_writer *out, const struct cushim_report *report) {
    enum { VERSION = 12, REST = WIDTH - (sizeof "cushim : " - 1) - VERSION - 8 };
    const struct cushim_page_head *head = &report->page.head;
    char version[CUSHIM_NAME_BYTES], program[CUSHIM_NAME_BYTES], rest[2 * WIDTH];
    int n = snprintf(rest, sizeof rest, ", process %ld", (long)head->process);
    if (head->rank >= 0)
        n += snprintf(rest + n, sizeof rest - (size_t)n, ", rank %ld", (long)head->rank);
    if (head->rank >= 0 && head->ranks >= 0)
        n += snprintf(rest + n, sizeof rest - (size_t)n, " of %ld", (long)head->ranks);
    snprintf(rest + n, sizeof rest - (size_t)n, ", %s%s%s", CUSHIM_TIME(report->run_ns),
             cushim_mem_stats_read(&head->is_software) ? " (no GPU)" : "",
             report->is_run_longer ? " or more" : "");
    cushim_utf8_fit(rest, REST);
    cushim_utf8_fit(strcpy(version, head->version), VERSION);
    cushim_utf8_fit(strcpy(program, head->program), WIDTH - (sizeof "cushim : " - 1) -
                                                        cushim_utf8_columns(version) -
                                                        cushim_utf8_columns(rest));
    cushim_write(out, "cushim %s: %s%s\n", version, program, rest);
}

void cushim_report_text(struct cushim_writer *out, const struct cushim_report *report) {
    cushim_report_title(out, report);
    put_end(out, report);
    put_head(out, report);
    for (int device = -1; (device = cushim_report_next_device(report, device)) >= 0;)
        put_device(out, report, device);
    put_copies(out, report);
    cushim_large_copies_text(out, report);
    cushim_site_text(out, report);
    put_marks(out, report);
    cushim_report_shortages_text(out, report);
    cushim_write(out, "\n");
    cushim_report_findings_text(out, report);
    put_verdict(out, report);
    cushim_advice_text(out, report);
}
