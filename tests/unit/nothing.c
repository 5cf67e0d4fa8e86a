/* A suite whose only test never runs. */
#include "tests/unit/suite.h"

TEST_IF(false, a_test_that_never_runs) {
    ck_abort();
}

SUITE() {
    return tests_run("nothing");
}
