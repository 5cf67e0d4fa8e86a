/* Finds the function and the source line of an address by addr2line.  They are unknown if
 * addr2line is missing, or the file has no debugging information. */
#pragma once

#include "report/report.h"

/* Both are "" if unknown. */
struct symbol {
    char function[CUSHIM_REPORT_LINE_BYTES], line[CUSHIM_REPORT_LINE_BYTES]; /* "FILE:88" */
};

/* The symbol of an address, as the symbols of the file have it.  symbols_ask fills it, unless it
 * was asked for before.  Returns NULL if there is no memory. */
const struct symbol *symbols_want(const char *path, uint64_t address);

/* Ask addr2line for all wanted symbols, with one child for each file. */
void symbols_ask(void);

/* Want and ask for all frames of a report. */
void symbols_learn(const struct cushim_report *report);

cushim_report_find_line_fn symbols_find_line;
