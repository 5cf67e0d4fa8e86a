/*
 * Rows in an array that grows: room for one more, and its place in a sorted array.
 */
#ifndef CUSHIM_COMPANION_ROWS_H
#define CUSHIM_COMPANION_ROWS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Room for one row behind n; false if host memory is out.  `rows` points to the pointer. */
static inline bool cushim_rows_reserve(void *rows, size_t n, size_t *cap, size_t row_bytes) {
    enum { FIRST = 16 };
    size_t more = *cap ? 2 * *cap : FIRST;
    void *old, *new;
    if (n < *cap)
        return true;
    memcpy(&old, rows, sizeof old);
    new = realloc(old, more * row_bytes);
    if (!new)
        return false;
    memcpy(rows, &new, sizeof new);
    *cap = more;
    return true;
}

/* The first of n rows whose key is not below `key`; n: none.  They begin with a key of 64 bits, in
 * rising order. */
static inline size_t cushim_rows_place(const void *rows, size_t n, size_t row_bytes, uint64_t key) {
    size_t low = 0;
    uint64_t at;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        memcpy(&at, (const char *)rows + middle * row_bytes, sizeof at);
        if (at < key)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

#endif
