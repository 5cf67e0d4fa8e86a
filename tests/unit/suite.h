/*
 * A file is a suite: `SUITE() { return suite_run("block", (const TTest *[]){a, b, NULL}); }`.  The
 * suites of many folders are one program, whose main is suite_main.c: it runs those that are named.
 * The output is TAP where CK_TAP_LOG_FILE_NAME says so.
 */
#ifndef CUSHIM_TESTS_UNIT_SUITE_H
#define CUSHIM_TESTS_UNIT_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct suite {
    const char *file;
    int (*run)(void);
    struct suite *next;
};

/* Before main: the program has this suite, too. */
void suite_enlist(struct suite *suite);

#define SUITE()                                                                                    \
    static int suite_here(void);                                                                   \
    __attribute__((constructor)) static void suite_enlist_here(void) {                             \
        static struct suite here = {__FILE__, suite_here, NULL};                                   \
        suite_enlist(&here);                                                                       \
    }                                                                                              \
    static int suite_here(void)

/* Check notes each assertion that held by a system call, to say after which one a test died: half a
 * million in some tests.  Who debugs such a death defines SUITE_MARKS. */
#ifndef SUITE_MARKS
#define _mark_point(file, line) ((void)0)
#endif

/* `tests` ends with NULL.  The timeout is only there so that a hang is a failure. */
static inline int suite_run(const char *name, const TTest *const *tests) {
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 240);
    for (; *tests; tests++)
        tcase_add_test(tcase, *tests);
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

/* How many of so many steps a test is to take: TEST_STEPS_PCT of them.  That is for memcheck and
 * sanitizers, which are to see all that the steps reach; their number is for the plain run. */
static inline unsigned suite_steps(unsigned n) {
    return suite_share(n, "TEST_STEPS_PCT");
}

/* How many of so many turns each of the threads of a race is to take: TEST_TURNS_PCT of them.  That
 * is for memcheck, under which one thread runs at a time and nobody meets anybody. */
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

#endif
