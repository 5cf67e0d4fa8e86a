#include "tools/cushim/commands.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "base/writer.h"
#include "report/site.h"
#include "report/words.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/devices.h"
#include "tools/cushim/numbers.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/suspended.h"
#include "tools/cushim/symbols.h"
#include "tools/cushim/usage.h"

struct part;

/* The command line, and what was seen so far. */
struct request {
    const char *wanted; /* a process or a program; NULL for the list */
    bool is_json, is_clean, is_of_all, has_users;
    const struct part *part; /* of each report; NULL for all of it */
    unsigned watch_seconds;  /* between two looks; 0 for one look */
    struct cushim_writer out;
    int n_shown, n_dead, n_running; /* n_running: of those that are shown */
};

/* The name has 27 columns, so a program beside a user is cut shorter. */
static void put_name(struct request *request, const struct page *page) {
    char program[CUSHIM_CELL_BYTES], user[CUSHIM_CELL_BYTES];
    const struct cushim_page_head *head = &page->report->page.head;
    if (request->has_users)
        cushim_write(&request->out, "%8ld %s %s", (long)head->process,
                     cushim_utf8_cell(user, pages_user(page->user), 8),
                     cushim_utf8_cell(program, head->program, 9));
    else
        cushim_write(&request->out, "%9ld  %s", (long)head->process,
                     cushim_utf8_cell(program, head->program, 16));
}

static void put_spilled(struct cushim_writer *out, const struct cushim_mem_stats *stats) {
    uint64_t n_bytes = cushim_mem_stats_read(&stats->held_bytes);
    if (n_bytes)
        cushim_write(out, "%51s  lie in host memory\n", CUSHIM_BYTES(n_bytes));
}

static void put_row(struct request *request, const struct page *page, int device) {
    const struct cushim_report *report = page->report;
    struct suspended suspended;
    const struct cushim_mem_stats *stats = cushim_report_stats(report, device, CUSHIM_KIND_DEVICE);
    uint64_t n = cushim_mem_stats_read(&stats->n_requests);
    uint64_t n_hits = cushim_mem_stats_read(&stats->n_hits);
    if (!request->n_shown++)
        cushim_write(&request->out, "%s %3s %9s %9s %10s %9s  %s\n",
                     request->has_users ? " process user     program  "
                                        : "  process  program         ",
                     "dev", CUSHIM_WORD(live), CUSHIM_WORD(held), CUSHIM_WORD(peak_live),
                     CUSHIM_WORD(no_call), "state");
    put_name(request, page);
    cushim_write(&request->out, " %3d %9s %9s %10s %9s  %s\n", device,
                 CUSHIM_BYTES(cushim_report_sum_device(report, device, live_bytes)),
                 CUSHIM_BYTES(cushim_report_sum_device(report, device, held_bytes)),
                 CUSHIM_BYTES(cushim_report_sum_device(report, device, peak_live_bytes)),
                 n ? text_of_share(n_hits < n ? n_hits : n, n) : "-",
                 !page->is_alive                                         ? "ended"
                 : suspended_find(report->page.head.process, &suspended) ? "susp."
                                                                         : "runs");
    put_spilled(&request->out, cushim_report_stats(report, device, CUSHIM_KIND_SPILLED));
}

static void show_row(struct request *request, const struct page *page) {
    int device = cushim_report_next_device(page->report, -1);
    do
        put_row(request, page, device < 0 ? 0 : device);
    while (device >= 0 && (device = cushim_report_next_device(page->report, device)) >= 0);
}

/* ---- parts of a report ---- */

static bool put_sites(struct cushim_writer *out, const struct cushim_report *report) {
    cushim_site_text(out, report);
    return report->sites;
}

