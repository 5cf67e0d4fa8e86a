/* On a failure the examples print it and exit. */
#ifndef CUSHIM_EXAMPLES_TRY_H
#define CUSHIM_EXAMPLES_TRY_H

#include <stdio.h>
#include <stdlib.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != CUSHIM_OK) {                                                                 \
            fprintf(stderr, "%s\n", cushim_last_error());                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
