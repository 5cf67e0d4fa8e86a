/*
 * A file is a suite of its tests, in their order:
 *
 *     TEST(a_block_is_found) {
 *         ck_assert_ptr_nonnull(find());
 *     }
 *
 *     SUITE() {
 *         return tests_run("block");
 *     }
 *
 * The suites of many folders form one program, whose main is in suite_main.c and runs the suites
 * that are named.  A suite that is its own program has `int main(void)` instead of SUITE().  The
 * output is TAP if CK_TAP_LOG_FILE_NAME is set.
 */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct suite {
    const char *file;
    int (*run)(void);
    struct suite *next;
};

/* Called before main: adds this suite to the program. */
void suite_enlist(struct suite *suite);

#define SUITE()                                                                                    \
    static int suite_here(void);                                                                   \
    __attribute__((constructor)) static void suite_enlist_here(void) {                             \
        static struct suite here = {__FILE__, suite_here, NULL};                                   \
        suite_enlist(&here);                                                                       \
    }                                                                                              \
    static int suite_here(void)

/* Check makes a system call for each assertion that holds, to report after which one a test died:
 * half a million calls in some tests.  Define SUITE_MARKS to debug such a death. */
#ifndef SUITE_MARKS
#define _mark_point(file, line) ((void)0)
#endif

/* A test with the members that its TEST sets. */
struct test {
    const TTest *test;
    bool is_wanted;
    int first, n;   /* it runs for _i = first .. n - 1; once if n is 0 */
    unsigned needs; /* bits whose meaning a fixture defines */
};

struct test_row {
    struct test (*get)(void);
    int line;
    struct test_row *next;
};

static struct test_row *test_rows; /* the tests of this file */

/* Called before main, in an order that the compiler chooses. */
static inline void test_enlist(struct test_row *row) {
    struct test_row **at = &test_rows;
    while (*at && (*at)->line < row->line)
        at = &(*at)->next;
    row->next = *at;
    *at = row;
}

/*
 * `TEST(name) { }` is a test.  Members of struct test may follow the name: TEST(name, .n = N_MODES)
 * runs for _i = 0 ..  N_MODES - 1.  TEST_IF(condition, name) is a test only if the condition holds
 * when the suite runs, because a test that returns early counts as passed.
 */
#define TEST(...)    TEST_OF(true, __VA_ARGS__, )
#define TEST_IF(...) TEST_OF(__VA_ARGS__, )
#define TEST_OF(condition, name, ...)                                                              \
    static const TTest *name;                                                                      \
    static struct test name##_get(void) {                                                          \
        return (struct test){.test = name, .is_wanted = (condition), __VA_ARGS__};                 \
    }                                                                                              \
    static struct test_row name##_row = {name##_get, __LINE__, NULL};                              \
    __attribute__((constructor)) static void name##_enlist(void) {                                 \
        test_enlist(&name##_row);                                                                  \
    }                                                                                              \
    START_TEST(name)

/* Runs the tests of this file as the suite of this name and returns the program's exit code.  It
 * fails if no test ran; the time-out only turns a hang into a failure. */
static inline int tests_run(const char *name) {
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 240);
    for (struct test_row *row = test_rows; row; row = row->next) {
        struct test test = row->get();
        if (test.is_wanted && test.n > 0)
            tcase_add_loop_test(tcase, test.test, test.first, test.n);
        else if (test.is_wanted)
            tcase_add_test(tcase, test.test);
    }
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    bool is_well = srunner_ntests_run(runner) > 0 && srunner_ntests_failed(runner) == 0;
    srunner_free(runner);
    return is_well ? EXIT_SUCCESS : EXIT_FAILURE;
}

static inline unsigned suite_share(unsigned n, const char *variable) {
    const char *pct = getenv(variable);
    return pct ? (unsigned)((uint64_t)n * strtoul(pct, NULL, 10) / 100) : n;
}

/* The steps that a test of n steps takes: TEST_STEPS_PCT percent of them.  Memcheck and sanitizers
 * need to see all code that the steps reach, but not all steps. */
static inline unsigned suite_steps(unsigned n) {
    return suite_share(n, "TEST_STEPS_PCT");
}

/* The turns that each thread of a race takes: TEST_TURNS_PCT percent of n.  Memcheck runs one
 * thread at a time, so that no race happens, and TSan finds a race by what orders two accesses, not
 * by chance, so that it needs fewer turns. */
static inline unsigned suite_turns(unsigned n) {
    return suite_share(n, "TEST_TURNS_PCT");
}

/* A seeded stream of numbers (xorshift): the same on every machine. */
static inline uint64_t suite_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
