/* The place and the name of a report. */
#include "report/report_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static struct cushim_report report;
static int n_ranks = 1;

TEST(words_are_descriptors_and_all_else_is_a_name) {
    ck_assert_int_eq(cushim_report_descriptor("stderr"), STDERR_FILENO);
    ck_assert_int_eq(cushim_report_descriptor("-"), STDOUT_FILENO);
    ck_assert_int_eq(cushim_report_descriptor("report.json"), -1);
}

/* The final name of a report in a folder that does not exist, so nothing is written. */
static const char *named(const char *where, bool is_apart) {
    static char path[PATH_MAX];
    report.page.head.process = 77;
    report.page.head.rank = 5;
    report.page.head.ranks = n_ranks;
    ck_assert_int_eq(cushim_report_write(where, "/no/such", is_apart, &report, path), ENOENT);
    return path;
}

TEST(reports_that_share_a_name_are_told_apart) {
    ck_assert_str_eq(named("a.b/report.json", false), "/no/such/a.b/report.json");
    ck_assert_str_eq(named("a.b/report.json", true), "/no/such/a.b/report-77.json");
    ck_assert_str_eq(named("a.b/report", true), "/no/such/a.b/report-77");
    ck_assert_str_eq(named("a.b/.report", true), "/no/such/a.b/.report-77");
    ck_assert_str_eq(named("a-%p.json", true), "/no/such/a-77.json");
    ck_assert_str_eq(named("a-%r.json", true), "/no/such/a-5.json");
    ck_assert_str_eq(named("folder/", false), "/no/such/folder//5-77-0.json");
}

TEST(ranks_of_one_job_have_names_of_their_own) {
    static const int many[] = {2, -1}; /* -1: their number is unknown */
    for (int i = 0; i < 2; i++) {
        n_ranks = many[i];
        ck_assert_str_eq(named("a.b/report.json", false), "/no/such/a.b/report-5.json");
        ck_assert_str_eq(named("a.b/report.json", true), "/no/such/a.b/report-5-77.json");
        ck_assert_str_eq(named("a-%p.json", false), "/no/such/a-77.json");
        ck_assert_str_eq(named("a-%r.json", true), "/no/such/a-5.json");
        ck_assert_str_eq(named("a-%q{NOBODY}.json", false), "/no/such/a-%q{NOBODY}.json");
        ck_assert_str_eq(named("folder/", false), "/no/such/folder//5-77-0.json");
    }
}

TEST(several_share_a_word_or_a_name_without_places) {
    ck_assert(cushim_report_is_shared("stderr", ""));
    ck_assert(cushim_report_is_shared("a-%%p.json", ""));
    ck_assert(!cushim_report_is_shared("a-%r.json", ""));
    ck_assert(!cushim_report_is_shared("a/", ""));
    ck_assert(!cushim_report_is_shared("/tmp", ""));
    ck_assert(!cushim_report_is_shared("tmp", "/"));
    ck_assert(!cushim_report_is_folder("", "/"));
}

TEST(a_name_that_is_too_long_is_an_error) {
    char where[PATH_MAX], path[PATH_MAX];
    memset(where, 'x', sizeof where - 1);
    where[sizeof where - 1] = 0;
    ck_assert_int_eq(cushim_report_write(where, "/no/such", false, &report, path), ENAMETOOLONG);
    ck_assert_str_eq(path, "");
    ck_assert_int_eq(cushim_report_write(where, "", true, &report, path), ENAMETOOLONG);
}

SUITE() {
    return tests_run("report_file");
}
