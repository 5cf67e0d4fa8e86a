/* Text of others, which may hold any bytes, as UTF-8 without control characters: a terminal shows
 * it and executes nothing. */
#ifndef CUSHIM_BASE_UTF8_H
#define CUSHIM_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define CUSHIM_UTF8_BAD ((uint32_t)-1)

/* The code point that begins at *at, which is moved behind it; CUSHIM_UTF8_BAD, one byte on, where
 * none does.  Not at the end of the text. */
uint32_t cushim_utf8_next(const char **at);

/* Put "?" in the place of each byte that is of no character, or of one that controls a terminal. */
void cushim_utf8_clean(char *text);

/* How many columns a clean text has, one a character; it may be wider where characters are. */
size_t cushim_utf8_columns(const char *text);

/* Cut a clean text where it has more than so many columns; "..." stands for what
 * is left out.  Returns it. */
char *cushim_utf8_fit(char *text, size_t columns);

/* A clean text as a cell of a table: cut to so many columns, and filled up with blanks.  Returns
 * the cell. */
enum { CUSHIM_CELL_COLUMNS = 40, CUSHIM_CELL_BYTES = 4 * CUSHIM_CELL_COLUMNS + 1 };
char *cushim_utf8_cell(char cell[CUSHIM_CELL_BYTES], const char *text, size_t columns);

#endif
