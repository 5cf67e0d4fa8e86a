/* Starts the program again as a new process, because CUDA does not survive a fork. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/companion/fixture.h"

static const char mark[] = "--child";

int fixture_child(const char *word, char *said, size_t cap_bytes) {
    int pipes[2], state = 0;
    size_t n = 0;
    ssize_t got;
    ck_assert_int_eq(pipe(pipes), 0);
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        dup2(pipes[1], STDOUT_FILENO);
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        execl("/proc/self/exe", "child", mark, word, (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    while ((got = read(pipes[0], said + n, cap_bytes - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = 0;
    close(pipes[0]);
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

const char *fixture_child_word(int argc, char **argv) {
    return argc == 3 && strcmp(argv[1], mark) == 0 ? argv[2] : NULL;
}
