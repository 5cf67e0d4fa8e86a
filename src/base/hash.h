/* Tables of rows that are found by a member, as uthash has them.  HASH_GET makes a row if there
 * is none. */
#pragma once

#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* Find the row whose `member` is `value`, which must be a variable, or add one with zeros in all
 * other members.  `row` is NULL if there is no memory. */
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
