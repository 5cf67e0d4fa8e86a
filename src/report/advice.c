#include "report/advice.h"

#include <stdio.h>
#include <string.h>

#include "report/finding.h"
#include "report/json.h"
#include "report/large_copies.h"
#include "report/site.h"

static const uint64_t second_ns = 1000000000;

#define EVIDENCE(advice, ...)                                                                      \
    memcpy((advice)->evidence, ((struct cushim_evidence[CUSHIM_ADVICE_EVIDENCE]){__VA_ARGS__}),    \
           sizeof(advice)->evidence)

#define SAY(advice, ...) snprintf((advice)->text, sizeof(advice)->text, __VA_ARGS__)

/* Is n at least this many per cent of all? */
static bool is_share(uint64_t n, uint64_t n_all, unsigned per_cent) {
    return n_all && (__uint128_t)n * 100 >= (__uint128_t)n_all * per_cent;
}

/* ---- a function for each; true if it applies ---- */

/* An allocation bypassed us, so the rest of the report does not cover the whole program. */
static bool bypassed(const struct cushim_report *report, struct cushim_advice *advice) {
    uint64_t n = cushim_mem_stats_read(&report->page.n_bypassed);
    EVIDENCE(advice, {"bypassed", n});
    SAY(advice, "memory of %s %s was allocated past cushim; `cushim doctor` names what cuts it off",
        CUSHIM_COUNT(n), n == 1 ? "free" : "frees");
    return n != 0;
}

/* Without the check a refused call has its place, but the block's past is unknown. */
static bool refused(const struct cushim_report *report, struct cushim_advice *advice) {
    uint64_t n = cushim_mem_stats_read(&report->page.n_findings);
    struct cushim_page_finding finding;
    for (unsigned i = 0; i < CUSHIM_PAGE_FINDINGS; i++)
        n -= cushim_finding_get(report, i, &finding) && finding.is_refusal == 2;
    EVIDENCE(advice, {"findings", n});
    SAY(advice, "%s %s refused: --check names who allocated and who freed %s",
        CUSHIM_SOME(n, "call"), n == 1 ? "was" : "were", n == 1 ? "its block" : "their blocks");
    return n && !cushim_report_option(&report->page.head, "check");
}

static bool waits(const struct cushim_report *report, struct cushim_advice *advice) {
    uint64_t n = cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_waits);
    uint64_t ns = cushim_report_sum(report, CUSHIM_KIND_DEVICE, wait_ns);
    EVIDENCE(advice, {"waits", n}, {"wait_ns", ns}, {"run_ns", report->run_ns});
    SAY(advice,
        "frees waited %s of %s for the GPU; --free=relaxed takes away at most that, for programs "
        "that do not lean on these waits",
        CUSHIM_TIME(ns), CUSHIM_TIME(report->run_ns));
    return !report->page.head.is_relaxed && n >= 100 && is_share(ns, report->run_ns, 1);
}

static bool pageable(const struct cushim_report *report, struct cushim_advice *advice) {
    static const enum cushim_direction directions[] = {CUSHIM_HOST_TO_DEVICE,
                                                       CUSHIM_DEVICE_TO_HOST};
    uint64_t n = 0, n_bytes = 0, all_bytes = 0;
    for (int i = 0; i < 2; i++) {
        const struct cushim_copy_counts *copies = &report->page.copies;
        n += cushim_mem_stats_read(&copies->n_copies[directions[i]][CUSHIM_HOST_PAGEABLE]);
        n_bytes += cushim_mem_stats_read(&copies->n_bytes[directions[i]][CUSHIM_HOST_PAGEABLE]);
        for (int memory = 0; memory < CUSHIM_N_HOST_MEMORIES; memory++)
            all_bytes += cushim_mem_stats_read(&copies->n_bytes[directions[i]][memory]);
    }
    EVIDENCE(advice, {"pageable_copies", n}, {"pageable_bytes", n_bytes},
             {"copied_bytes", all_bytes});
    SAY(advice,
        "%s in %s %s came from pageable memory or went there; pinned memory needs no staging",
        CUSHIM_BYTES(n_bytes), CUSHIM_COUNT(n), n == 1 ? "copy" : "copies");
    return n_bytes >= (uint64_t)1 << 30 && is_share(n_bytes, all_bytes, 10);
}

