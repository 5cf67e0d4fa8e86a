/* Symbols: which line of the source a frame is, as addr2line says; without it, and where a file has
 * no debugging information, nobody knows. */
#ifndef CUSHIM_CLI_SYMBOLS_H
#define CUSHIM_CLI_SYMBOLS_H

#include "report/report.h"

cushim_report_find_line_fn symbols_find_line;

#endif
