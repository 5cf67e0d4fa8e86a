/*
 * Rows in an array that grows.  Those of a sorted array begin with their key, of 64 bits.
 */
#pragma once

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

/* The place of the first of n sorted rows whose key is not below `key`; n: none. */
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

/* The row with this key; NULL: none. */
static inline void *cushim_rows_find(void *rows, size_t n, size_t row_bytes, uint64_t key) {
    size_t i = cushim_rows_place(rows, n, row_bytes, key);
    char *row = i < n ? (char *)rows + i * row_bytes : NULL;
    return row && memcmp(row, &key, sizeof key) == 0 ? row : NULL;
}

/* Insert a row by its key; false if host memory is out.  `rows` points to the pointer. */
static inline bool cushim_rows_insert(void *rows, size_t *n, size_t *cap, size_t row_bytes,
                                      const void *row) {
    uint64_t key;
    char *first;
    if (!cushim_rows_reserve(rows, *n, cap, row_bytes))
        return false;
    memcpy(&key, row, sizeof key);
    memcpy(&first, rows, sizeof first);
    size_t i = cushim_rows_place(first, *n, row_bytes, key);
    memmove(first + (i + 1) * row_bytes, first + i * row_bytes, ((*n)++ - i) * row_bytes);
    memcpy(first + i * row_bytes, row, row_bytes);
    return true;
}

static inline void cushim_rows_remove(void *rows, size_t *n, size_t row_bytes, void *row) {
    char *next = (char *)row + row_bytes;
    memmove(row, next, (size_t)((char *)rows + (*n)-- * row_bytes - next));
}
