#include "tools/cushim/wait.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cushim/guard.h"
#include "tools/cushim/launch.h"
#include "tools/cushim/options.h"
#include "tools/cushim/run_reports.h"
#include "tools/cushim/signals.h"
#include "tools/cushim/usage.h"

static pid_t child; /* 0 if it could not be started */

/* ---- the program ---- */

/* Shared with the child, which writes an errno if it could not become the program.  A pipe would
 * need descriptors, and the user may allow few. */
static int *failed;

static void become(char **argv) {
    signals_give_back();
    if (launch_mark(settings_want_word()))
        execvp(argv[0], argv);
    *failed = errno;
    _exit(EXIT_CANNOT);
}

/* Returns 0, or an errno if there is no child. */
static int start(char **argv) {
    failed = mmap(NULL, sizeof *failed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (failed == MAP_FAILED)
        return errno;
    signals_take();
    pid_t process = fork();
    if (process == 0)
        become(argv);
    int error = process < 0 ? errno : 0;
    child = process < 0 ? 0 : process;
    guard_note(child);
    signals_pass_to(child);
    return error;
}

/* Wait for the end of the program.  This also reaps children that others left to us, as in a
 * container. */
static int wait_for_end(void) {
    int status = 0;
    for (;;) {
        pid_t ended = waitpid(-1, &status, 0);
        if (ended == child || (ended < 0 && errno != EINTR))
            return status;
    }
}

/* ---- the end ---- */

/* End as the program ended, so that a shell sees the same.  Destructors do not run, because
 * libraries that the user preloads are in this process, too, but are meant for the program. */
__attribute__((noreturn)) static void end_alike(int status) {
    if (WIFSIGNALED(status))
        signals_end_by(WTERMSIG(status));
    fflush(NULL);
    _exit(WEXITSTATUS(status));
}

void wait_for(char **argv, const char *where, const char *none, wait_end_fn *at_end,
              void *context) {
    struct run_reports reports;
    char by[32];
    int error = run_reports_begin(&reports, argv, where);
    if (!error)
        error = start(argv);
    if (error) {
        errno = error;
        return;
    }
    reports.started = child;
    reports.status = wait_for_end();
    signals_pass_to(0);
    if (*failed) {
        errno = *failed;
        return;
    }
    bool has_told = run_reports_end(&reports);
    if (at_end)
        at_end(reports.started, reports.status, context);
    if (WIFSIGNALED(reports.status) && !has_told && reports.has_none && settings_want_report())
        complain(reports.has_page
                     ? "%s ended by %s before it used CUDA memory that cushim can see"
                     : "%s ended by %s without a report: it used no CUDA memory that cushim can "
                       "see, or had no live page",
                 argv[0], run_reports_signal(WTERMSIG(reports.status), by));
    else if (!WIFSIGNALED(reports.status) && reports.has_none && none && settings_want_report())
        complain("%s %s; `cushim doctor %s%s` may say why", argv[0], none, argv[0],
                 argv[1] ? " ..." : "");
    end_alike(reports.status);
}
