/* Numbers for keys, and shares as texts for people. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Gives keys numbers from 0 on, in the order of first use, for formats that name each frame
 * once. */
struct numbers {
    struct number *rows;
    uint64_t n;
};

/* Find the number of a key; a new key gets the next number.  Returns false if there is no
 * memory. */
bool numbers_of(struct numbers *numbers, uint64_t key, uint64_t *number, bool *is_new);

void numbers_free(struct numbers *numbers);

/* Write "12.3 %" of all.  The number is cut rather than rounded, so that 100.0 means all.
 * Returns `text`. */
enum { NUMBERS_SHARE_BYTES = 24 };
const char *numbers_share(char text[NUMBERS_SHARE_BYTES], uint64_t part, uint64_t all);

/* The same in a buffer that ends with the block of the caller, as CUSHIM_BYTES and its like. */
#define text_of_share(part, all) numbers_share((char[NUMBERS_SHARE_BYTES]){0}, part, all)
