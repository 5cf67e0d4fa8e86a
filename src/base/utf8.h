/* Text of others, which may contain any bytes, as UTF-8 without control characters, so that a
 * terminal shows it and executes nothing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CUSHIM_UTF8_BAD ((uint32_t)-1)

/* The code point that begins at *at, which moves behind it.  If none begins there, CUSHIM_UTF8_BAD,
 * and *at moves one byte.  Not at the end of the text. */
uint32_t cushim_utf8_next(const char **at);

/* Replace each byte that is in no character, or in one that controls a terminal, by "?". */
void cushim_utf8_clean(char *text);

/* The same for a buffer that others wrote, and that may lack its end. */
void cushim_utf8_end(char *text, size_t n_bytes);

/* The columns of a clean text, one for each character; characters that are wider are not known. */
size_t cushim_utf8_columns(const char *text);

/* Cut a clean text to at most `columns`; "..." replaces what is left out.  Returns it. */
char *cushim_utf8_fit(char *text, size_t columns);

/* A clean text as a cell of a table: cut to `columns`, and padded with blanks.  Returns the
 * cell. */
enum { CUSHIM_CELL_COLUMNS = 40, CUSHIM_CELL_BYTES = 4 * CUSHIM_CELL_COLUMNS + 1 };
char *cushim_utf8_cell(char cell[CUSHIM_CELL_BYTES], const char *text, size_t columns);
