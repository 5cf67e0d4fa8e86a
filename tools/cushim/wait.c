#include "tools/cushim/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/options.h"
#include "base/output.h"
#include "report/report_file.h"
#include "tools/cushim/launch.h"
#include "tools/cushim/options.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/usage.h"

/* ---- signals ---- */

static volatile sig_atomic_t child; /* 0: not started yet, or over */

/* Who sends a signal to this process means the program; what the terminal sends both have. */
static void pass_on(int number, siginfo_t *about, void *unused) {
    int saved_errno = errno;
    (void)unused;
    if (child && about->si_code <= 0)
        kill((pid_t)child, number);
    errno = saved_errno;
}

static const int passed_on[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM};
enum { N_PASSED_ON = sizeof passed_on / sizeof *passed_on };

/* What the program shall find, and this process has while it waits. */
static struct sigaction inherited[N_PASSED_ON], interrupt, quit;
static sigset_t blocked;

static void watch_signals(void) {
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &blocked); /* until the child is known */
    for (int i = 0; i < N_PASSED_ON; i++) {
        sigaction(passed_on[i], NULL, &inherited[i]);
        if (inherited[i].sa_handler != SIG_IGN)
            sigaction(passed_on[i], &action, NULL);
    }
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
}

static void give_signals_back(void) {
    for (int i = 0; i < N_PASSED_ON; i++)
        sigaction(passed_on[i], &inherited[i], NULL);
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

/* ---- the program ---- */

static void become(char **argv, int failed) {
    give_signals_back();
    if (launch_mark(settings_want_report()))
        execvp(argv[0], argv);
    int error = errno;
    if (write(failed, &error, sizeof error) != sizeof error)
        _exit(EXIT_OURS);
    _exit(EXIT_CANNOT);
}

/* 0, or an errno: it could not be started. */
static int start(char **argv) {
    int pipes[2], error = 0;
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return errno;
    watch_signals();
    pid_t process = fork();
    if (process == 0)
        become(argv, pipes[1]);
    error = process < 0 ? errno : 0;
    child = process < 0 ? 0 : process;
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    close(pipes[1]);
    ssize_t n = 0;
    while (!error && (n = read(pipes[0], &error, sizeof error)) < 0 && errno == EINTR) {
    }
    close(pipes[0]);
    if (error && process > 0)
        waitpid(process, NULL, 0);
    return error;
}

/* Its end; children that others left to us, as in a container, are buried on the way. */
static int wait_for_end(void) {
    int status = 0;
    for (;;) {
        pid_t ended = waitpid(-1, &status, 0);
        if (ended == (pid_t)child || (ended < 0 && errno != EINTR))
            return status;
    }
}

/* ---- reports ---- */

struct run {
    uint64_t number;
    int left; /* the file in which the program leaves a report to be printed; -1: none */
    const char *where;
    pid_t started;
    int status;
    bool has_told; /* of the process that was started */
};

/* glibc has names since 2.32; the command runs on older ones, too. */
#pragma weak sigabbrev_np

static const char *signal_text(int number, char text[32]) {
    const char *name = sigabbrev_np ? sigabbrev_np(number) : NULL;
    if (name)
        snprintf(text, 32, "SIG%s", name);
    else
        snprintf(text, 32, "signal %d", number);
    return text;
}

static void describe_end(const struct run *run, const struct cushim_report *report,
                         char text[128]) {
    char by[32];
    if (report->page.head.process != run->started)
        snprintf(text, 128, "it ended without a report of its own");
    else if (WIFSIGNALED(run->status))
        snprintf(text, 128, "ended by %s", signal_text(WTERMSIG(run->status), by));
    else
        snprintf(text, 128, "ended by _exit or became another program, exit status %d",
                 WEXITSTATUS(run->status));
}

static void tell(struct run *run, struct cushim_report *report) {
    char ended[128], path[PATH_MAX];
    bool is_started = report->page.head.process == run->started;
    describe_end(run, report, ended);
    if (atomic_load(&report->page.head.state) == CUSHIM_PAGE_LEFT)
        report->is_of_page = false; /* it has all that the process knew */
    else
        report->ended = ended;
    int error = cushim_report_write(run->where, "", !is_started || run->has_told, report, path);
    if (error && *path)
        complain("no report in %s: %s", path, strerror(error));
    else if (error)
        complain("no report of process %ld: %s", (long)report->page.head.process, strerror(error));
    run->has_told |= is_started;
}

/* Of this run, and of a process that is over? */
static void look_at(const struct page *page, void *context) {
    struct run *run = context;
    const struct cushim_page_head *head = &page->report->page.head;
    if (head->run != run->number)
        return;
    if (page->is_alive) {
        complain("process %ld (%s) of this run goes on; `cushim stat %ld` shows it",
                 (long)head->process, head->program, (long)head->process);
        return;
    }
    if (atomic_load(&head->state) != CUSHIM_PAGE_REPORTED && pages_has_memory(page->report))
        tell(run, page->report);
    pages_remove(page);
}

/* A file in memory without a name, which nobody else inherits; the program finds it by our number.
 */
static int make_room_for_report(const char *where) {
    char text[48];
    int left =
        cushim_report_descriptor(where) < 0 ? -1 : memfd_create("cushim-report", MFD_CLOEXEC);
    snprintf(text, sizeof text, "%ld-%d", (long)getpid(), left);
    if (left >= 0 && setenv(CUSHIM_WAITER_VARIABLE, text, 1) == 0)
        return left;
    unsetenv(CUSHIM_WAITER_VARIABLE);
    if (left >= 0)
        close(left);
    return -1;
}

/* What the program left is printed now that all its output is out, unless its page said it. */
static void print_left(struct run *run) {
    char text[4096];
    ssize_t n;
    int error = 0;
    off_t at = 0;
    while (!error && !run->has_told && run->left >= 0 &&
           (n = pread(run->left, text, sizeof text, at)) > 0) {
        error = cushim_output_write(cushim_report_descriptor(run->where), text, (size_t)n);
        at += n;
    }
    run->has_told |= at > 0;
}

/* ---- the end ---- */

/* As the program ended: a shell sees the same.  Libraries that the user preloads are in this
 * process, too, but meant for the program: their destructors say nothing here. */
__attribute__((noreturn)) static void end_alike(int status) {
    sigset_t only;
    int number = WTERMSIG(status);
    fflush(NULL);
    if (!WIFSIGNALED(status))
        _exit(WEXITSTATUS(status));
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(number, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
    _exit(128 + number);
}

void wait_for(char **argv, const char *where, void (*at_end)(void *context), void *context) {
    struct run run = {.where = where};
    char text[24], by[32];
    if (getrandom(&run.number, sizeof run.number, 0) != sizeof run.number)
        return;
    snprintf(text, sizeof text, "%" PRIx64, run.number);
    if (setenv(CUSHIM_RUN_VARIABLE, text, 1) != 0)
        return;
    run.left = where ? make_room_for_report(where) : -1;
    int error = start(argv);
    if (error) {
        errno = error;
        return;
    }
    run.started = (pid_t)child;
    run.status = wait_for_end();
    child = 0;
    if (where) {
        pages_each(look_at, &run);
        print_left(&run);
    }
    if (at_end)
        at_end(context);
    if (WIFSIGNALED(run.status) && !run.has_told && settings_want_report())
        complain("%s ended by %s before it used CUDA memory that cushim can see", argv[0],
                 signal_text(WTERMSIG(run.status), by));
    end_alike(run.status);
}
