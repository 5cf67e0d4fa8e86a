/* Symbols: the source line of a frame, from addr2line.  If it is missing, or the file has no
 * debugging information, there is none. */
#ifndef CUSHIM_CLI_SYMBOLS_H
#define CUSHIM_CLI_SYMBOLS_H

#include "report/report.h"

/* "" is what is not known. */
struct symbol {
    char function[CUSHIM_REPORT_LINE_BYTES], line[CUSHIM_REPORT_LINE_BYTES]; /* "FILE:88" */
};

/* The symbol of an address of a file, as its symbols count.  It is filled by symbols_ask, unless it
 * was asked for before.  NULL: no memory. */
const struct symbol *symbols_want(const char *path, uint64_t address);

/* Ask addr2line for all that is wanted, by one child for each file. */
void symbols_ask(void);

/* The same for all frames of a report. */
void symbols_learn(const struct cushim_report *report);

cushim_report_find_line_fn symbols_find_line;

#endif
