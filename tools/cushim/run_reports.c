#include "tools/cushim/run_reports.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/draft.h"
#include "base/list.h"
#include "base/output.h"
#include "base/path.h"
#include "report/json.h"
#include "report/report_file.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/processes.h"
#include "tools/cushim/reports.h"
#include "tools/cushim/symbols.h"
#include "tools/cushim/usage.h"

/* ---- before the start ---- */

/* Are enough descriptors left to read pages?  A folder, its list, a page and the output need one
 * each. */
static bool has_descriptors(int some) {
    enum { N = 4 };
    int copies[N], n = 0;
    while (n < N && (copies[n] = fcntl(some, F_DUPFD_CLOEXEC, 0)) >= 0)
        n++;
    for (int i = 0; i < n; i++)
        close(copies[i]);
    return n == N;
}

/* Make a file in memory in which processes leave their reports.  It has no name, and no process
 * inherits it; processes of the run find it by our process number, which also tells them that we
 * wait.  If we could not read their pages, there is no such file, and each writes its own
 * report. */
static int leave_room_for_report(struct run_reports *run) {
    char text[96];
    struct stat folder = {0};
    int pages = cushim_page_folder_open(true);
    run->left = run->where ? memfd_create(CUSHIM_WAITER_FILE, MFD_CLOEXEC) : -1;
    if (run->left >= 0 && !has_descriptors(run->left)) {
        close(run->left);
        run->left = -1;
    }
    if (pages >= 0) {
        fstat(pages, &folder);
        close(pages);
    }
    snprintf(text, sizeof text, "%ld-%d-%lx-%lx", (long)getpid(), run->left,
             (unsigned long)folder.st_dev, (unsigned long)folder.st_ino);
    if (run->left < 0)
        return unsetenv(CUSHIM_WAITER_VARIABLE) == 0 ? 0 : errno;
    return setenv(CUSHIM_WAITER_VARIABLE, text, 1) == 0 ? 0 : errno;
}

/* The inode of the file for all reports together; 0 if there is none. */
static ino_t file_of(const struct run_reports *run) {
    struct stat status;
    bool is_file = run->where && cushim_report_descriptor(run->where) < 0;
    return is_file && stat(run->together, &status) == 0 ? status.st_ino : 0;
}

/* Can the file be written?  Returns 0 or an errno.  If it exists and is no regular file, it is
 * not opened yet, because a pipe may get a reader later. */
static int try_file(const char *path) {
    struct cushim_draft draft;
    struct stat status;
    if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
        return access(path, W_OK) == 0 ? 0 : errno;
    int error = cushim_draft_begin(&draft, path);
    return error ? error : cushim_draft_end(&draft, ECANCELED) == ECANCELED ? 0 : EIO;
}

int run_reports_can_be_made(const char *where, char path[PATH_MAX]) {
    const char *slash = strrchr(where, '/');
    char folder[PATH_MAX];
    *path = 0;
    if (cushim_report_descriptor(where) >= 0)
        return 0;
    if (snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - where) : 0, where) >=
        (int)sizeof folder)
        return ENAMETOOLONG;
    if (cushim_path_has(folder, "phrnq")) /* it depends on processes that do not exist yet */
        return 0;
    if (!cushim_report_is_folder(where, ""))
        return cushim_report_name(path, where, (long)getpid()) ? try_file(path) : ENAMETOOLONG;
    snprintf(path, PATH_MAX, "%s", where);
    if (mkdir(where, 0777) != 0 && errno != EEXIST)
        return errno;
    return access(where, W_OK | X_OK) == 0 ? 0 : errno;
}

int run_reports_begin(struct run_reports *run, char **argv, const char *where) {
    char text[24];
    *run = (struct run_reports){.where = where, .argv = argv, .began = time(NULL), .left = -1};
    run->start_ns = cushim_clock_ns();
    if (where && !cushim_report_name(run->together, where, (long)getpid()))
        return ENAMETOOLONG;
    run->file = file_of(run);
    do {
        if (getrandom(&run->number, sizeof run->number, 0) != sizeof run->number)
            return errno;
    } while (!run->number);
    snprintf(text, sizeof text, "%" PRIx64, run->number);
    if (setenv(CUSHIM_RUN_VARIABLE, text, 1) != 0)
        return errno;
    return leave_room_for_report(run);
}

/* ---- one process ---- */

/* glibc has this function since 2.32, but the command also runs with older versions. */
#pragma weak sigabbrev_np

const char *run_reports_signal(int number, char text[32]) {
    const char *name = sigabbrev_np ? sigabbrev_np(number) : NULL;
    if (name)
        snprintf(text, 32, "SIG%s", name);
    else
        snprintf(text, 32, "signal %d", number);
    return text;
}

static void describe_end(const struct run_reports *run, const struct cushim_report *report,
                         char text[128]) {
    char by[32];
    if (report->page.head.process != run->started)
        snprintf(text, 128, "it ended without a report of its own");
    else if (WIFSIGNALED(run->status))
        snprintf(text, 128, "ended by %s", run_reports_signal(WTERMSIG(run->status), by));
    else
        snprintf(text, 128, "ended by _exit or became another program, exit status %d",
                 WEXITSTATUS(run->status));
}

