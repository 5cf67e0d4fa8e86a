/* A suite that ends in the middle and says that all is well. */
#include <stdio.h>

#include "tests/unit/suite.h"

SUITE() {
    puts("ok 1 - early_end.c:early_end:the_first: Passed");
    exit(EXIT_SUCCESS);
}
