/* Processes in a table: a line each, what all have, and who stands out. */
#ifndef CUSHIM_TOOLS_PROCESSES_H
#define CUSHIM_TOOLS_PROCESSES_H

#include "report/report.h"

struct process_row {
    int64_t process, rank; /* rank: -1 where there is none */
    char program[CUSHIM_NAME_BYTES];
    char end[16];
    uint64_t peak_live_bytes, peak_held_bytes; /* of device memory, devices added up */
    uint64_t n_requests, wait_ns;              /* of device memory */
    bool is_software;
};

struct processes {
    struct process_row *rows;
    size_t n;
};

/* Add one; false: there is no memory. */
bool processes_add(struct processes *processes, const struct cushim_report *report);

/* In the order of ranks and processes. */
void processes_sort(struct processes *processes);

/* A table of at most 80 columns: a line each, and the sums. */
void processes_put(struct cushim_writer *out, const struct processes *processes);

/* Which ranks are missing, and who is furthest from the median in each column, where there are
 * three or more; nothing where nothing is to be said. */
void processes_put_outliers(struct cushim_writer *out, const struct processes *processes);

void processes_free(struct processes *processes);

#endif
