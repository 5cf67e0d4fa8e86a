/* Symbols: the source line of a frame, as addr2line says; without it, or without debugging
 * information in the file, there is none. */
#ifndef CUSHIM_CLI_SYMBOLS_H
#define CUSHIM_CLI_SYMBOLS_H

#include "report/report.h"

cushim_report_find_line_fn symbols_find_line;

/* Ask for all frames of a report at once, an addr2line a file: what was learnt is not asked for
 * again. */
void symbols_learn(const struct cushim_report *report);

/* The same for addresses of one file, by one child for all, as its symbols count: tells of each in
 * its turn, "" being what is not known.  Of none where the file cannot be asked. */
void symbols_find(const char *file, const uint64_t addresses[], size_t n_addresses,
                  void (*tell)(size_t i, const char *function, const char *line, void *context),
                  void *context);

#endif
