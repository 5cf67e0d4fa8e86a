#include "tools/cushim/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_mode.h"
#include "base/options.h"
#include "base/path.h"
#include "base/writer.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/commands/run.h"
#include "tools/cushim/control.h"
#include "tools/cushim/options.h"
#include "tools/cushim/recording/summary.h"
#include "tools/cushim/usage.h"

struct request {
    char folder[PATH_MAX]; /* absolute */
    const char *pattern;   /* as given, or NULL */
    char name[PATH_MAX];   /* with its places filled in */
    char **argv;           /* of the program that is started */
    /* of a process that runs already; NULL: a program is started */
    const char *wanted;
    uint64_t for_ns; /* 0: until it is stopped */
    bool is_snapshot, is_found;
    int code;
};

static void take_time(void *context, const char *value) {
    struct request *request = context;
    if (!arguments_time(value, &request->for_ns))
        usage_error("record", "--for=%s is not a time such as 30s, 5m or 1h", value);
}

static const char *other_option; /* one that is for a program */

static void take_other(const char *topic, char **words, int *i) {
    const char *name = "--trace";
    size_t n = strlen(name);
    other_option = words[*i];
    if (strncmp(other_option, name, n) == 0 && (!other_option[n] || other_option[n] == '='))
        usage_error("record", "-o names the folder of a recording, and not --trace");
    settings_take(topic, words, i);
}

/* Returns the index of the program's name in argv. */
static int take_arguments(struct request *request, int argc, char **argv) {
    const struct argument rows[] = {{"-o", .text = &request->pattern},
                                    {"--pid", .text = &request->wanted},
                                    {"--for", .take = take_time},
                                    {0}};
    int first = arguments_program("record", rows, request, take_other, false, argc, argv);
    if (!request->wanted && first == argc)
        usage_error("record", "record needs a program");
    if (!request->wanted && request->for_ns)
        usage_error("record", "--for goes with --pid");
    if (request->wanted && first < argc)
        usage_error("record", "record takes --pid or a program, and not also `%s`", argv[first]);
    if (request->wanted && other_option)
        usage_error("record", "%s goes with a program, and not with --pid", other_option);
    return first;
}

/*
 * Fill in the places of the name.  All ranks of a job have the same command line, so a name without
 * a place for the rank gets it before its ending.  Returns false if the name is too long.
 */
static bool choose_name(struct request *request, const char *program, long process) {
    const struct cushim_path_places places = {.process = process, .rank = cushim_path_rank()};
    char pattern[PATH_MAX], apart[PATH_MAX];
    struct stat status;
    if (!request->pattern) {
        char again[16] = "";
        for (int i = 2; i < 10000; i++) {
            snprintf(request->name, sizeof request->name, "%.40s.%ld%s.cushim", basename(program),
                     process, again);
            if (!request->wanted || stat(request->name, &status) != 0)
                break;
            snprintf(again, sizeof again, "-%d", i);
        }
        return true;
    }
    size_t n = strlen(request->pattern);
    if (n >= sizeof pattern)
        return false;
    strcpy(pattern, request->pattern);
    while (n > 1 && pattern[n - 1] == '/')
        pattern[--n] = 0;
    bool is_one_of_many = places.rank >= 0 && cushim_path_ranks() != 1;
    if (!is_one_of_many || cushim_path_has(pattern, "prq"))
        return cushim_path_expand(request->name, sizeof request->name, pattern, &places);
    return cushim_path_tell_apart(apart, sizeof apart, pattern, "%r") &&
           cushim_path_expand(request->name, sizeof request->name, apart, &places);
}

/* Make a folder for this recording alone.  Returns false, after a message, if that fails. */
static bool make_folder(struct request *request, const char *program, long process) {
    struct recording_files files;
    if (!choose_name(request, program, process))
        return complain("%s: %s", request->pattern, strerror(ENAMETOOLONG));
    struct stat status;
    if (mkdir(request->name, 0700) != 0 && errno != EEXIST)
        return complain("%s: %s%s", request->name, strerror(errno),
                        request->pattern ? "" : "; -o names another place");
    if (stat(request->name, &status) == 0 && !S_ISDIR(status.st_mode))
        return complain("%s is a file, and a recording is a folder", request->name);
    int error = recording_files(&files, request->name);
    size_t n = files.n;
    recording_files_free(&files);
    if (n)
        return complain("%s has a recording already: remove it, or give another name with -o; "
                        "-o app-%%p.cushim makes a new one each time",
                        request->name);
    if (error || !realpath(request->name, request->folder))
        return complain("%s: %s", request->name, strerror(error ? error : errno));
    return true;
}

