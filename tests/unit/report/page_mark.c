/* Marks: the last ones are there, whole; whatever is in a page, a reader gets a line of text. */
#include "report/page_mark.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/suite.h"

static struct cushim_page page;

static void put(unsigned i) {
    struct cushim_page_mark mark = {.ns = i, .live_bytes = 2 * i, .held_bytes = 3 * i};
    snprintf(mark.name, sizeof mark.name, "mark %u", i);
    cushim_page_mark_put(&page, &mark);
}

TEST(the_last_marks_are_kept_in_order) {
    struct cushim_page_mark mark;
    char name[16];
    ck_assert(!cushim_page_mark_get(&page, 0, &mark));
    for (unsigned i = 1; i <= CUSHIM_PAGE_MARKS + 5; i++)
        put(i);
    for (unsigned i = 0; i < CUSHIM_PAGE_MARKS; i++) {
        ck_assert(cushim_page_mark_get(&page, i, &mark));
        snprintf(name, sizeof name, "mark %u", i + 6);
        ck_assert_str_eq(mark.name, name);
        ck_assert_uint_eq(mark.ns, i + 6);
        ck_assert_uint_eq(mark.held_bytes, 3 * (i + 6));
    }
    ck_assert(!cushim_page_mark_get(&page, CUSHIM_PAGE_MARKS, &mark));
}

TEST(a_mark_that_is_being_written_is_left_out) {
    struct cushim_page_mark mark;
    put(1);
    put(2);
    page.marks[1][CUSHIM_PAGE_ROW(cushim_page_mark) - 1] = CUSHIM_PAGE_MARKS + 2;
    ck_assert(cushim_page_mark_get(&page, 0, &mark));
    ck_assert(!cushim_page_mark_get(&page, 1, &mark));
    page.marks[0][0] = 0;
    ck_assert(!cushim_page_mark_get(&page, 0, &mark));
}

TEST(any_bytes_are_a_line_of_text) {
    struct cushim_page_mark mark = {.name = "red \x1b[31m\n end"};
    cushim_page_mark_put(&page, &mark);
    ck_assert(cushim_page_mark_get(&page, 0, &mark));
    ck_assert_str_eq(mark.name, "red ?[31m? end");
    memset(&page.marks[0][4], 0xff, sizeof mark.name);
    ck_assert(cushim_page_mark_get(&page, 0, &mark));
    ck_assert_uint_eq(strspn(mark.name, "?"), sizeof mark.name - 1);
    page.n_marks = UINT64_MAX;
    for (unsigned i = 0; i < 2 * CUSHIM_PAGE_MARKS; i++)
        cushim_page_mark_get(&page, i, &mark);
}

SUITE() {
    return tests_run("page_mark");
}