static bool put_libraries(struct cushim_writer *out, const struct cushim_report *report) {
    uint64_t n_bytes = report->sites ? devices_unaccounted_bytes(report, -1) : 0;
    if (report->sites)
        cushim_site_libraries(out, report);
    if (n_bytes)
        cushim_write(out, "  %31s  of the driver, in no row\n", CUSHIM_BYTES(n_bytes));
    return report->sites;
}

static const char not_sampled[] = "its sites are not sampled: start it with --sites";

/* `nothing` is what is said if `put` had nothing to write. */
static const struct part {
    const char *option;
    bool (*put)(struct cushim_writer *out, const struct cushim_report *report);
    const char *nothing;
} parts[] = {{"--sites", put_sites, not_sampled},
             {"--findings", cushim_report_findings_text, "nothing was found"},
             {"--oom", cushim_report_shortages_text, "each request found memory"}},
  sites_by_library = {"--sites", put_libraries, not_sampled};
enum { SITES, FINDINGS, OOM, N_PARTS = sizeof parts / sizeof *parts };

static void put_part(struct cushim_writer *out, const struct cushim_report *report,
                     const struct part *part) {
    cushim_report_title(out, report);
    if (!part->put(out, report))
        cushim_write(out, "  %s\n", part->nothing);
}

/* ---- one page ---- */

/* Also of a process without a page. */
static void show_suspended(const struct suspended *suspended, void *context) {
    struct request *request = context;
    char program[CUSHIM_CELL_BYTES], text[SUSPENDED_TEXT_BYTES];
    if (!pages_is_wanted(request->wanted, suspended->process, suspended->program))
        return;
    request->n_shown++;
    request->n_running++;
    cushim_write(&request->out, "%9ld  %s %s; cushim resume %ld\n", (long)suspended->process,
                 cushim_utf8_cell(program, suspended->program, 12), suspended_text(text, suspended),
                 (long)suspended->process);
}

static void show(const struct page *page, void *context) {
    struct request *request = context;
    const struct cushim_page_head *head = &page->report->page.head;
    request->n_dead += !page->is_alive;
    if (!page->is_alive)
        page->report->ended = "it ended";
    if (!pages_is_wanted(request->wanted, head->process, head->program))
        return;
    request->n_running += page->is_alive;
    if (request->is_json) {
        request->n_shown++;
        symbols_learn(page->report);
        if (page->is_alive)
            suspended_note(page->report);
        cushim_report_json(&request->out, page->report);
    } else if (request->part || request->wanted || request->is_of_all) {
        cushim_write(&request->out, "%s", request->n_shown++ ? "\n" : "");
        symbols_learn(page->report);
        if (!request->part)
            cushim_report_text(&request->out, page->report);
        else
            put_part(&request->out, page->report, request->part);
    } else {
        show_row(request, page);
    }
}

static void take_arguments(struct request *request, int argc, char **argv) {
    enum { MOST_SECONDS = 24 * 60 * 60 };
    bool is_watched = false, is_asked[N_PARTS] = {false};
    const char *by = NULL;
    static const char *const groups[] = {"site", "library"};
    enum { LIBRARY = 1, N_GROUPS = sizeof groups / sizeof *groups };
    const struct argument rows[] = {
        {"--json", .flag = &request->is_json},
        {"--clean", .flag = &request->is_clean},
        {"--all", .flag = &request->is_of_all},
        {"--all-users", .flag = &request->has_users},
        {"--watch", .flag = &is_watched},
        {"--watch", .number = &request->watch_seconds, .least = 1, .most = MOST_SECONDS},
        {"--sites", .flag = &is_asked[SITES]},
        {"--findings", .flag = &is_asked[FINDINGS]},
        {"--oom", .flag = &is_asked[OOM]},
        {"--by", .text = &by},
        {0}};
    int n_parts = 0,
        n = arguments_words("stat", rows, NULL, 0, 1, "one process or program", argc, argv);
    request->wanted = n ? *argv : NULL;
    if (is_watched && !request->watch_seconds)
        request->watch_seconds = 1;
    for (int i = 0; i < N_PARTS; i++) {
        n_parts += is_asked[i];
        request->part = is_asked[i] ? &parts[i] : request->part;
    }
    if (by && strcmp(by, groups[LIBRARY]) != 0 && strcmp(by, *groups) != 0)
        usage_unknown("stat", "grouping", by, groups, N_GROUPS);
    if (by && !is_asked[SITES])
        usage_error("stat", "--by goes with --sites");
    if (by && strcmp(by, groups[LIBRARY]) == 0 && n_parts == 1)
        request->part = &sites_by_library;
    if (request->is_clean && argc > 2)
        usage_error("stat", "--clean takes nothing else");
    if (request->is_of_all && request->wanted)
        usage_error("stat", "--all takes no process or program");
    if (n_parts > 1 || (n_parts && request->is_json))
        usage_error("stat", "%s takes no other part and no --json", request->part->option);
    if (n_parts && !request->wanted && !request->is_of_all)
        usage_error("stat", "%s needs a process, a program or --all", request->part->option);
}

