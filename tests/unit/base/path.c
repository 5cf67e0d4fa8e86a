#include "base/path.h"

#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static char out[256];

/* As a process of this number expands it, with the rank that the environment gives. */
static bool expand(char *text, size_t cap, const char *pattern) {
    return cushim_path_expand(text, cap, pattern,
                              &(struct cushim_path_places){4711, cushim_path_rank(), 3});
}

static void forget_ranks(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "MV2_COMM_WORLD_RANK",  "RANK",      "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

TEST(placeholders_become_process_host_and_rank) {
    char host[256] = {0}, wanted[600];
    gethostname(host, sizeof host - 1);
    forget_ranks();
    setenv("RANK", "17", 1);
    snprintf(wanted, sizeof wanted, "a.4711.%s.17.3.json", host);
    ck_assert(expand(out, sizeof out, "a.%p.%h.%r.%n.json"));
    ck_assert_str_eq(out, wanted);
}

TEST(a_percent_sign_is_written_twice_and_an_unknown_placeholder_stays) {
    ck_assert(expand(out, sizeof out, "100%% %q %"));
    ck_assert_str_eq(out, "100% %q %");
}

TEST(a_rank_is_the_launchers_number_or_the_process) {
    forget_ranks();
    ck_assert_int_eq(cushim_path_rank(), -1);
    ck_assert(expand(out, sizeof out, "%r"));
    ck_assert_str_eq(out, "4711");
    setenv("RANK", "../../etc", 1);
    setenv("PMI_RANK", "12345678901234567890", 1);
    setenv("SLURM_PROCID", "3", 1);
    ck_assert(expand(out, sizeof out, "%r"));
    ck_assert_str_eq(out, "3");
    setenv("OMPI_COMM_WORLD_RANK", "5", 1);
    ck_assert(expand(out, sizeof out, "%r"));
    ck_assert_str_eq(out, "5");
}

TEST(the_number_of_ranks_comes_from_the_same_launcher_as_the_rank) {
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                           {"RANK", "WORLD_SIZE"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"}};
    enum { N = sizeof names / sizeof *names };
    forget_ranks();
    for (size_t i = 0; i < N; i++)
        setenv(names[i][1], "100", 1);
    ck_assert_int_eq(cushim_path_ranks(), -1);
    for (size_t i = 0; i < N; i++) {
        setenv(names[i][0], "3", 1);
        setenv(names[i][1], "8", 1);
        ck_assert_int_eq(cushim_path_ranks(), 8);
        setenv(names[i][1], "many", 1);
        ck_assert_int_eq(cushim_path_ranks(), -1);
        forget_ranks();
    }
    setenv("PMIX_RANK", "3", 1); /* which has no such variable */
    ck_assert_int_eq(cushim_path_ranks(), -1);
    forget_ranks();
}

TEST(a_path_that_does_not_fit_is_refused_and_writes_nothing_past_the_end) {
    char small[8];
    memset(small, 'x', sizeof small);
    ck_assert(expand(small, 6, "12345"));
    ck_assert_str_eq(small, "12345");
    ck_assert(!expand(small, 6, "123456"));
    ck_assert(!expand(small, 2, "%p%p%p%p"));
    ck_assert_int_eq(small[6], 'x');
    ck_assert(!expand(small + 7, 0, ""));
    ck_assert_int_eq(small[7], 'x');
}

TEST(a_variable_adds_no_folder_and_an_unset_one_stays) {
    setenv("PATH_TEST", "../a b", 1);
    unsetenv("PATH_NONE");
    ck_assert(expand(out, sizeof out, "x-%q{PATH_TEST}-%q{PATH_NONE}-%q{}-%q{PATH_TEST"));
    ck_assert_str_eq(out, "x-.._a b-%q{PATH_NONE}-%q{}-%q{PATH_TEST");
    setenv("PATH_TEST", "0123456789", 1);
    ck_assert(!expand(out, 10, "%q{PATH_TEST}"));
}

TEST(a_pattern_with_a_placeholder_is_recognised) {
    ck_assert(cushim_path_has("a-%p", "pr"));
    ck_assert(cushim_path_has("%%%r", "pr"));
    ck_assert(!cushim_path_has("%%p %h %", "pr"));
    ck_assert(!cushim_path_has("", "p"));
    static const char *const apart[][2] = {{"report.json", "report-%p.json"},
                                           {"a.b/c", "a.b/c-%p"},
                                           {".x", ".x-%p"},
                                           {"a/.x", "a/.x-%p"}};
    char text[16];
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        ck_assert(cushim_path_tell_apart(text, sizeof text, apart[i][0], "%p"));
        ck_assert_str_eq(text, apart[i][1]);
    }
    ck_assert(!cushim_path_tell_apart(text, sizeof text, "reports.jsonl", "%p"));
}

TEST(variables_of_launchers_are_recognised) {
    static const char *const ours[] = {"RANK=1", "WORLD_SIZE=", "SLURM_PROCID=0", "PMI_SIZE=2"};
    static const char *const others[] = {"RANK", "RANKS=1", "MY_RANK=1", "=", "", "SLURM_JOB_ID=1"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        ck_assert_msg(cushim_path_is_of_launcher(ours[i]), "%s", ours[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!cushim_path_is_of_launcher(others[i]), "%s", others[i]);
}

SUITE() {
    return tests_run("path");
}