static bool has_left(const struct cushim_report *report) {
    return atomic_load(&report->page.head.state) == CUSHIM_PAGE_LEFT;
}

/* Add what the page does not say.  `ended` must live as long as the report. */
static void complete(const struct run_reports *run, struct cushim_report *report, char ended[128]) {
    describe_end(run, report, ended);
    report->ended = ended;
    if (has_left(report)) { /* the page has all that the process knew, except its own status */
        bool is_well = report->page.head.process != run->started || WIFSIGNALED(run->status) ||
                       !WEXITSTATUS(run->status);
        report->is_of_page = false;
        report->ended = is_well ? NULL : ended;
        snprintf(ended, 128, "with status %d", WEXITSTATUS(run->status));
    }
    if (!has_left(report) && report->page.head.process == run->started) { /* it ended just now */
        report->run_ns = cushim_clock_ns() - report->page.head.start_ns;
        report->is_run_longer = false;
    }
}

/* ---- the pages of the run ---- */

struct told {
    const struct run_reports *run;
    char (*names)[CUSHIM_PAGE_NAME_BYTES]; /* of the pages to write; the page of the started program
                                              comes first */
    size_t n;
    bool has_page, has_started, is_apart; /* is_apart: the program itself made FILE */
    bool has_others;                      /* processes of the run that continue */
    struct processes processes;
    struct cushim_writer out;
    bool is_json;
};

/* Is it the started program?  A process of another PID namespace may have the same number. */
static bool is_the_started(const struct run_reports *run, const struct cushim_page_head *head) {
    return head->process == run->started && head->namespace == cushim_page_namespace();
}

/* If the page is of this run and its process ended, note it for writing, or remove it if nothing
 * is to be written. */
static void look_at(const struct page *page, void *context) {
    struct told *told = context;
    const struct cushim_page_head *head = &page->report->page.head;
    if (head->run != told->run->number)
        return;
    bool is_started = is_the_started(told->run, head);
    told->has_page |= is_started;
    if (page->is_alive && !is_started && !has_left(page->report)) {
        complain("process %ld (%s) of this run still runs; `cushim stat %ld` shows it",
                 (long)head->process, head->program, (long)head->process);
        told->has_others = true;
        return;
    }
    char(*name)[CUSHIM_PAGE_NAME_BYTES] = NULL;
    if (atomic_load(&head->state) != CUSHIM_PAGE_REPORTED &&
        cushim_report_next_device(page->report, -1) >= 0)
        LIST_ADD(told->names, told->n, name);
    if (!name) {
        pages_remove(page);
        return;
    }
    if (is_started && !told->has_started) {
        memmove(told->names + 1, told->names, (told->n - 1) * sizeof *told->names);
        told->has_started = true;
        name = told->names;
    }
    snprintf(*name, sizeof *name, "%s", page->name);
}

/* ---- each in a file of its own ---- */

static void tell_apart(const struct page *page, void *context) {
    struct told *told = context;
    const struct run_reports *run = told->run;
    char ended[128], path[PATH_MAX];
    bool is_started = page->report->page.head.process == run->started;
    complete(run, page->report, ended);
    symbols_learn(page->report);
    int error =
        cushim_report_write(run->where, "", !is_started || told->is_apart, page->report, path);
    /* because it may have become another program, and have another page */
    told->is_apart |= is_started;
    if (error && *path)
        complain("no report in %s: %s", path, strerror(error));
    else if (error)
        complain("no report of process %ld: %s", (long)page->report->page.head.process,
                 strerror(error));
    pages_remove(page);
}

/* ---- all in one place ---- */

static void put_together(const struct page *page, void *context) {
    struct told *told = context;
    char ended[128];
    complete(told->run, page->report, ended);
    bool is_first = !told->processes.n;
    processes_add(&told->processes, page->report);
    symbols_learn(page->report);
    if (told->is_json) {
        cushim_write(&told->out, is_first ? "" : ",\n");
        cushim_report_json(&told->out, page->report);
    } else {
        cushim_write(&told->out, is_first ? "" : "\n");
        cushim_report_text(&told->out, page->report);
    }
    pages_remove(page);
}

static void put_all(struct told *told) {
    if (told->is_json && told->n > 1)
        cushim_write(&told->out, "{\"schema\": \"" REPORTS_SCHEMA "\", \"reports\": [\n");
    for (size_t i = 0; i < told->n; i++)
        pages_one(told->names[i], put_together, told);
    if (told->n > 1 && told->is_json) {
        cushim_write(&told->out, "]}\n");
    } else if (told->n > 1) {
        processes_sort(&told->processes);
        cushim_write(&told->out, "\n");
        processes_put(&told->out, &told->processes);
    }
    cushim_writer_flush(&told->out);
}

static void write_all(struct told *told) {
    const char *where = told->run->together;
    struct cushim_draft draft;
    int error = cushim_draft_begin(&draft, where);
    if (!error) {
        told->out = (struct cushim_writer){.fd = draft.fd};
        told->is_json = cushim_report_is_json(where);
        put_all(told);
        error = cushim_draft_end(&draft, told->out.error);
    }
    if (error)
        complain("no report in %s: %s", where, strerror(error));
}

