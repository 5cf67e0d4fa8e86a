/* A suite whose process exits early with exit code 0. */
#include <stdio.h>

#include "tests/unit/suite.h"

SUITE() {
    puts("ok 1 - early_end.c:early_end:the_first: Passed");
    exit(EXIT_SUCCESS);
}
