#include "base/backtrace.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/suite.h"

TEST(a_stack_has_the_callers_frames) {
    struct cushim_backtrace stack = {0};
    cushim_backtrace_take(&stack);
    ck_assert_int_gt(stack.n_frames, 2);
    ck_assert_int_le(stack.n_frames, CUSHIM_BACKTRACE_FRAMES);
}

TEST(an_address_in_no_object_is_a_number) {
    struct cushim_backtrace stack = {.n_frames = 1, .frames = {(void *)0x1234}};
    char text[CUSHIM_BACKTRACE_FRAME_BYTES];
    cushim_backtrace_text(&stack, 0, text);
    ck_assert_str_eq(text, "[0x1234]");
    ck_assert_int_eq(cushim_backtrace_first(&stack), 0);
}

TEST(a_function_of_a_library_has_its_name) {
    struct cushim_backtrace stack = {.n_frames = 1};
    char text[CUSHIM_BACKTRACE_FRAME_BYTES];
    int (*function)(const char *) = puts;
    memcpy(&stack.frames[0], &function, sizeof function);
    cushim_backtrace_text(&stack, 0, text);
    ck_assert_msg(strstr(text, "puts+0x0") != NULL, "%s", text);
}

TEST(an_empty_stack_has_no_frame) {
    struct cushim_backtrace stack = {0};
    ck_assert_int_eq(cushim_backtrace_first(&stack), stack.n_frames);
}

SUITE() {
    return tests_run("stack");
}
