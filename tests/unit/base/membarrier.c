/* membarrier(2) under seccomp filters that a sandbox installs before or after cushim asks for
 * it. */
#include "base/membarrier.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"

enum { NO_FILTERS = 77 };

/* From here on this thread and its children get `action` for one system call; all other calls
 * pass. */
static void filter(long number, unsigned action) {
    struct sock_filter rows[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rows / sizeof *rows, rows};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(NO_FILTERS);
}

/* Filters cannot be removed, so each test runs in its own process. */
static void in_child(bool (*holds)(void)) {
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(holds() ? 0 : 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != NO_FILTERS)
        ck_assert_int_eq(WEXITSTATUS(status), 0);
}

static bool is_free(void) {
    return cushim_membarrier_ask() && !cushim_membarrier_is_judged() && cushim_membarrier_pass();
}

TEST(without_a_sandbox_the_barrier_works) {
    in_child(is_free);
}

static bool is_free_in_a_container(void) {
    filter(SYS_kexec_load, SECCOMP_RET_KILL_PROCESS);
    return is_free();
}

TEST(a_filter_from_before_the_first_call_changes_nothing) {
    in_child(is_free_in_a_container);
}

static bool is_seen_later(void) {
    bool was_free = is_free();
    filter(SYS_membarrier, SECCOMP_RET_KILL_PROCESS);
    return was_free && cushim_membarrier_is_judged();
}

TEST(a_later_filter_is_noticed_without_calling_the_barrier) {
    in_child(is_seen_later);
}

static bool is_seen_later_in_a_container(void) {
    filter(SYS_kexec_load, SECCOMP_RET_KILL_PROCESS);
    return is_seen_later();
}

TEST(a_second_filter_is_noticed_too) {
    in_child(is_seen_later_in_a_container);
}

static bool is_seen_without_files(void) {
    bool was_free = is_free();
    filter(SYS_openat, SECCOMP_RET_KILL_PROCESS);
    return was_free && cushim_membarrier_is_judged();
}

TEST(a_first_filter_is_noticed_without_opening_a_file) {
    in_child(is_seen_without_files);
}

SUITE() {
    return tests_run("membarrier");
}