/* Print one line if the recording is incomplete, and return true then. */
static bool tell_of_gaps(const struct cushim_trace_head *head) {
    uint64_t state = atomic_load(&head->state), n_lost = atomic_load(&head->n_lost);
    if (state == CUSHIM_TRACE_FAILED)
        complain("the recording of process %lu ended early: %s", (unsigned long)head->process,
                 strerror((int)atomic_load(&head->error)));
    else if (state == CUSHIM_TRACE_FULL)
        complain("the recording of process %lu ended early: its file was full; %s %s not "
                 "written; --trace-max allows more",
                 (unsigned long)head->process, CUSHIM_COUNT(n_lost),
                 n_lost == 1 ? "event was" : "events were");
    return state == CUSHIM_TRACE_FAILED || state == CUSHIM_TRACE_FULL;
}

/* If a process became another program, it has several files; its end belongs to the last one. */
struct latest {
    pid_t process;
    uint64_t start_ns, end_ns; /* as it wrote them; end_ns is 0 if it was killed */
    const char *path;
    bool has_gaps; /* any of the files */
};

/* Count the events, and say which lines found no memory: what the program printed of that has no
 * lines of the source. */
static uint64_t count_events(const char *path, struct latest *latest) {
    struct cushim_trace_reader reader;
    struct cushim_trace_event event;
    const char *oom = getenv("CUSHIM_OOM");
    uint64_t writer, n = 0, n_refused = 0;
    if (cushim_trace_reader_open(&reader, path) != 0)
        return 0;
    if (reader.head.process == (uint64_t)latest->process &&
        reader.head.start_ns >= latest->start_ns) {
        latest->start_ns = reader.head.start_ns, latest->path = path;
        latest->end_ns = atomic_load(&reader.head.end_ns);
    }
    latest->has_gaps |= tell_of_gaps(&reader.head);
    for (; cushim_trace_reader_next(&reader, &event, &writer); n++)
        n_refused += event.code == CUSHIM_TRACE_REFUSE;
    cushim_trace_reader_close(&reader);
    if (n_refused && !(oom && cushim_option_is_off(oom)))
        summary_refused(&(struct cushim_writer){.fd = STDERR_FILENO}, path);
    return n;
}

static bool write_at(int file, uint64_t word, size_t at) {
    return pwrite(file, &word, sizeof word, (off_t)at) == sizeof word;
}

/* Write into the recording how its program ended, because only this process knows it, and when if
 * it was killed. */
static void note_end(const char *path, int status, uint64_t end_ns) {
    int found = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (found < 0)
        return;
    cushim_file_let_write(found); /* because the file is read-only if the process was killed */
    close(found);
    int file = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return;
    if (!write_at(file, (uint64_t)status + 1, offsetof(struct cushim_trace_head, next_status)) ||
        !write_at(file, end_ns, offsetof(struct cushim_trace_head, end_ns)))
        complain("%s: %s", path, strerror(errno));
    close(file);
}

/* `process` is 0 if nothing waited for its end. */
static void tell(pid_t process, int status, void *context) {
    const struct request *request = context;
    struct recording_files files;
    struct latest latest = {.process = process};
    const char *quote = strchr(request->name, ' ') ? "'" : "";
    const char *more = process && request->argv[1] ? " ..." : ""; /* arguments for doctor, too */
    uint64_t n_events = 0, n_bytes = 0, now_ns = cushim_clock_ns();
    int error = recording_files(&files, request->folder);
    if (error) {
        complain("%s: %s", request->name, strerror(error));
        return;
    }
    for (size_t i = 0; i < files.n; i++) {
        struct stat file;
        n_events += count_events(files.paths[i], &latest);
        n_bytes += stat(files.paths[i], &file) == 0 ? (uint64_t)file.st_size : 0;
    }
    if (process && latest.path)
        note_end(latest.path, status, latest.end_ns ? latest.end_ns : now_ns);
    if (files.n && process && !n_events && !latest.has_gaps)
        complain("%s: %s, and no request of memory; `cushim doctor %s%s` may say why",
                 request->name, CUSHIM_SOME(files.n, "process"), *request->argv, more);
    else if (files.n)
        complain("%s: %s, %s, %s; `cushim report %s%s%s` reads it", request->name,
                 CUSHIM_SOME(files.n, "process"), CUSHIM_SOME(n_events, "event"),
                 CUSHIM_BYTES(n_bytes), quote, request->name, quote);
    else if (process)
        complain("no recording: no process used CUDA memory that cushim can see; `cushim doctor "
                 "%s%s` may say why",
                 *request->argv, more);
    if (!files.n)
        rmdir(request->folder);
    recording_files_free(&files);
}

/* ---- of a process that runs already ---- */

/* A command that is killed moves the end no further, so the recording ends soon. */
static const uint64_t lease_ns = 10000000000;

static volatile sig_atomic_t is_stopped;

static void note_stop(int signal) {
    (void)signal;
    is_stopped = 1;
}

