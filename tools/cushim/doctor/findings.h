/*
 * What doctor found: rows under headings, printed for a person or as JSON.
 *
 * A row is filled once and owns its texts.  A report that runs out of memory ends the command,
 * which runs in no other program's process.
 */
#ifndef CUSHIM_TOOLS_REPORT_H
#define CUSHIM_TOOLS_REPORT_H

#include <stdio.h>

enum report_state { REPORT_OK, REPORT_NOTE, REPORT_WRONG };

struct report_row {
    enum report_state state;
    char *heading; /* of the section this row begins or goes on */
    char *name;
    char *text;
    char *remedy; /* may be NULL */
};

struct report {
    struct report_row *rows;
    size_t n_rows;
    const char *heading; /* of the rows to come; not owned */
};

void report_init(struct report *report);
void report_finish(struct report *report);

/* Add a row under the heading that is current. */
__attribute__((format(printf, 4, 5))) void report_add(struct report *report,
                                                      enum report_state state, const char *name,
                                                      const char *format, ...);

/* Say what would help against the row added last. */
__attribute__((format(printf, 2, 3))) void report_remedy(struct report *report, const char *format,
                                                         ...);

size_t report_n_wrong(const struct report *report);

void report_print(const struct report *report, FILE *out);
void report_print_json(const struct report *report, FILE *out);

#endif
