#include "tools/cushim/processes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/list.h"
#include "base/utf8.h"
#include "report/words.h"

enum { PEAK_LIVE, PEAK_HELD, REQUESTS, WAITED, N_COLUMNS = PROCESSES_COLUMNS };

/* ---- a row ---- */

/* "ended by SIGKILL" becomes "SIGKILL"; a process that wrote its own report called exit. */
static void shorten_end(char end[16], const struct cushim_report *report) {
    const char *ended = report->ended;
    const char *signal = ended ? strstr(ended, "SIG") : NULL;
    if (signal)
        snprintf(end, 16, "%.*s", (int)strcspn(signal, " ;"), signal);
    else if (ended && strstr(ended, "_exit"))
        snprintf(end, 16, "_exit");
    else if (ended && strstr(ended, "with status "))
        snprintf(end, 16, "exit %.3s", strstr(ended, "status ") + sizeof "status");
    else if (ended)
        snprintf(end, 16, "ended");
    else
        snprintf(end, 16, "%s", report->is_of_page ? "runs" : "exit");
}

bool processes_add(struct processes *processes, const struct cushim_report *report) {
    struct process_row *row;
    LIST_ADD(processes->rows, processes->n, row);
    if (!row)
        return false;
    *row = (struct process_row){
        .process = report->page.head.process,
        .rank = report->page.head.rank,
        .numbers = {[PEAK_LIVE] = cushim_report_sum_device(report, -1, peak_live_bytes),
                    [PEAK_HELD] = cushim_report_sum_device(report, -1, peak_held_bytes),
                    [REQUESTS] = cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_requests),
                    [WAITED] = cushim_report_sum(report, CUSHIM_KIND_DEVICE, wait_ns)},
        .is_software = cushim_mem_stats_read(&report->page.head.is_software),
    };
    snprintf(row->program, sizeof row->program, "%s", report->page.head.program);
    shorten_end(row->end, report);
    return true;
}

static int in_order(const void *one, const void *other) {
    const struct process_row *a = one, *b = other;
    int order = cushim_order((uint64_t)a->rank + 1, (uint64_t)b->rank + 1); /* -1: none */
    return order ? order : cushim_order((uint64_t)a->process, (uint64_t)b->process);
}

void processes_sort(struct processes *processes) {
    if (processes->n)
        qsort(processes->rows, processes->n, sizeof *processes->rows, in_order);
}

void processes_free(struct processes *processes) {
    free(processes->rows);
    *processes = (struct processes){0};
}

/* ---- the table ---- */

enum { MOST_DIGITS = 11 };

static const struct {
    int word; /* of its head; -1 for "waited" */
    char *(*put)(char text[CUSHIM_AMOUNT_BYTES], uint64_t n);
} columns[N_COLUMNS] = {
    [PEAK_LIVE] = {CUSHIM_WORD_peak_live, cushim_text_bytes},
    [PEAK_HELD] = {CUSHIM_WORD_peak_held, cushim_text_bytes},
    [REQUESTS] = {CUSHIM_WORD_requests, cushim_text_count},
    [WAITED] = {-1, cushim_text_time},
};

static const char *head_of(int column) {
    return columns[column].word < 0 ? "waited" : cushim_report_words[columns[column].word].text;
}

static void put_line(struct cushim_writer *out, const char *rank, const char *process,
                     const char *program, const char *const cells[N_COLUMNS], const char *end) {
    char cell[CUSHIM_CELL_BYTES], cut[16];
    snprintf(cut, sizeof cut, "%s", end);
    /* more than 0 only for made-up numbers */
    int wide = snprintf(NULL, 0, "%4s %8s", rank, process) - 13;
    cushim_write(out, "  %4s %8s  %s %9s %9s %11s %9s  %s\n", rank, process,
                 cushim_utf8_cell(cell, program, wide < 11 ? 11 - (size_t)wide : 0),
                 cells[PEAK_LIVE], cells[PEAK_HELD], cells[REQUESTS], cells[WAITED],
                 cushim_utf8_fit(cut, 8));
}

