/*
 * The end of the process: the exit report, if one was asked for (interposition.md E).
 *
 * This is a destructor of this object, not an atexit handler, so that it runs after the program's
 * handlers and counts frees in static destructors. Later frees are served, but not counted.  The C
 * library writes stdio's buffers even later, after anything that can be registered here. Nothing is
 * flushed, because these streams are the program's (docs/guide/limits-of-a-preload.md).  If `cushim
 * run` waits, it prints the report after that.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/output.h"
#include "preload/report/own.h"
#include "preload/report/start.h"
#include "preload/resolve/elf.h"
#include "preload/state/live.h"
#include "preload/state/process.h"
#include "preload/state/process_options.h"
#include "preload/observe/check.h"
#include "preload/observe/tracing.h"
#include "report/page_file.h"
#include "report/report_file.h"

/*
 * The number of this thread, which is that of the process if it is the first one.  It comes from
 * the C library's copy, because a sandbox may punish a system call at the exit of processes that
 * made none for us. The kernel's clock of a thread's time contains its number.
 */
static long number_of_this_thread(void) {
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~((long)clock >> 3) : -1;
}

/* Is this the process that `cushim run` became, with a report asked for, and no child of it? */
static bool is_the_one_started(void) {
    const char *started = cushim_environment(CUSHIM_STARTED_VARIABLE);
    return started && strtol(started, NULL, 10) == number_of_this_thread();
}

/* The `cushim run` that waits for this run.  It is recognised by an open file, because another
 * process may have got its number. */
struct waiter {
    long process;
    char file[64];                /* in which its child leaves a text */
    unsigned long device, folder; /* of the folder in which it looks for pages */
};

static bool find_waiter(struct waiter *waiter) {
    static const char wanted[] = "/memfd:" CUSHIM_WAITER_FILE;
    char target[sizeof wanted];
    long descriptor;
    const char *text = cushim_environment(CUSHIM_WAITER_VARIABLE);
    *waiter = (struct waiter){0};
    if (!text || sscanf(text, "%ld-%ld-%lx-%lx", &waiter->process, &descriptor, &waiter->device,
                        &waiter->folder) < 2)
        return false;
    snprintf(waiter->file, sizeof waiter->file, "/proc/%ld/fd/%ld", waiter->process, descriptor);
    return readlink(waiter->file, target, sizeof target - 1) == sizeof target - 1 &&
           memcmp(target, wanted, sizeof target - 1) == 0;
}

/* In its file: a report, or the one byte that stands for one that went elsewhere. */
static bool leave_in_file(const struct waiter *waiter, const struct cushim_report *report) {
    struct cushim_writer writer = {
        .fd = cushim_output_aside(open(waiter->file, O_WRONLY | O_APPEND | O_CLOEXEC))};
    if (writer.fd < 0)
        return false;
    if (report)
        cushim_report_text(&writer, report);
    else
        writer.error = cushim_output_write(writer.fd, &(char){CUSHIM_WAITER_HAS_ONE}, 1);
    cushim_writer_flush(&writer);
    close(writer.fd);
    return !writer.error;
}

/* Reports that go to one place are written by the process that waits, together.  Without a page it
 * prints the text behind all that the program prints. */
static bool leave_with_waiter(const struct waiter *waiter, const char *where) {
    if (!cushim_report_is_shared(where, cushim_start_folder()))
        return false;
    const struct cushim_report *report = cushim_own_report(); /* which brings the page up to date */
    return cushim_live_leave(waiter->device, waiter->folder) ||
           (cushim_report_descriptor(where) >= 0 && waiter->process == getppid() &&
            leave_in_file(waiter, report));
}

static void write_report(const char *where) {
    char path[PATH_MAX];
    struct waiter waiter;
    bool is_awaited = find_waiter(&waiter);
    if (is_awaited && leave_with_waiter(&waiter, where))
        return;
    /* a child of what `cushim run` started must not replace its report */
    bool is_child = cushim_page.head.run && !is_the_one_started();
    int error =
        cushim_report_write(where, cushim_start_folder(), is_child, cushim_own_report(), path);
    if (!error && is_awaited)
        leave_in_file(&waiter, NULL);
    if (error == ENAMETOOLONG && !*path)
        log_error("stats", "the name of the report is too long: %s", where);
    else if (error && *path)
        log_error("stats", "no report in %s: %s", path, strerror(error));
    else if (error && cushim_report_descriptor(where) != STDERR_FILENO)
        log_error("stats", "no report on standard output: %s", strerror(error));
}

/* A `cushim run` that waits prints it, because it knows of the children, too.  This process may
 * make no system call here but a write, because a sandbox may punish others.  With CUSHIM_LOG=info
 * the user asked whether we are active. */
static void say_that_there_is_none(void) {
    const char *where = cushim_environment("CUSHIM_STATS");
    bool is_wanted = where && *where && !cushim_option_is_off(where);
    struct cushim_writer writer = {.fd = STDERR_FILENO};
    if (is_wanted && cushim_environment(CUSHIM_WAITER_VARIABLE))
        return;
    cushim_write(&writer, "cushim: %s itself used no CUDA memory that cushim can see%s\n",
                 program_invocation_short_name, is_wanted ? ", and has no report" : "");
    cushim_writer_flush(&writer);
}

__attribute__((destructor)) static void leave_process(void) {
    cushim_object_pass_by(NULL);
    int state = atomic_load(&cushim_process_state), cancel = cushim_cancel_hold();
    bool is_on = state == CUSHIM_PROCESS_ON; /* off covers a forked child, too */
    bool is_used = atomic_load(&cushim_process.is_used);
    const char *where = cushim_process_options.stats;
    /* also if the driver was unloaded before; another number is a child's that no handler saw */
    bool is_told = is_used && state != CUSHIM_PROCESS_OFF;
    bool is_asked = is_told && (*where || cushim_log_on(CUSHIM_LOG_INFO));
    if (is_used && is_on && cushim_process.process == getpid())
        cushim_check_end();
    if (is_asked && cushim_process.process == getpid()) {
        if (cushim_live_is_cut())
            log_error("stats", "no report: the file with the counters was cut");
        else if (cushim_log_on(CUSHIM_LOG_INFO))
            cushim_own_tell();
        if (*where && !cushim_live_is_cut())
            write_report(where);
    }
    /* without memory used there is no report, and the options may never have been read */
    else if (!is_used && (is_on || state == CUSHIM_PROCESS_UNREAD) && is_the_one_started())
        say_that_there_is_none();
    cushim_live_end();
    cushim_tracing_end();
    cushim_cancel_let(cancel);
}
