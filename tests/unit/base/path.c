#include "base/path.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static char out[256];

static void forget_ranks(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "MV2_COMM_WORLD_RANK",  "RANK",      "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

START_TEST(places_become_process_host_and_rank) {
    char host[256] = {0}, wanted[600];
    gethostname(host, sizeof host - 1);
    forget_ranks();
    setenv("RANK", "17", 1);
    snprintf(wanted, sizeof wanted, "a.%ld.%s.17.json", (long)getpid(), host);
    ck_assert(cushim_path_expand(out, sizeof out, "a.%p.%h.%r.json"));
    ck_assert_str_eq(out, wanted);
}
END_TEST

START_TEST(a_percent_sign_is_written_twice_and_an_unknown_place_stays) {
    ck_assert(cushim_path_expand(out, sizeof out, "100%% %q %"));
    ck_assert_str_eq(out, "100% %q %");
}
END_TEST

START_TEST(a_rank_is_the_launchers_number_or_the_process) {
    char process[24];
    forget_ranks();
    ck_assert(cushim_path_expand(out, sizeof out, "%r"));
    snprintf(process, sizeof process, "%ld", (long)getpid());
    ck_assert_str_eq(out, process);
    setenv("RANK", "../../etc", 1);
    setenv("SLURM_PROCID", "3", 1);
    ck_assert(cushim_path_expand(out, sizeof out, "%r"));
    ck_assert_str_eq(out, "3");
    setenv("OMPI_COMM_WORLD_RANK", "5", 1);
    ck_assert(cushim_path_expand(out, sizeof out, "%r"));
    ck_assert_str_eq(out, "5");
}
END_TEST

START_TEST(a_path_that_does_not_fit_is_refused_and_nothing_is_written_behind_it) {
    char small[8];
    memset(small, 'x', sizeof small);
    ck_assert(cushim_path_expand(small, 6, "12345"));
    ck_assert_str_eq(small, "12345");
    ck_assert(!cushim_path_expand(small, 6, "123456"));
    ck_assert(!cushim_path_expand(small, 2, "%p%p%p%p"));
    ck_assert_int_eq(small[6], 'x');
    ck_assert(!cushim_path_expand(small + 7, 0, ""));
    ck_assert_int_eq(small[7], 'x');
}
END_TEST

SUITE() {
    return suite_run(
        "path", (const TTest *[]){
                    places_become_process_host_and_rank,
                    a_percent_sign_is_written_twice_and_an_unknown_place_stays,
                    a_rank_is_the_launchers_number_or_the_process,
                    a_path_that_does_not_fit_is_refused_and_nothing_is_written_behind_it, NULL});
}