/* Print what processes left, now that all output of the program is written. */
static bool print_left(const struct run_reports *run, struct cushim_writer *out) {
    char text[4096];
    ssize_t n;
    bool has_printed = false;
    for (off_t at = 0; !out->error && (n = pread(run->left, text, sizeof text, at)) > 0; at += n) {
        size_t n_kept = 0;
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] != CUSHIM_WAITER_HAS_ONE)
                text[n_kept++] = text[i];
        }
        out->error = cushim_output_write(out->fd, text, n_kept);
        has_printed |= n_kept > 0;
    }
    return has_printed;
}

/* Did a process leave a report, or a sign that it has written one? */
static bool has_word_of_reports(const struct run_reports *run) {
    struct stat status;
    return fstat(run->left, &status) != 0 || status.st_size > 0;
}

/* ---- the run itself ---- */

/* Files of this run get a row; others in the folder are of other runs. */
struct rows {
    const struct run_reports *run;
    struct cushim_writer *out;
};

static void put_file(const struct cushim_report *report, const struct report_origin *origin,
                     void *context) {
    struct rows *rows = context;
    struct cushim_writer *out = rows->out;
    const struct cushim_page_head *head = &report->page.head;
    if (head->run != rows->run->number)
        return;
    cushim_json_begin(out, "\n    ", "{");
    cushim_json_put(out, "pid", "%" PRId64, head->process);
    if (head->rank >= 0)
        cushim_json_put(out, "rank", "%" PRId64, head->rank);
    else
        cushim_json_put(out, "rank", "null");
    cushim_json_text(out, "program", head->program);
    cushim_json_text(out, "file", basename(origin->name));
    cushim_json_text(out, "ended", report->ended ? report->ended : "normally");
    cushim_write(out, "}");
}

static void put_run(const struct run_reports *run, struct cushim_writer *out) {
    struct rows rows = {run, out};
    cushim_json_begin(out, NULL, "{");
    cushim_json_text(out, "schema", "cushim-run/1");
    cushim_json_put(out, "run", "\"%" PRIx64 "\"", run->number);
    cushim_json_begin(out, "command", "[");
    for (int i = 0; run->argv[i]; i++)
        cushim_json_text(out, NULL, run->argv[i]);
    cushim_write(out, "]");
    cushim_json_put(out, "began", "%lld", (long long)run->began);
    cushim_json_number(out, "run_ns", cushim_clock_ns() - run->start_ns);
    if (WIFSIGNALED(run->status))
        cushim_json_put(out, "signal", "%d", WTERMSIG(run->status));
    else
        cushim_json_put(out, "exit_status", "%d", WEXITSTATUS(run->status));
    cushim_json_begin(out, "processes", "[");
    reports_of_folder(run->where, put_file, &rows);
    cushim_write(out, "]}\n");
    cushim_writer_flush(out);
}

/* Write run.json, or run-1.json and so on if another rank has it. */
static void write_run(const struct run_reports *run) {
    enum { MOST_NUMBERS = 10000 };
    char path[PATH_MAX];
    int error = EEXIST;
    for (int number = 0; error == EEXIST && number < MOST_NUMBERS; number++) {
        struct cushim_draft draft;
        char text[24] = "";
        if (number)
            snprintf(text, sizeof text, "-%d", number);
        if (snprintf(path, sizeof path, "%s/run%s.json", run->where, text) >= (int)sizeof path)
            error = ENAMETOOLONG;
        else if (access(path, F_OK) == 0)
            continue;
        else
            error = cushim_draft_begin(&draft, path);
        if (error)
            break;
        struct cushim_writer out = {.fd = draft.fd};
        put_run(run, &out);
        draft.is_new = true;
        error = cushim_draft_end(&draft, out.error);
    }
    if (error)
        complain("no %s: %s", path, strerror(error));
}

bool run_reports_end(struct run_reports *run) {
    if (!run->where)
        return false;
    struct told told = {.run = run, .out = {.fd = cushim_report_descriptor(run->where)}};
    told.is_apart = file_of(run) && file_of(run) != run->file;
    pages_each(look_at, &told);
    bool has_told = told.has_started;
    run->has_page = told.has_page;
    if (told.out.fd >= 0) {
        has_told = print_left(run, &told.out) || has_told;
        put_all(&told);
        if (told.out.error && told.out.error != EPIPE && told.out.fd != STDERR_FILENO)
            complain("no report on standard output: %s", strerror(told.out.error));
    } else if (told.n && !told.is_apart && cushim_report_is_shared(run->where, "")) {
        write_all(&told);
    } else {
        for (size_t i = 0; i < told.n; i++)
            pages_one(told.names[i], tell_apart, &told);
    }
    if (cushim_report_is_folder(run->where, ""))
        write_run(run);
    processes_free(&told.processes);
    free(told.names);
    /* without that file the program itself says it */
    run->has_none = run->left >= 0 && !told.n && !told.has_others && !has_word_of_reports(run);
    return has_told || told.is_apart;
}
