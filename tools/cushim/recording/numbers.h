/* Numbers for keys, from 0 in order of first use: for formats that name each frame once. */
#ifndef CUSHIM_TOOLS_NUMBERS_H
#define CUSHIM_TOOLS_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

struct numbers {
    struct number *rows;
    uint64_t n;
};

/* The number of a key; a key that was not asked for before gets a new one.  False: no memory. */
bool numbers_of(struct numbers *numbers, uint64_t key, uint64_t *number, bool *is_new);

void numbers_free(struct numbers *numbers);

#endif