static bool staging(const struct cushim_report *report, struct cushim_advice *advice) {
    uint64_t ns = cushim_large_copies_unstaged_ns(report);
    EVIDENCE(advice, {"large_copies_ns", ns}, {"run_ns", report->run_ns});
    SAY(advice,
        "large pageable copies took %s of %s; --copy-stage=on takes away at most that, where "
        "processors are idle",
        CUSHIM_TIME(ns), CUSHIM_TIME(report->run_ns));
    const char *set = cushim_report_option(&report->page.head, "copy-stage");
    return ns && is_share(ns, report->run_ns, 1) && !(set && strcmp(set, "on") == 0);
}

static bool growth(const struct cushim_report *report, struct cushim_advice *advice) {
    uint64_t n_requests = cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_requests);
    uint64_t n_misses = cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_misses);
    uint64_t ns = cushim_report_sum(report, CUSHIM_KIND_DEVICE, native_alloc_ns);
    EVIDENCE(advice, {"misses", n_misses}, {"requests", n_requests}, {"driver_ns", ns});
    SAY(advice,
        "%s of %s requests took a driver call: their sizes did not come again, or memory went "
        "back in between, which a larger --reserve puts off",
        CUSHIM_COUNT(n_misses), CUSHIM_COUNT(n_requests));
    return n_requests >= 1000 && is_share(n_misses, n_requests, 5) &&
           is_share(ns, report->run_ns, 1);
}

/* Of mapped memory what the driver was asked for, by the mean size of a request. */
static uint64_t mapped_bytes(const struct cushim_report *report) {
    uint64_t n_requests = cushim_report_sum(report, CUSHIM_KIND_MAPPED, n_requests);
    uint64_t n_hits = cushim_report_sum(report, CUSHIM_KIND_MAPPED, n_hits);
    uint64_t n_bytes = cushim_report_sum(report, CUSHIM_KIND_MAPPED, requested_bytes);
    return n_hits && n_hits <= n_requests ? n_bytes / n_requests * (n_requests - n_hits) : n_bytes;
}

static bool forwarded(const struct cushim_report *report, struct cushim_advice *advice) {
    uint64_t async_bytes = cushim_report_sum(report, CUSHIM_KIND_ASYNC, requested_bytes);
    uint64_t past_bytes = async_bytes + mapped_bytes(report);
    uint64_t all_bytes = async_bytes +
                         cushim_report_sum(report, CUSHIM_KIND_MAPPED, requested_bytes) +
                         cushim_report_sum(report, CUSHIM_KIND_DEVICE, requested_bytes);
    const char *keep = cushim_report_option(&report->page.head, "async-keep");
    EVIDENCE(advice, {"forwarded_bytes", past_bytes}, {"requested_bytes", all_bytes});
    SAY(advice, "%s of the %s that were asked for are served by the driver itself%s",
        CUSHIM_BYTES(past_bytes), CUSHIM_BYTES(all_bytes),
        async_bytes && keep && strcmp(keep, "0") == 0
            ? "; --async-keep=auto has it keep what is freed in stream order"
            : "");
    return past_bytes >= (uint64_t)1 << 30 && is_share(past_bytes, all_bytes, 50);
}

static bool few(const struct cushim_report *report, struct cushim_advice *advice) {
    uint64_t n = cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_requests);
    EVIDENCE(advice, {"requests", n}, {"run_ns", report->run_ns});
    SAY(advice,
        "%s request%s in %s: the program keeps its memory, or has a cache of its own, and a pool "
        "has little to save",
        CUSHIM_COUNT(n), n == 1 ? "" : "s", CUSHIM_TIME(report->run_ns));
    return n && report->run_ns >= 10 * second_ns && n < report->run_ns / second_ns * 10;
}

/* Long-lived blocks among short-lived ones pin the free memory beside them. */
static bool holes(const struct cushim_report *report, struct cushim_advice *advice) {
    uint64_t spare_bytes = 0, held_bytes = 0;
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        struct cushim_report_held held =
            cushim_report_held(cushim_report_stats(report, device, CUSHIM_KIND_DEVICE));
        spare_bytes += held.spare_bytes;
        held_bytes += held.held_bytes;
    }
    EVIDENCE(advice, {"spare_bytes", spare_bytes}, {"held_bytes", held_bytes});
    SAY(advice,
        "%s of %s held are free beside live blocks, which keep them from going back; a recording "
        "shows which blocks",
        CUSHIM_BYTES(spare_bytes), CUSHIM_BYTES(held_bytes));
    return spare_bytes >= (uint64_t)512 << 20 && is_share(spare_bytes, held_bytes, 25);
}

