#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "tests/unit/base/stderr.h"
#include "tests/unit/suite.h"

static struct caught caught;

/* The text behind "cushim[pid] ". */
static const char *said(void) {
    char head[32];
    int n = snprintf(head, sizeof head, "cushim[%ld] ", (long)getpid());
    caught_end(&caught);
    ck_assert_int_eq(strncmp(caught.text, head, (size_t)n), 0);
    return caught.text + n;
}

TEST(a_line_names_process_level_and_noun) {
    caught_begin(&caught);
    cushim_log(CUSHIM_LOG_WARN, "pool", "held=%zu", (size_t)42);
    ck_assert_str_eq(said(), "warn pool: held=42\n");
    ck_assert_uint_eq(caught.n_reads, 1);
}

TEST(every_conversion_prints_as_printf_would) {
    caught_begin(&caught);
    cushim_log(CUSHIM_LOG_ERROR, "x", "%s|%d|%d|%u|%ld|%lu|%zu|%x|%lx|%p|%%", "text", INT_MIN, 7,
               UINT_MAX, LONG_MIN, ULONG_MAX, (size_t)0, 0xbeefu, 0xfeedfacecafeul,
               (void *)0x7f00dead);
    ck_assert_str_eq(said(), "error x: text|-2147483648|7|4294967295|-9223372036854775808|"
                             "18446744073709551615|0|beef|feedfacecafe|0x7f00dead|%\n");
}

TEST(a_null_text_prints_as_null_and_a_line_feed_as_a_space) {
    const char *volatile nothing = NULL;
    caught_begin(&caught);
    cushim_log(CUSHIM_LOG_INFO, "x", "%s %s", nothing, "two\nlines");
    ck_assert_str_eq(said(), "info x: (null) two lines\n");
}

TEST(a_long_line_is_cut_at_512_bytes_and_still_ends) {
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    caught_begin(&caught);
    cushim_log(CUSHIM_LOG_DEBUG, "x", "%s%d", text, 1);
    caught_end(&caught);
    ck_assert_uint_eq(strlen(caught.text), 512);
    ck_assert_int_eq(caught.text[511], '\n');
    ck_assert_int_eq(caught.text[510], 'a');
    ck_assert_uint_eq(caught.n_reads, 1);
}

TEST(control_characters_are_shown_as_question_marks) {
    caught_begin(&caught);
    cushim_log(CUSHIM_LOG_ERROR, "x", "CUSHIM_%s=%s", "A\033[31m", "\r\303\251\302\233\377");
    caught_end(&caught);
    ck_assert_ptr_nonnull(strstr(caught.text, " error x: CUSHIM_A?[31m=?\303\251???\n"));
}

TEST(errno_is_left_as_it_was) {
    int saved = dup(STDERR_FILENO);
    close(STDERR_FILENO); /* the write fails */
    errno = EDOM;
    cushim_log(CUSHIM_LOG_ERROR, "x", "lost");
    int seen = errno;
    dup2(saved, STDERR_FILENO);
    ck_assert_int_eq(seen, EDOM);
}

TEST(a_level_that_is_off_writes_nothing_and_evaluates_nothing) {
    int n_evaluated = 0;
    cushim_log_set_level(CUSHIM_LOG_WARN);
    caught_begin(&caught);
    log_info("x", "%d", ++n_evaluated);
    log_debug("x", "%d", ++n_evaluated);
    log_warn("x", "%d", ++n_evaluated);
    log_error("x", "%d", ++n_evaluated);
    cushim_log_set_level(CUSHIM_LOG_OFF);
    log_error("x", "%d", ++n_evaluated);
    caught_end(&caught);
    ck_assert_int_eq(n_evaluated, 2);
    ck_assert_uint_eq(caught.n_reads, 2);
    ck_assert_ptr_nonnull(strstr(caught.text, "warn x: 1\n"));
    ck_assert_ptr_nonnull(strstr(caught.text, "error x: 2\n"));
}

TEST(standard_output_is_never_written) {
    int ends[2];
    char byte;
    ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    caught_begin(&caught);
    cushim_log(CUSHIM_LOG_ERROR, "x", "here");
    caught_end(&caught);
    dup2(saved, STDOUT_FILENO);
    ck_assert_int_eq(read(ends[0], &byte, 1), -1);
    ck_assert_uint_eq(caught.n_reads, 1);
}

SUITE() {
    return tests_run("log");
}
