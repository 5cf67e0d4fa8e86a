/* The report for programs: strings stay strings, whatever is in them. */
#include "tests/unit/report/full_page.h"
#include "tests/unit/suite.h"

static struct cushim_report report;

START_TEST(hostile_names_are_escaped) {
    full_page(&report, 1);
    strcpy(report.page.head.program, "a\"b\\c\n<script>\xff");
    const char *text = full_page_written(cushim_report_json, &report);
    ck_assert_ptr_nonnull(strstr(text, "\"program\": \"a\\\"b\\\\c\\u000a\\u003cscript>\\ufffd\""));
    ck_assert_ptr_nonnull(strstr(text, "NVIDIA \\\"quoted\\\" \\\\ \\u0001 H200"));
    for (; *text; text++)
        ck_assert(*text == '\n' || (*text >= ' ' && *text <= '~'));
}
END_TEST

static void put_more(struct cushim_writer *out) {
    cushim_write(out, "  \"more\": 1,\n");
}

START_TEST(what_the_process_alone_knows_is_a_member) {
    ck_assert_ptr_null(strstr(full_page_written(cushim_report_json, &report), "more"));
    report.put_json = put_more;
    ck_assert_ptr_nonnull(
        strstr(full_page_written(cushim_report_json, &report), "\n  \"more\": 1,\n  \"bypassed\""));
}
END_TEST

SUITE() {
    return suite_run("report_json",
                     (const TTest *[]){hostile_names_are_escaped,
                                       what_the_process_alone_knows_is_a_member, NULL});
}
