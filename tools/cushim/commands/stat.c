#include "tools/cushim/commands/stat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/writer.h"
#include "report/words.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/usage.h"

/* What was asked for, and what was seen on the way. */
struct request {
    const char *wanted; /* a process or a program; NULL: the list */
    bool is_json, is_clean;
    struct cushim_writer out;
    int n_shown, n_dead;
};

static void put_row(struct request *request, const struct page *page, int device) {
    const struct cushim_report *report = page->report;
    const struct cushim_mem_stats *stats = cushim_report_stats(report, device, CUSHIM_KIND_DEVICE);
    uint64_t n = cushim_mem_stats_read(&stats->n_requests);
    uint64_t n_hits = cushim_mem_stats_read(&stats->n_hits);
    char text[3][CUSHIM_AMOUNT_BYTES], share[CUSHIM_AMOUNT_BYTES] = "-";
    if (n) { /* cut, so that 100.0 is all of them */
        unsigned per_1000 = n_hits >= n ? 1000 : (unsigned)((__uint128_t)n_hits * 1000 / n);
        snprintf(share, sizeof share, "%u.%u %%", per_1000 / 10, per_1000 % 10);
    }
    if (!request->n_shown++)
        cushim_write(&request->out, "%9s  %-16s %3s %9s %9s %10s %9s  %s\n", "process", "program",
                     "dev", CUSHIM_WORD(live), CUSHIM_WORD(held), CUSHIM_WORD(peak_live),
                     CUSHIM_WORD(no_call), "state");
    cushim_write(&request->out, "%9ld  %-16.16s %3d %9s %9s %10s %9s  %s\n",
                 (long)report->page.head.process, report->page.head.program, device,
                 cushim_text_bytes(text[0], cushim_mem_stats_read(&stats->live_bytes)),
                 cushim_text_bytes(text[1], cushim_mem_stats_read(&stats->held_bytes)),
                 cushim_text_bytes(text[2], cushim_mem_stats_read(&stats->peak_live_bytes)), share,
                 page->is_alive ? "runs" : "ended");
}

static void show_row(struct request *request, const struct page *page) {
    bool has_device = false;
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        if (!cushim_report_has_device(page->report, device))
            continue;
        put_row(request, page, device);
        has_device = true;
    }
    if (!has_device)
        put_row(request, page, 0);
}

static bool is_wanted(const char *wanted, const struct cushim_page_head *head) {
    char process[24];
    snprintf(process, sizeof process, "%ld", (long)head->process);
    return strcmp(wanted, process) == 0 || strcmp(wanted, head->program) == 0;
}

static void show(const struct page *page, void *context) {
    struct request *request = context;
    const struct cushim_page_head *head = &page->report->page.head;
    request->n_dead += !page->is_alive;
    if (!page->is_alive)
        page->report->ended = "it ended";
    if (request->is_clean) {
        if (!page->is_alive)
            pages_remove(page);
    } else if (request->wanted && !is_wanted(request->wanted, head)) {
        return;
    } else if (request->is_json) {
        request->n_shown++;
        cushim_report_json(&request->out, page->report);
    } else if (request->wanted) {
        if (request->n_shown++)
            cushim_write(&request->out, "\n");
        cushim_report_text(&request->out, page->report);
    } else {
        show_row(request, page);
    }
}

static int take_arguments(struct request *request, int argc, char **argv) {
    static const char *const known[] = {"--json", "--clean"};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            request->is_json = true;
        else if (strcmp(argv[i], "--clean") == 0)
            request->is_clean = true;
        else if (*argv[i] == '-')
            return usage_unknown("stat", "option", argv[i], known, 2);
        else if (request->wanted)
            return usage_error("stat", "stat shows one process or program at a time");
        else
            request->wanted = argv[i];
    }
    if (request->is_clean && (request->wanted || request->is_json))
        return usage_error("stat", "--clean stands alone");
    return EXIT_WELL;
}

int stat_main(int argc, char **argv) {
    struct request request = {.out = {.fd = STDOUT_FILENO}};
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        usage_print(stdout, "stat");
        return EXIT_WELL;
    }
    int code = take_arguments(&request, argc, argv);
    if (code != EXIT_WELL)
        return code;
    int n_pages = pages_each(show, &request);
    cushim_writer_flush(&request.out);
    if (request.out.error) {
        complain("standard output cannot be written");
        return EXIT_OURS;
    }
    if (request.is_clean) {
        complain("%d pages of ended processes removed", request.n_dead);
        return EXIT_WELL;
    }
    if (!request.n_shown) {
        if (request.wanted && n_pages)
            complain("no live page of %s", request.wanted);
        else
            complain("no process has a live page; `cushim run` gives it one");
        return EXIT_WRONG;
    }
    if (request.n_dead && !request.wanted && !request.is_json)
        complain("%d ended without a report; `cushim stat --clean` removes their pages",
                 request.n_dead);
    return EXIT_WELL;
}
