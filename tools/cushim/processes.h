/* Writes a table of processes: a line for each, the sums, and outliers. */
#pragma once

#include "report/report.h"

enum { PROCESSES_COLUMNS = 4 };

struct process_row {
    int64_t process, rank; /* rank: -1 if there is none */
    char program[CUSHIM_NAME_BYTES];
    char end[16];
    /* of device memory: the sums over devices of live and held peaks, requests, and waits */
    uint64_t numbers[PROCESSES_COLUMNS];
    bool is_software;
};

struct processes {
    struct process_row *rows;
    size_t n;
};

/* Add one.  Returns false if there is no memory. */
bool processes_add(struct processes *processes, const struct cushim_report *report);

/* Sort by rank and process. */
void processes_sort(struct processes *processes);

/* Write the table, at most 80 columns wide. */
void processes_put(struct cushim_writer *out, const struct processes *processes);

/* Write the missing ranks and, if there are three processes or more, the one that is furthest
 * from the median of each column.  Writes nothing if there is nothing to report. */
void processes_put_outliers(struct cushim_writer *out, const struct processes *processes);

void processes_free(struct processes *processes);
