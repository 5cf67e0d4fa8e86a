/* Tables of rows that are found by a member: uthash, with a row made where there is none. */
#ifndef CUSHIM_TOOLS_HASH_H
#define CUSHIM_TOOLS_HASH_H

#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* The row whose `member` is `value`, a variable.  A new one has zeros elsewhere, and is the last.
 * NULL: no memory. */
#define HASH_GET(rows, member, value, row)                                                         \
    do {                                                                                           \
        HASH_FIND(hh, rows, &(value), sizeof(value), row);                                         \
        if ((row) || !((row) = calloc(1, sizeof *(row))))                                          \
            break;                                                                                 \
        memcpy(&(row)->member, &(value), sizeof(value));                                           \
        HASH_ADD(hh, rows, member, sizeof(value), row);                                            \
        if (!(row)->hh.tbl) {                                                                      \
            free(row);                                                                             \
            (row) = NULL;                                                                          \
        }                                                                                          \
    } while (0)

#define HASH_FREE(rows)                                                                            \
    do {                                                                                           \
        __typeof__(rows) row, next;                                                                \
        HASH_ITER(hh, rows, row, next) {                                                           \
            HASH_DEL(rows, row);                                                                   \
            free(row);                                                                             \
        }                                                                                          \
    } while (0)

#endif
