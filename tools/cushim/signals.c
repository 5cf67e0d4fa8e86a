#include "tools/cushim/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static volatile sig_atomic_t child, has_come[NSIG];

static void take(int number, siginfo_t *about, void *unused) {
    int saved_errno = errno;
    bool is_of_terminal = about->si_code > 0 || number == SIGINT || number == SIGQUIT;
    (void)unused;
    has_come[number] = 1;
    if (child && !is_of_terminal)
        kill((pid_t)child, number);
    errno = saved_errno;
}

static const int taken[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGINT, SIGQUIT};
enum { N_TAKEN = sizeof taken / sizeof *taken };

/* What this process inherited. */
static struct sigaction inherited[N_TAKEN];
static sigset_t blocked;

void signals_take(void) {
    struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &blocked);
    for (int i = 0; i < N_TAKEN; i++) {
        sigaction(taken[i], NULL, &inherited[i]);
        if (inherited[i].sa_handler != SIG_IGN)
            sigaction(taken[i], &action, NULL);
    }
}

void signals_pass_to(pid_t process) {
    child = process;
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

void signals_give_back(void) {
    for (int i = 0; i < N_TAKEN; i++)
        sigaction(taken[i], &inherited[i], NULL);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

bool signals_have(int number) {
    return has_come[number];
}

void signals_end_by(int number) {
    sigset_t only;
    fflush(NULL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(number, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
    _exit(128 + number);
}
