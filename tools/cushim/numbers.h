/* Numbers: for keys, sorted, and as shares. */
#ifndef CUSHIM_TOOLS_NUMBERS_H
#define CUSHIM_TOOLS_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers for keys, from 0 in order of first use: for formats that name each frame once. */
struct numbers {
    struct number *rows;
    uint64_t n;
};

/* The number of a key; a key that was not asked for before gets a new one.  False: no memory. */
bool numbers_of(struct numbers *numbers, uint64_t key, uint64_t *number, bool *is_new);

void numbers_free(struct numbers *numbers);

void numbers_sort(uint64_t numbers[], size_t n);

/* "12.3 %" of all, cut and not rounded, so that 100.0 means all; "0.0 %" of nothing.  Returns
 * `text`. */
enum { NUMBERS_SHARE_BYTES = 24 };
const char *numbers_share(char text[NUMBERS_SHARE_BYTES], uint64_t part, uint64_t all);

#endif
