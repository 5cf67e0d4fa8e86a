/*
 * The nearest of some words to one that was mistyped: what "did you mean" needs.
 *
 * The distance of two words is how many letters one has to put in, leave out, exchange or swap with
 * their neighbour.  Capitals and small letters are alike, and so are - and _.  A word is near where
 * the distance is at most a third of its letters, one at least.
 */
#ifndef CUSHIM_BASE_NEAREST_H
#define CUSHIM_BASE_NEAREST_H

#include <stddef.h>

enum { CUSHIM_NEAREST_BYTES = 64 }; /* a longer word is near to nothing */

/* A search; `best` is NULL until a word is near, then the nearest yet, the first of equals. */
struct cushim_nearest {
    const char *word; /* not owned, nor is any candidate */
    size_t n_bytes;
    const char *best;
    size_t distance;
};

void cushim_nearest_begin(struct cushim_nearest *search, const char *word, size_t n_bytes);
void cushim_nearest_try(struct cushim_nearest *search, const char *candidate);

#endif
