/*
 * What doctor found: rows under headings, printed for a person or as JSON.
 *
 * A row is filled once and owns its texts.  If a report runs out of memory, it ends the command,
 * which runs in no other program's process.
 */
#ifndef CUSHIM_TOOLS_REPORT_H
#define CUSHIM_TOOLS_REPORT_H

#include <stdio.h>

enum report_state { REPORT_OK, REPORT_NOTE, REPORT_WRONG };

struct report_row {
    enum report_state state;
    char *heading; /* the section of this row */
    char *name;
    char *text;
    char *remedy; /* may be NULL */
};

struct report {
    struct report_row *rows;
    size_t n_rows;
    const char *heading; /* for the next rows; not owned */
};

void report_init(struct report *report);
void report_finish(struct report *report);

/* Add a row under the current heading. */
__attribute__((format(printf, 4, 5))) void report_add(struct report *report,
                                                      enum report_state state, const char *name,
                                                      const char *format, ...);

/* Add what would help to the last row. */
__attribute__((format(printf, 2, 3))) void report_remedy(struct report *report, const char *format,
                                                         ...);

size_t report_n_wrong(const struct report *report);

void report_print(const struct report *report, FILE *out);
void report_print_json(const struct report *report);

#endif