static void put_row(struct cushim_writer *out, const struct process_row *row) {
    char rank[24] = "-", process[24], texts[N_COLUMNS][CUSHIM_AMOUNT_BYTES];
    const char *cells[N_COLUMNS];
    if (row->rank >= 0)
        snprintf(rank, sizeof rank, "%" PRId64, row->rank);
    snprintf(process, sizeof process, "%" PRId64, row->process);
    cushim_utf8_fit(rank, MOST_DIGITS);
    cushim_utf8_fit(process, MOST_DIGITS);
    for (int i = 0; i < N_COLUMNS; i++)
        cells[i] = columns[i].put(texts[i], row->numbers[i]);
    put_line(out, rank, process, row->program, cells, row->end);
}

void processes_put(struct cushim_writer *out, const struct processes *processes) {
    char texts[N_COLUMNS][CUSHIM_AMOUNT_BYTES], n[48];
    const char *cells[N_COLUMNS];
    size_t n_software = 0;
    for (int i = 0; i < N_COLUMNS; i++)
        cells[i] = head_of(i);
    put_line(out, "rank", "process", "program", cells, "end");
    for (size_t i = 0; i < processes->n; i++)
        put_row(out, &processes->rows[i]);
    for (int i = 0; i < N_COLUMNS; i++) {
        uint64_t sum = 0;
        for (size_t k = 0; k < processes->n; k++) {
            sum += processes->rows[k].numbers[i];
            n_software += processes->rows[k].is_software && !i;
        }
        cells[i] = columns[i].put(texts[i], sum);
    }
    snprintf(n, sizeof n, "%zu in all", processes->n);
    put_line(out, "", "", n, cells, "");
    if (n_software)
        cushim_write(out, "  waited: no GPU in %zu of them\n", n_software);
}

/* ---- outliers ---- */

static void put_furthest(struct cushim_writer *out, const struct processes *processes, int column,
                         uint64_t values[]) {
    const struct process_row *furthest = NULL;
    char text[2][CUSHIM_AMOUNT_BYTES];
    for (size_t i = 0; i < processes->n; i++)
        values[i] = processes->rows[i].numbers[column];
    qsort(values, processes->n, sizeof *values, cushim_by_number);
    uint64_t median = values[(processes->n - 1) / 2], most = 0;
    for (size_t i = 0; i < processes->n; i++) {
        uint64_t far = cushim_distance(processes->rows[i].numbers[column], median);
        if (far > most) {
            most = far;
            furthest = &processes->rows[i];
        }
    }
    if (!furthest)
        return;
    cushim_write(out, "  %-9s  furthest from the median of %s: %s of ", head_of(column),
                 columns[column].put(text[0], median),
                 columns[column].put(text[1], furthest->numbers[column]));
    if (furthest->rank >= 0)
        cushim_write(out, "rank %" PRId64 "\n", furthest->rank);
    else
        cushim_write(out, "process %" PRId64 "\n", furthest->process);
}

/* Write the ranks that are missing between 0 and the last one.  The rows are sorted. */
static void put_missing(struct cushim_writer *out, const struct processes *processes) {
    enum { MOST_NAMED = 8 };
    uint64_t next = 0, n = 0;
    for (size_t i = 0; i < processes->n; i++) {
        if (processes->rows[i].rank < 0)
            continue;
        uint64_t rank = (uint64_t)processes->rows[i].rank;
        for (; next < rank && n < MOST_NAMED; next++)
            cushim_write(out, "%s%" PRIu64, n++ ? ", " : "  missing    ranks ", next);
        n += cushim_less(rank, next); /* because a rank may be any number */
        next = rank >= next ? rank + 1 : next;
    }
    if (n > MOST_NAMED)
        cushim_write(out, " and %" PRIu64 " more", n - MOST_NAMED);
    if (n)
        cushim_write(out, "\n");
}

void processes_put_outliers(struct cushim_writer *out, const struct processes *processes) {
    enum { FEWEST = 3 };
    uint64_t *values = calloc(processes->n + 1, sizeof *values);
    put_missing(out, processes);
    for (int i = 0; values && processes->n >= FEWEST && i < N_COLUMNS; i++)
        put_furthest(out, processes, i, values);
    free(values);
}
