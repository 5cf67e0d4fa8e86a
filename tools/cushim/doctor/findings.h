/*
 * What doctor found: rows under headings, printed for a person or as JSON.
 *
 * The process has one report.  A row is filled once and owns its texts.  If the report runs out of
 * memory, it ends the command, which runs in no other program's process.
 */
#pragma once

#include <stddef.h>

enum report_state { REPORT_OK, REPORT_NOTE, REPORT_WRONG };

/* Set the heading of the next rows.  Only the pointer is kept. */
void report_heading(const char *heading);

/* Add a row. */
__attribute__((format(printf, 3, 4))) void report_add(enum report_state state, const char *name,
                                                      const char *format, ...);
#define report_ok(...)    report_add(REPORT_OK, __VA_ARGS__)
#define report_note(...)  report_add(REPORT_NOTE, __VA_ARGS__)
#define report_wrong(...) report_add(REPORT_WRONG, __VA_ARGS__)

/* Add a remedy to the last row. */
__attribute__((format(printf, 1, 2))) void report_remedy(const char *format, ...);

size_t report_n_wrong(void);

/* Print the rows that were not printed yet to standard output, and at the end the verdict. */
void report_print(void);
void report_print_verdict(void);

/* Print all of it.  Returns as usage_flush. */
int report_print_json(void);
