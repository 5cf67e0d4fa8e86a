/*
 * The largest few of many rows, the largest first: an array of n of them, which begins as zeros.
 */
#pragma once

#include <string.h>

/* Put a row, by a pointer to it, where it belongs among them, if it does.  `value` is a macro or a
 * function that gives the value of a row. */
#define CUSHIM_KEEP_LARGEST(rows, n, row, value)                                                   \
    do {                                                                                           \
        size_t at_ = (n);                                                                          \
        while (at_ && value(row) > value(&(rows)[at_ - 1]))                                        \
            at_--;                                                                                 \
        if (at_ == (n))                                                                            \
            break;                                                                                 \
        memmove(&(rows)[at_ + 1], &(rows)[at_], ((n)-at_ - 1) * sizeof *(rows));                   \
        (rows)[at_] = *(row);                                                                      \
    } while (0)