/* Does it go on?  False: a signal came, or the process has ended. */
static bool goes_on(const struct page *page, struct cushim_page_control *control) {
    atomic_store(&control->record_until_ns, cushim_clock_ns() + lease_ns);
    return !is_stopped && cushim_page_is_alive(page->folder, page->name);
}

/* False: there is no recording, and why was said. */
static bool begin(struct request *request, const struct page *page,
                  struct cushim_page_control *control) {
    const char *later = request->is_snapshot ? "tells what it has" : "is recorded from then on,";
    unsigned n_asked = control_ask(control, request->is_snapshot ? CUSHIM_PAGE_CALL_SNAPSHOT
                                                                 : CUSHIM_PAGE_CALL_RECORD);
    bool is_well = atomic_load(&control->has_thread) ? control_wait_long(page, control, n_asked)
                                                     : control_wait(control, n_asked);
    if (!is_well && !control_complain(page, control, later))
        return false;
    while (!is_well && goes_on(page, control))
        is_well = control_wait(control, n_asked);
    int error = is_well ? (int)atomic_load(&control->record_error) : 0;
    if (error == EBUSY)
        complain("%s is recorded already, from its start on", control_name(page));
    else if (error)
        complain("%s cannot write to %s: %s", control_name(page), request->folder, strerror(error));
    else if (!is_well && !is_stopped)
        complain("%s has ended", control_name(page));
    return is_well && !error;
}

static void record(struct request *request, const struct page *page,
                   struct cushim_page_control *control) {
    if (!begin(request, page, control))
        return;
    request->code = EXIT_WELL;
    if (request->is_snapshot)
        return;
    uint64_t end_ns = request->for_ns ? cushim_clock_ns() + request->for_ns : UINT64_MAX;
    complain("%s is recorded into %s%s", control_name(page), request->name,
             request->for_ns ? "" : "; Ctrl-C ends it");
    while (goes_on(page, control) && cushim_clock_ns() < end_ns) {
        uint64_t rest_ns = end_ns - cushim_clock_ns();
        const struct timespec nap = {.tv_sec = rest_ns >= 1000000000,
                                     .tv_nsec = rest_ns < 1000000000 ? (long)rest_ns : 0};
        nanosleep(&nap, NULL);
    }
    if (!cushim_page_is_alive(page->folder, page->name))
        complain("%s has ended", control_name(page));
    control_wait_long(page, control, control_ask(control, CUSHIM_PAGE_CALL_RECORD));
}

/* Only one command at a time records a process. */
static bool claim(struct cushim_page_control *control) {
    uint64_t now_ns = cushim_clock_ns(), until_ns = atomic_load(&control->record_until_ns);
    bool is_first =
        until_ns < now_ns &&
        atomic_compare_exchange_strong(&control->record_until_ns, &until_ns, now_ns + lease_ns);
    atomic_fetch_add(&control->n_claims, is_first);
    return is_first;
}

static bool attach(const struct page *page, struct cushim_page_head *head, void *context) {
    struct request *request = context;
    struct cushim_page_control *control = &head->control;
    const struct cushim_page_head *about = &page->report->page.head;
    if (request->is_found)
        return true;
    request->is_found = true;
    if (!claim(control))
        return complain("%s is being recorded by another command", control_name(page));
    if (make_folder(request, about->program, (long)about->process)) {
        if (page->user != geteuid() && chown(request->folder, page->user, (gid_t)-1) != 0)
            complain("%s: %s", request->name, strerror(errno));
        int n = snprintf(control->folder, sizeof control->folder, "%s", request->folder);
        if (n < (int)sizeof control->folder)
            record(request, page, control);
        else
            complain("%s: %s", request->folder, strerror(ENAMETOOLONG));
        tell(0, 0, request);
    }
    atomic_store(&control->record_until_ns, 0);
    return true;
}

/* Record the process; returns an exit code. */
static int attach_to(struct request *request) {
    const struct sigaction action = {.sa_handler = note_stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    request->code = EXIT_WRONG;
    if (!control_each(request->wanted, attach, request).n_found)
        pages_complain_of_none(request->wanted);
    return request->code;
}

int snapshot_main(int argc, char **argv) {
    static struct request request = {.is_snapshot = true};
    const struct argument rows[] = {{"-o", .text = &request.pattern}, {0}};
    arguments_words("snapshot", rows, NULL, 1, 1, "a process or a program", argc, argv);
    request.wanted = argv[0];
    return attach_to(&request);
}

int record_main(int argc, char **argv) {
    static struct request request;
    int first = take_arguments(&request, argc, argv);
    if (request.wanted)
        return attach_to(&request);
    request.argv = argv + first;
    if (!make_folder(&request, argv[first], getpid()))
        return EXIT_OURS;
    if (setenv("CUSHIM_TRACE", request.folder, 1) != 0)
        return EXIT_OURS;
    int code = run_program(first, argv, true, tell, &request);
    rmdir(request.folder); /* nothing was started */
    return code;
}