/* Name the first pages that cannot be read, and say what to do about those of processes that ended
 * and of those that run. */
static void complain_of_unreadable(const struct pages_found *pages) {
    int n = pages->n_unreadable, n_running = pages->n_running;
    char more[32] = "", running[96] = "";
    if (n > PAGES_NAMED)
        snprintf(more, sizeof more, " and %d more", n - PAGES_NAMED);
    if (n_running)
        snprintf(running, sizeof running, "; %d run%s: `cushim stat` of that version shows %s",
                 n_running, n_running == 1 ? "s" : "", n_running == 1 ? "it" : "them");
    complain("%d page%s of another version of cushim, or damaged: %s%s%s%s", n,
             n == 1 ? " is" : "s are", pages->unreadable, more,
             n > n_running ? "; `cushim stat --clean` removes what ended processes left" : "",
             running);
}

int stat_main(int argc, char **argv) {
    struct request request = {.out = {.fd = STDOUT_FILENO}};
    take_arguments(&request, argc, argv);
    if (request.is_clean) {
        int n = pages_clean();
        return complain_as(EXIT_WELL, "%s of ended processes removed",
                           CUSHIM_SOME((uint64_t)n, "page"));
    }
    if (request.has_users)
        pages_of_all_users();
    bool is_screen = request.watch_seconds && isatty(STDOUT_FILENO);
    struct pages_found pages;
    int n_looks = 0;
    bool goes_on;
    do {
        request.n_shown = request.n_dead = request.n_running = 0;
        devices_ask_again();
        if (is_screen)
            cushim_write(&request.out, "\033[H\033[J");
        else if (n_looks && !request.is_json)
            cushim_write(&request.out, "\n");
        pages = pages_each(show, &request);
        if (!request.is_json && !request.part)
            suspended_each(show_suspended, &request);
        cushim_writer_flush(&request.out);
        /* until no process is left; a page of one that ended does not change any more */
        goes_on = request.watch_seconds && request.n_running && !request.out.error;
        n_looks++;
    } while (goes_on && sleep(request.watch_seconds) == 0);
    if (n_looks > 1 && !request.n_shown)
        return EXIT_WELL;
    if (request.out.error)
        return usage_flush(&request.out);
    if (pages.n_unreadable)
        complain_of_unreadable(&pages);
    if (!request.n_shown) {
        if (request.wanted && pages.n_shown)
            pages_complain_of_none(request.wanted);
        else if (!pages.n_unreadable)
            pages_complain_of_nobody(geteuid() == 0 && !request.has_users);
        return EXIT_WRONG;
    }
    if (request.n_dead && !request.wanted && !request.is_json)
        complain("%d ended without a report; `cushim stat --clean` removes %s", request.n_dead,
                 request.n_dead == 1 ? "its page" : "their pages");
    return EXIT_WELL;
}
