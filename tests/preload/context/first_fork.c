/*
 * Forks while another thread makes the process's first CUDA call (interposition.md E).  The program
 * is linked to a driver that answers at once, so only we could make a child wait.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"

int cuInit(unsigned flags);

enum { N_ROUNDS = 60, MOST_CHILDREN = 8, N_IDLE = 4, GUARD_SECONDS = 20 };

static atomic_bool is_started, is_done;

static void *call_first(void *unused) {
    while (!atomic_load(&is_started)) {
    }
    cuInit(0);
    atomic_store(&is_done, true);
    return unused;
}

static void *idle(void *unused) {
    pause();
    return unused;
}

static bool has_ended_well(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* In a fresh process: the number of children that did not come back from a call of their own. */
static int fork_meanwhile(void) {
    pthread_t thread;
    pid_t children[MOST_CHILDREN];
    int n = 0, n_lost = 0;
    for (int i = 0; i < N_IDLE; i++)
        pthread_create(&thread, NULL, idle, NULL);
    pthread_create(&thread, NULL, call_first, NULL);
    atomic_store(&is_started, true);
    do {
        children[n] = fork();
        if (!children[n]) {
            alarm(GUARD_SECONDS); /* against a hang */
            _exit(cuInit(0));
        }
        n++;
    } while (!atomic_load(&is_done) && n < MOST_CHILDREN);
    for (int i = 0; i < n; i++)
        n_lost += !has_ended_well(children[i]);
    return n_lost;
}

TEST(a_child_forked_during_the_first_call_makes_its_own) {
    for (int round = 0; round < N_ROUNDS; round++) {
        pid_t fresh = fork();
        ck_assert_int_ge(fresh, 0);
        if (!fresh)
            _exit(fork_meanwhile());
        ck_assert(has_ended_well(fresh));
    }
}

int main(void) {
    return tests_run("first_fork");
}
