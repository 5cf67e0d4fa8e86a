#include "tools/cushim/signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t child;

static void pass_on(int number, siginfo_t *about, void *unused) {
    int saved_errno = errno;
    (void)unused;
    if (child && about->si_code <= 0) /* another process sent it */
        kill((pid_t)child, number);
    errno = saved_errno;
}

static const int passed_on[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM};
enum { N_PASSED_ON = sizeof passed_on / sizeof *passed_on };

/* What this process inherited. */
static struct sigaction inherited[N_PASSED_ON], interrupt, quit;
static sigset_t blocked;

void signals_take(void) {
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &blocked);
    for (int i = 0; i < N_PASSED_ON; i++) {
        sigaction(passed_on[i], NULL, &inherited[i]);
        if (inherited[i].sa_handler != SIG_IGN)
            sigaction(passed_on[i], &action, NULL);
    }
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
}

void signals_pass_to(pid_t process) {
    child = process;
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

void signals_give_back(void) {
    for (int i = 0; i < N_PASSED_ON; i++)
        sigaction(passed_on[i], &inherited[i], NULL);
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}