/* If other processes want it. */
static bool idle(const struct cushim_report *report, struct cushim_advice *advice) {
    uint64_t most_bytes = 0;
    const char *set = cushim_report_option(&report->page.head, "keep");
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        uint64_t n_bytes = cushim_report_idle_bytes(report, device);
        most_bytes = n_bytes > most_bytes ? n_bytes : most_bytes;
    }
    EVIDENCE(advice, {"idle_bytes", most_bytes}, {"short_processes", report->n_short});
    SAY(advice, "%s are idle here, and %s other %s found no memory on the device%s",
        CUSHIM_BYTES(most_bytes), CUSHIM_COUNT(report->n_short),
        report->n_short == 1 ? "process" : "processes",
        set && strcmp(set, "0") == 0 ? "" : "; a smaller --keep gives it back");
    return report->n_short && most_bytes >= CUSHIM_REPORT_MUCH_IDLE_BYTES;
}

/* Frees that the driver knew are `bypassed`.  Without a pool a second free is one of these, too. */
static bool foreign(const struct cushim_report *report, struct cushim_advice *advice) {
    bool has_pool = cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_hits) +
                        cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_misses) !=
                    0;
    uint64_t n = cushim_mem_stats_read(&report->page.n_foreign_frees);
    EVIDENCE(advice, {"foreign_frees", n});
    SAY(advice,
        "%s %s of memory that cushim did not see allocated; `cushim doctor -- COMMAND` looks at "
        "what is loaded",
        CUSHIM_COUNT(n), n == 1 ? "free was" : "frees were");
    return has_pool && n > cushim_mem_stats_read(&report->page.n_bypassed);
}

static bool leak(const struct cushim_report *report, struct cushim_advice *advice) {
    struct cushim_site_growth growing = cushim_site_growth(report);
    EVIDENCE(advice, {"places", growing.n_sites}, {"live_blocks", growing.n_live},
             {"live_bytes", growing.live_bytes});
    SAY(advice, "%s of the program %s: %s are live there; `alive` marks %s",
        growing.n_sites == 1 ? "a site" : strcat(CUSHIM_COUNT(growing.n_sites), " sites"),
        CUSHIM_LEAK(growing.hour_bytes), CUSHIM_BYTES(growing.live_bytes),
        growing.n_sites == 1 ? "it" : "them");
    return growing.n_sites != 0;
}

static const struct {
    const char *id;
    bool (*applies)(const struct cushim_report *report, struct cushim_advice *advice);
} rows[] = {{"bypassed", bypassed},   {"refused", refused}, {"leak", leak},
            {"idle", idle},           {"waits", waits},     {"staging", staging},
            {"pageable", pageable},   {"growth", growth},   {"holes", holes},
            {"forwarded", forwarded}, {"foreign", foreign}, {"few", few}};

unsigned cushim_advice_give(const struct cushim_report *report,
                            struct cushim_advice advice[CUSHIM_ADVICE_MOST]) {
    unsigned n = 0;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows && n < CUSHIM_ADVICE_MOST; i++) {
        advice[n] = (struct cushim_advice){.id = rows[i].id};
        n += rows[i].applies(report, &advice[n]);
    }
    return n;
}

/* ---- output ---- */

void cushim_advice_text(struct cushim_writer *out, const struct cushim_report *report) {
    struct cushim_advice advice[CUSHIM_ADVICE_MOST];
    unsigned n = cushim_advice_give(report, advice);
    for (unsigned i = 0; i < n; i++)
        cushim_report_put_folded(out, "advice:", advice[i].text);
}

void cushim_advice_json(struct cushim_writer *out, const struct cushim_report *report) {
    struct cushim_advice advice[CUSHIM_ADVICE_MOST];
    unsigned n = cushim_advice_give(report, advice);
    cushim_json_begin(out, "\n  advice", "[");
    for (unsigned i = 0; i < n; i++) {
        cushim_json_begin(out, "\n    ", "{");
        cushim_json_text(out, "id", advice[i].id);
        cushim_json_text(out, "text", advice[i].text);
        cushim_json_begin(out, "evidence", "{");
        for (int k = 0; k < CUSHIM_ADVICE_EVIDENCE && advice[i].evidence[k].name; k++)
            cushim_json_number(out, advice[i].evidence[k].name, advice[i].evidence[k].value);
        cushim_write(out, "}}");
    }
    cushim_write(out, "]");
}
