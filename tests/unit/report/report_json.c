/* The report for programs: strings stay strings, whatever is in them. */
#include "tests/unit/report/full_page.h"
#include "tests/unit/suite.h"

static struct cushim_report report;
static struct cushim_page_head *const head = &report.page.head;

TEST(hostile_names_are_escaped) {
    full_page(&report, 1);
    strcpy(report.page.head.program, "a\"b\\c\n<script>\xff\xf0\x9f\x98\x80");
    const char *text = full_page_written(cushim_report_json, &report);
    ck_assert_ptr_nonnull(
        strstr(text, "\"program\": \"a\\\"b\\\\c\\u000a\\u003cscript>\\ufffd\\ud83d\\ude00\""));
    ck_assert_ptr_nonnull(strstr(text, "NVIDIA \\\"quoted\\\" \\\\ \\u0001 H200"));
    for (; *text; text++)
        ck_assert(*text == '\n' || (*text >= ' ' && *text <= '~'));
}

static void put_more(struct cushim_writer *out) {
    cushim_write(out, "  \"more\": 1,\n");
}

TEST(what_the_process_alone_knows_is_a_member) {
    ck_assert_ptr_null(strstr(full_page_written(cushim_report_json, &report), "more"));
    report.put_json = put_more;
    ck_assert_ptr_nonnull(
        strstr(full_page_written(cushim_report_json, &report), "\n  \"more\": 1,\n  \"bypassed\""));
}

TEST(what_ran_is_members) {
    full_page_head(head);
    ck_assert_ptr_nonnull(strstr(
        full_page_written(cushim_report_json, &report),
        "  \"host\": \"node7\",\n"
        "  \"boot\": \"0f8fad5b-d9cb-469f-a165-70867728950e\",\n"
        "  \"start_ns\": 1000,\n"
        "  \"folder\": \"/srv/run \\\"1\\\"\",\n"
        "  \"arguments\": [\"./train\", \"--epochs\", \"3\", \"two words\", \"\", \"it's\"],\n"
        "  \"options\": [\"free=relaxed\", \"keep=64M\"],\n"
        "  \"driver_version\": 13000,\n"));
    head->n_argument_bytes = 0;
    full_page_add_argument(head, "a\x1b[31m\nb\"");
    full_page_add_argument(head, "\xff\xfe<script>");
    ck_assert_ptr_nonnull(
        strstr(full_page_written(cushim_report_json, &report),
               "\"arguments\": [\"a\\u001b[31m\\u000ab\\\"\", \"\\ufffd\\ufffd\\u003cscript>\"]"));
}

SUITE() {
    return tests_run("report_json");
}
