/* Symbols: the source line of a frame, from addr2line.  If it is missing, or the file has no
 * debugging information, there is none. */
#ifndef CUSHIM_CLI_SYMBOLS_H
#define CUSHIM_CLI_SYMBOLS_H

#include "report/report.h"

cushim_report_find_line_fn symbols_find_line;

/* Look up all frames of a report at once, with one addr2line for each file; answers are kept. */
void symbols_learn(const struct cushim_report *report);

/* The same for addresses of one file, as its symbols count, by one child for all.  Calls back for
 * each in order, with "" for what is not known; not at all if the file cannot be looked up. */
void symbols_find(const char *file, const uint64_t addresses[], size_t n_addresses,
                  void (*tell)(size_t i, const char *function, const char *line, void *context),
                  void *context);

#endif
