#include "preload/state/control.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/log.h"
#include "preload/events.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"

struct cushim_control cushim_control;
static struct cushim_page_control *const control = &cushim_page.head.control;
static atomic_flag is_busy = ATOMIC_FLAG_INIT; /* a thread answers */

static void stop(void) {
    cushim_events.recording_wanted(NULL);
    atomic_store(&control->claim, 0);
}

/* A command asks again to end what it began; one that was killed no longer moves the end on. */
static void record(bool is_snapshot) {
    char folder[sizeof control->folder];
    unsigned n_claims = atomic_load(&control->n_claims), claim = atomic_load(&control->claim);
    memcpy(folder, control->folder, sizeof folder);
    folder[sizeof folder - 1] = 0;
    if (claim)
        stop();
    if (claim == n_claims || cushim_clock_ns() > atomic_load(&control->record_until_ns))
        return;
    int error = cushim_events.recording_wanted(folder);
    atomic_store(&control->record_error, (unsigned)error);
    atomic_store(&control->claim, error ? 0 : n_claims);
    if (!error && is_snapshot)
        stop();
}

/* By a thread of the program, or by ours; each request once.  Whatever a limit or a group asks for,
 * heaps give back what is idle, and wait for nothing. */
void cushim_control_answer(void) {
    static uint64_t n_given; /* how often a limit or a group had asked */
    if (!cushim_process_is_on() || cushim_thread.host_function_depth ||
        atomic_flag_test_and_set(&is_busy))
        return;
    int saved_errno = errno, cancel = cushim_cancel_hold();
    uint64_t n_now = cushim_control_n_asked();
    unsigned n_asked = atomic_load(&control->n_asked);
    if (n_now - n_asked != n_given) {
        cushim_events.limit_asked();
        cushim_contexts_give_back_at_once();
    }
    n_given = n_now - n_asked;
    if (n_asked != atomic_load(&control->n_answered)) {
        unsigned calls = atomic_exchange(&control->calls, 0);
        if (calls & CUSHIM_PAGE_CALL_TRIM)
            atomic_store(&control->n_bytes, cushim_contexts_give_back_all());
        if (calls & ~(unsigned)CUSHIM_PAGE_CALL_TRIM)
            record(calls & CUSHIM_PAGE_CALL_SNAPSHOT);
        atomic_store(&control->n_answered, n_asked);
        syscall(SYS_futex, &control->n_answered, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    if (cushim_control_is_over())
        stop();
    atomic_store(&cushim_control.n_seen, n_now);
    atomic_flag_clear(&is_busy);
    cushim_cancel_let(cancel);
    errno = saved_errno;
}

/* Has the main thread ended, and every other one too?  Then the process ends with ours. */
static bool is_alone(void) {
    char text[512], state;
    int n_threads, file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[n > 0 ? n : 0] = 0;
    const char *end = strrchr(text, ')');
    return end &&
           sscanf(end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d",
                  &state, &n_threads) == 2 &&
           state == 'Z' && n_threads == 2;
}

/* The page is a mapping that the other process has, too, so its words are no private futexes. */
static void *wait_for_requests(void *unused) {
    const struct timespec second = {.tv_sec = 1};
    for (;;) {
        unsigned n_asked = atomic_load(&control->n_asked);
        cushim_contexts_give_back_stale(NULL);
        if (syscall(SYS_futex, &control->n_asked, FUTEX_WAIT, n_asked, &second, NULL, 0) != 0 &&
            errno == ETIMEDOUT && is_alone())
            return unused;
    }
}

void cushim_control_begin(void) {
    static pid_t begun_in; /* a forked child has none of the threads */
    sigset_t all, before;
    pthread_t thread;
    if (begun_in == cushim_process.process)
        return;
    begun_in = cushim_process.process;
    atomic_flag_clear(&is_busy); /* the parent's thread may have had it */
    if (!cushim_process_options.control || !cushim_process_options.live)
        return;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* a fault of its own, as of a page that was cut, is handled in it */
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, wait_for_requests, NULL);
    if (!error) {
        pthread_setname_np(thread, "cushim-control");
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    atomic_store(&control->has_thread, !error);
    if (error)
        log_error("control", "no thread, so requests wait for the next call: %s", strerror(error));
}
