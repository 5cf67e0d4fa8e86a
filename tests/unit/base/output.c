/* Output to the file descriptors of a program in which cushim is a guest. */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static int unnamed_file(void) {
    char name[] = P_tmpdir "/cushim-output-XXXXXX";
    int file = mkstemp(name);
    ck_assert_int_ge(file, 0);
    unlink(name);
    return file;
}

static off_t size_of(int file) {
    struct stat about;
    ck_assert_int_eq(fstat(file, &about), 0);
    return about.st_size;
}

static void check_pending(int number, int wanted) {
    sigset_t pending;
    sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, number), wanted);
}

TEST(a_pipe_that_nobody_reads_raises_no_signal) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    close(ends[0]);
    errno = EDOM;
    ck_assert_int_eq(cushim_output_write(ends[1], "text", 4), EPIPE);
    ck_assert_int_eq(errno, EDOM);
    check_pending(SIGPIPE, 0);
}

TEST(a_file_at_its_size_limit_raises_no_signal) {
    struct rlimit limit;
    int file = unnamed_file();
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 2;
    /* no assertion in between, because Check writes files too */
    int is_set = setrlimit(RLIMIT_FSIZE, &limit) == 0;
    int error = cushim_output_write(file, "text", 4);
    limit.rlim_cur = before;
    is_set &= setrlimit(RLIMIT_FSIZE, &limit) == 0;
    ck_assert(is_set);
    ck_assert_int_eq(error, EFBIG);
    ck_assert_int_eq(size_of(file), 2);
    check_pending(SIGXFSZ, 0);
}

TEST(a_pending_signal_of_the_program_stays_pending) {
    sigset_t blocked, now;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    close(ends[0]);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    raise(SIGPIPE);
    ck_assert_int_eq(cushim_output_write(ends[1], "text", 4), EPIPE);
    check_pending(SIGPIPE, 1);
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    ck_assert_int_eq(sigismember(&now, SIGPIPE), 1);
    ck_assert_int_eq(sigismember(&now, SIGXFSZ), 0);
}

TEST(a_full_disk_is_an_error) {
    int full = open("/dev/full", O_WRONLY);
    ck_assert_int_ge(full, 0);
    ck_assert_int_eq(cushim_output_write(full, "text", 4), ENOSPC);
}

/* The test's process may close descriptors, because Check's messages do not use them. */
TEST(a_saved_descriptor_that_became_another_file_is_left_alone) {
    int first = unnamed_file(), second = unnamed_file();
    dup2(first, STDERR_FILENO);
    close(STDOUT_FILENO);
    ck_assert_int_eq(cushim_output_write(STDERR_FILENO, "text", 4), 0);
    cushim_output_note();
    ck_assert_int_eq(cushim_output_write(STDERR_FILENO, "text", 4), 0);
    ck_assert_int_eq(size_of(first), 8);
    dup2(second, STDERR_FILENO);
    ck_assert_int_eq(cushim_output_write(STDERR_FILENO, "text", 4), EBADF);
    ck_assert_int_eq(size_of(second), 0);
    ck_assert_int_eq(cushim_output_write(second, "text", 4), 0); /* a file of ours */
    dup2(first, STDERR_FILENO);
    ck_assert_int_eq(cushim_output_write(STDERR_FILENO, "text", 4), 0);
    ck_assert_int_eq(size_of(first), 12);
    dup2(second, STDOUT_FILENO); /* it was closed when the descriptors were saved */
    ck_assert_int_eq(cushim_output_write(STDOUT_FILENO, "text", 4), EBADF);
}

/* This test decides which descriptors are free; Check's messages do not use them. */
TEST(our_files_never_get_a_standard_descriptor) {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    for (int i = 0; i < 2; i++) {
        int file = unnamed_file();
        ck_assert_int_le(file, STDERR_FILENO);
        errno = EDOM;
        int aside = cushim_output_aside(file);
        ck_assert_int_eq(errno, EDOM);
        ck_assert_int_gt(aside, STDERR_FILENO);
        ck_assert_int_eq(fcntl(aside, F_GETFD), FD_CLOEXEC);
        ck_assert_int_eq(fcntl(file, F_GETFD), -1);
        ck_assert_int_eq(cushim_output_aside(aside), aside);
    }
    ck_assert_int_eq(cushim_output_aside(-1), -1);
}

SUITE() {
    return tests_run("output");
}
