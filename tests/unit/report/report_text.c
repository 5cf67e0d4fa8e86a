/* The report for people: 80 columns, whatever was counted, and nothing about what was not
 * counted. */
#include "base/utf8.h"
#include "tests/unit/report/full_page.h"
#include "tests/unit/suite.h"

static struct cushim_report report;
static struct cushim_page_head *const head = &report.page.head;

TEST(no_line_is_wider_than_80_columns) {
    const uint64_t numbers[] = {1, 1023, 1048575, 9999999};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        full_page(&report, numbers[i]);
        char *text = full_page_written(cushim_report_text, &report), *rest;
        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            ck_assert_msg(strlen(line) <= 80, "%zu: %s", strlen(line), line);
    }
}

TEST(what_was_not_counted_has_no_line) {
    strcpy(report.page.head.program, "train");
    strcpy(report.page.head.version, "0.1.0");
    report.page.head.process = 7;
    report.page.head.rank = -1;
    report.run_ns = 5;
    ck_assert_str_eq(full_page_written(cushim_report_text, &report),
                     "cushim 0.1.0: train, process 7, 5 ns\n\n"
                     "verdict: no device memory was asked for\n");
}

TEST(a_refused_request_was_a_request) {
    struct cushim_mem_stats *stats = &report.page.stats[0][CUSHIM_KIND_DEVICE];
    stats->n_refused = 2;
    const char *text = full_page_written(cushim_report_text, &report);
    ck_assert_msg(strstr(text, "verdict: there was no memory for 2 requests of device memory, and "
                               "no other came\n") != NULL,
                  "%s", text);
}

TEST(parts_of_what_is_held_stand_in_one_row) {
    struct cushim_mem_stats *stats = &report.page.stats[0][CUSHIM_KIND_DEVICE];
    stats->n_requests = stats->n_hits = 1;
    stats->held_bytes = stats->peak_held_bytes = 1000;
    stats->live_bytes = 300;
    stats->block_bytes = 512;
    stats->free_segment_bytes = 100;
    const char *row = strstr(full_page_written(cushim_report_text, &report), "  held ");
    ck_assert_ptr_nonnull(row);
    const char *wanted =
        "  held         in all =      live +  rounding +     spare +      idle  peak held\n"
        "  device       1000 B =     300 B +     212 B +     388 B +     100 B     1000 B\n";
    ck_assert_msg(strncmp(row, wanted, strlen(wanted)) == 0, "%.*s", 170, row);
}

/* The second line of a report. */
static const char *second_line(void) {
    return strchr(full_page_written(cushim_report_text, &report), '\n') + 1;
}

TEST(what_ran_takes_two_lines) {
    static const char wanted[] = "  ./train --epochs 3 'two words' '' 'it's'\n"
                                 "  on node7, driver of CUDA 13.0, free=relaxed, keep=64M\n\n";
    full_page_head(head);
    ck_assert_msg(strncmp(second_line(), wanted, sizeof wanted - 1) == 0, "%s", second_line());
}

TEST(where_it_runs_stands_in_the_heads) {
    full_page(&report, 1);
    const char *text = full_page_written(cushim_report_text, &report);
    ck_assert_ptr_nonnull(
        strstr(text, "cushim 0.1.0: train, process 4194304, rank 99999 of 100000, "));
    ck_assert_ptr_nonnull(strstr(text, " H200, 0000:1B:00.0\n"));
    head->ranks = -1;
    ck_assert_ptr_nonnull(strstr(full_page_written(cushim_report_text, &report), ", rank 99999, "));
}

TEST(a_name_alone_stands_in_the_first_line) {
    full_page_add_argument(head, "./train");
    ck_assert_int_eq(*second_line(), '\n');
}

/* A terminal shows them and does not obey them, and a line ends at the terminal's width. */
TEST(hostile_arguments_stay_in_their_line) {
    char word[200];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = 0;
    full_page_add_argument(head, "a\x1b[31m\nb\"");
    full_page_add_argument(head, "\xff\xfe<script>");
    full_page_add_argument(head, word);
    const char *text = second_line();
    ck_assert_ptr_eq(strchr(text, '\n'), text + 80);
    ck_assert_ptr_nonnull(strstr(text, "a?[31m?b\""));
    ck_assert_ptr_nonnull(strstr(text, "xx...\n"));
}

/* A character of several bytes at the end of the line is not left in half. */
TEST(no_half_of_a_character_is_left) {
    char word[400] = "";
    for (int i = 0; i < 99; i++)
        strcat(word, "\xe2\x82\xac");
    full_page_add_argument(head, "a");
    full_page_add_argument(head, word);
    const char *text = second_line();
    ck_assert_ptr_nonnull(strstr(text, "...\n"));
    while (*text)
        ck_assert_uint_ne(cushim_utf8_next(&text), CUSHIM_UTF8_BAD);
}

SUITE() {
    return tests_run("report_text");
}
