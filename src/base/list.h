/* Lists that grow by one row at a time: rows, and how many there are. */
#pragma once

#include <stdlib.h>

/* Add a row to `rows`, and raise n; `row` is its address, or NULL if there is no memory.  The space
 * is doubled whenever n is a power of two.  The row's content is not set. */
#define LIST_ADD(rows, n, row)                                                                     \
    do {                                                                                           \
        void *grown =                                                                              \
            (n) & ((n)-1) ? (rows) : reallocarray(rows, (n) ? 2 * (n) : 1, sizeof *(rows));        \
        (row) = NULL;                                                                              \
        if (!grown)                                                                                \
            break;                                                                                 \
        (rows) = grown;                                                                            \
        (row) = &(rows)[(n)++];                                                                    \
    } while (0)
