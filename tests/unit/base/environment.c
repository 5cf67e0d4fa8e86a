/* Variables are copied at the start and stay readable after the program removes them. */
#include "base/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static char seen[512];

static void see(const char *entry, void *unused) {
    size_t n = strlen(seen);
    (void)unused;
    snprintf(seen + n, sizeof seen - n, "%s;", entry);
}

static const char *all(void) {
    *seen = 0;
    cushim_environment_each(see, NULL);
    return seen;
}

TEST(only_our_variables_outlive_the_environment) {
    clearenv();
    setenv("CUSHIM_STATS", "%q{JOB}-%q{TWO}.json", 1);
    setenv("JOB", "a", 1);
    setenv("TWO", "b", 1);
    setenv("TW", "no", 1);
    setenv("RANK", "3", 1);
    setenv("XDG_RUNTIME_DIR", "/run", 1);
    setenv("SECRET", "no", 1);
    cushim_environment_note();
    clearenv();
    ck_assert_str_eq(all(), "CUSHIM_STATS=%q{JOB}-%q{TWO}.json;JOB=a;TWO=b;RANK=3;"
                            "XDG_RUNTIME_DIR=/run;");
    ck_assert_str_eq(cushim_environment("RANK"), "3");
    ck_assert_ptr_null(cushim_environment("RAN"));
    ck_assert_ptr_null(cushim_environment("SECRET"));
}

TEST(a_value_that_the_program_sets_comes_first) {
    clearenv();
    setenv("CUSHIM_LOG", "info", 1);
    setenv("CUSHIM_FREE", "relaxed", 1);
    cushim_environment_note();
    setenv("CUSHIM_LOG", "off", 1);
    unsetenv("CUSHIM_FREE");
    setenv("CUSHIM_LIMIT", "1G", 1);
    ck_assert_str_eq(cushim_environment("CUSHIM_LOG"), "off");
    ck_assert_str_eq(cushim_environment("CUSHIM_FREE"), "relaxed");
    ck_assert_str_eq(cushim_environment("CUSHIM_LIMIT"), "1G");
    ck_assert_str_eq(all(), "CUSHIM_LOG=off;CUSHIM_LIMIT=1G;CUSHIM_FREE=relaxed;");
}

TEST(without_our_variables_nothing_is_copied) {
    clearenv();
    setenv("RANK", "3", 1);
    cushim_environment_note();
    clearenv();
    ck_assert_str_eq(all(), "");
    ck_assert_ptr_null(cushim_environment("RANK"));
}

SUITE() {
    return tests_run("environment");
}
