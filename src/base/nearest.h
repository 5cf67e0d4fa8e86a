/*
 * The nearest of some words to a mistyped one, for "did you mean".
 *
 * The distance of two words is the number of letters to insert, leave out, exchange or swap with
 * their neighbour.  Case does not count, and neither does the difference between - and _.  A word
 * is near if the distance is at most a third of its letters, but at least one.
 */
#pragma once

#include <stddef.h>

enum { CUSHIM_NEAREST_BYTES = 64 }; /* a longer word is near to nothing */

/* A search; `best` is NULL until a word is near, then the nearest so far, and the first of equals.
 */
struct cushim_nearest {
    const char *word; /* not owned, and neither are the candidates */
    size_t n_bytes;
    const char *best;
    size_t distance;
};

void cushim_nearest_begin(struct cushim_nearest *search, const char *word, size_t n_bytes);
void cushim_nearest_try(struct cushim_nearest *search, const char *candidate);
