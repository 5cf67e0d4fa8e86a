/* A suite whose only test is none here. */
#include "tests/unit/suite.h"

TEST_IF(false, what_is_never_run) {
    ck_abort();
}

SUITE() {
    return tests_run("nothing");
}
