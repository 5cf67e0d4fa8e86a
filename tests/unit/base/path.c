#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static char out[256];

static void forget_ranks(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "MV2_COMM_WORLD_RANK",  "RANK",      "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

/* A folder that is gone when the test's process ends would need care: tests remove what they make.
 */
static void in_folder(char *folder) {
    strcpy(folder, "cushim-path-XXXXXX");
    const char *root = getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir;
    ck_assert_int_eq(chdir(root), 0);
    ck_assert_ptr_nonnull(mkdtemp(folder));
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

START_TEST(a_rank_is_the_launchers_number_or_0) {
    forget_ranks();
    ck_assert(cushim_path_expand(out, sizeof out, "%r"));
    ck_assert_str_eq(out, "0");
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

START_TEST(a_file_is_made_for_its_owner_alone_and_emptied) {
    char folder[32];
    struct stat about;
    in_folder(folder);
    snprintf(out, sizeof out, "%s/report", folder);
    umask(0);
    for (int i = 0; i < 2; i++) {
        int file = cushim_path_create(out);
        ck_assert_int_ge(file, 0);
        ck_assert_int_eq(fstat(file, &about), 0);
        ck_assert_uint_eq(about.st_mode & 0777, 0600);
        ck_assert_int_eq(about.st_size, 0);
        ck_assert_int_eq(fcntl(file, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        ck_assert_int_eq(write(file, "text", 4), 4);
        close(file);
    }
    unlink(out);
    rmdir(folder);
}
END_TEST

START_TEST(a_link_is_never_written_through) {
    char folder[32], link[64];
    struct stat about;
    in_folder(folder);
    snprintf(out, sizeof out, "%s/victim", folder);
    snprintf(link, sizeof link, "%s/report", folder);
    int file = open(out, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_eq(write(file, "kept", 4), 4);
    close(file);
    ck_assert_int_eq(symlink("victim", link), 0);
    ck_assert_int_eq(cushim_path_create(link), -1);
    ck_assert_int_eq(errno, ELOOP);
    ck_assert_int_eq(stat(out, &about), 0);
    ck_assert_int_eq(about.st_size, 4);
    unlink(link);
    unlink(out);
    rmdir(folder);
}
END_TEST

START_TEST(a_pipe_without_a_reader_does_not_hang_the_program) {
    char folder[32];
    in_folder(folder);
    snprintf(out, sizeof out, "%s/pipe", folder);
    ck_assert_int_eq(mkfifo(out, 0600), 0);
    ck_assert_int_eq(cushim_path_create(out), -1);
    ck_assert_int_eq(errno, ENXIO);
    unlink(out);
    rmdir(folder);
}
END_TEST

int main(void) {
    return suite_run(
        "path", (const TTest *[]){
                    places_become_process_host_and_rank,
                    a_percent_sign_is_written_twice_and_an_unknown_place_stays,
                    a_rank_is_the_launchers_number_or_0,
                    a_path_that_does_not_fit_is_refused_and_nothing_is_written_behind_it,
                    a_file_is_made_for_its_owner_alone_and_emptied, a_link_is_never_written_through,
                    a_pipe_without_a_reader_does_not_hang_the_program, NULL});
}
