/* Text of others, which may hold any bytes, as UTF-8 without control characters: a terminal shows
 * it and executes nothing. */
#ifndef CUSHIM_BASE_UTF8_H
#define CUSHIM_BASE_UTF8_H

#include <stdint.h>

#define CUSHIM_UTF8_BAD ((uint32_t)-1)

/* The code point that begins at *at, which is moved behind it; CUSHIM_UTF8_BAD, one byte on, where
 * none does.  Not at the end of the text. */
uint32_t cushim_utf8_next(const char **at);

/* Put "?" in the place of each byte that is of no character, or of one that controls a terminal. */
void cushim_utf8_clean(char *text);

#endif
