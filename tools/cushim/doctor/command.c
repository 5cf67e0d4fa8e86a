#include "tools/cushim/doctor/command.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "base/writer.h"
#include "tools/cushim/doctor/findings.h"
#include "tools/cushim/doctor/probe.h"
#include "tools/cushim/json.h"
#include "tools/cushim/launch.h"
#include "tools/cushim/program.h"
#include "tools/cushim/reports.h"
#include "tools/cushim/run_reports.h"
#include "tools/cushim/signals.h"
#include "tools/cushim/usage.h"

/* ---- the processes, as they come and go: short ones may be missed ---- */

enum { MOST_SEEN = 64, MOST_LIBRARIES = 8, LOOK_MS = 10 };

struct seen {
    pid_t process;
    char path[PATH_MAX]; /* of its program */
    bool is_reached;     /* the preload is in it */
    bool awaits_libc;    /* its loader maps a libc behind the preload */
    bool is_loaded;      /* the libc is mapped, or none is expected */
    bool has_driver;     /* it has a CUDA driver */
};

struct look {
    struct seen seen[MOST_SEEN];
    size_t n_seen;
    char libraries[MOST_LIBRARIES][PATH_MAX]; /* CUDA runtimes, and libraries that cache memory
                                                 themselves */
    size_t n_libraries;
    bool is_cut; /* there were more processes */
    char own[PATH_MAX];
};

static void note_library(struct look *look, const char *path) {
    for (size_t i = 0; i < look->n_libraries; i++) {
        if (strcmp(look->libraries[i], path) == 0)
            return;
    }
    if (look->n_libraries < MOST_LIBRARIES)
        snprintf(look->libraries[look->n_libraries++], PATH_MAX, "%s", path);
}

static bool is_cache(const char *name) {
    return strstr(name, "libc10_cuda.so") || strstr(name, "cupy") || strstr(name, "jaxlib");
}

static void look_at_maps(struct look *look, struct seen *seen) {
    char path[64], line[PATH_MAX + 128];
    snprintf(path, sizeof path, "/proc/%ld/maps", (long)seen->process);
    FILE *maps = fopen(path, "re");
    bool has_libc = false, is_whole = false;
    if (!maps)
        return;
    while (fgets(line, sizeof line, maps)) {
        char *file = strchr(line, '/');
        /* the stack follows all files; if it is missing, the process ended meanwhile */
        is_whole |= strstr(line, "[stack]") != NULL;
        if (!file)
            continue;
        file[strcspn(file, "\n")] = 0;
        const char *name = strrchr(file, '/') + 1;
        seen->is_reached |= strncmp(name, LAUNCH_LIBRARY, sizeof LAUNCH_LIBRARY - 1) == 0;
        seen->has_driver |= strncmp(name, "libcuda.so", 10) == 0;
        has_libc |= strncmp(name, "libc.so", 7) == 0;
        if (strncmp(name, "libcudart", 9) == 0 || is_cache(name))
            note_library(look, file);
    }
    fclose(maps);
    seen->is_loaded |= is_whole && (has_libc || !seen->awaits_libc);
}

/* This reads the file, because a process that just started may not have mapped its loader yet. */
static bool awaits_libc(const char *path) {
    struct program program;
    return program_inspect(&program, path) != 0 || program.link == PROGRAM_DYNAMIC;
}

/* Look at one process, which may have become another program meanwhile. */
static void look_at(struct look *look, pid_t process) {
    char path[64], program[PATH_MAX];
    size_t i = 0;
    snprintf(path, sizeof path, "/proc/%ld/exe", (long)process);
    ssize_t n = readlink(path, program, sizeof program - 1);
    if (n <= 0)
        return;
    program[n] = 0;
    if (strcmp(program, look->own) == 0) /* the child has not become the command yet */
        return;
    while (i < look->n_seen &&
           (look->seen[i].process != process || strcmp(look->seen[i].path, program) != 0))
        i++;
    if (i == MOST_SEEN) {
        look->is_cut = true;
        return;
    }
    struct seen *seen = &look->seen[i];
    if (i == look->n_seen) {
        look->n_seen++;
        *seen = (struct seen){.process = process, .awaits_libc = awaits_libc(program)};
        strcpy(seen->path, program);
    }
    look_at_maps(look, seen);
}

/* Look at all descendants of a process. */
static void look_below(struct look *look, pid_t process, int depth) {
    char path[80];
    long child;
    enum { DEEPEST = 16 };
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)process, (long)process);
    FILE *children = depth < DEEPEST ? fopen(path, "re") : NULL;
    if (!children)
        return;
    while (fscanf(children, "%ld", &child) == 1) {
        look_at(look, (pid_t)child);
        look_below(look, (pid_t)child, depth + 1);
    }
    fclose(children);
}

/* ---- the run ---- */

static void become_run(char **argv, const char *folder, bool is_quiet) {
    char stats[PATH_MAX + 16];
    const char *const options[] = {"cushim", "run", "--from-doctor", stats, "--"};
    enum { N_OPTIONS = sizeof options / sizeof *options };
    size_t n = 0;
    while (argv[n])
        n++;
    const char *words[N_OPTIONS + n + 1];
    snprintf(stats, sizeof stats, "--stats=%s/", folder);
    memcpy(words, options, sizeof options);
    memcpy(words + N_OPTIONS, argv, (n + 1) * sizeof *argv);
    if (is_quiet)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    signals_give_back();
    execv("/proc/self/exe", (char **)words);
    _exit(127);
}

/* Returns the status of the command, or -1 if it could not be started. */
static int run(struct look *look, char **argv, const char *folder, bool is_quiet) {
    struct timespec pause = {0, LOOK_MS * 1000000L};
    int status = -1;
    usage_flush_text();
    if (readlink("/proc/self/exe", look->own, sizeof look->own - 1) < 0)
        *look->own = 0;
    signals_take(); /* what asks us to end ends `cushim run`, which would run on alone */
    pid_t process = fork();
    if (process == 0)
        become_run(argv, folder, is_quiet);
    signals_pass_to(process > 0 ? process : 0);
    while (process > 0 && waitpid(process, &status, WNOHANG) == 0) {
        look_below(look, process, 0);
        nanosleep(&pause, NULL);
    }
    signals_pass_to(0);
    signals_give_back();
    return status;
}

/* ---- what is reported about it ---- */

struct totals {
    uint64_t n_reports, n_requests, n_no_call, n_pooled, n_native, n_async, async_bytes, n_mapped,
        n_mapped_no_call, mapped_bytes, n_bypassed, n_foreign, run_ns;
    char forked[64]; /* the call of a forked child that could not use CUDA; "": there was none */
};

static void look_for_fork(struct totals *totals, struct json_object *harms) {
    for (size_t i = 0; harms && i < json_object_array_length(harms); i++) {
        struct json_object *harm = json_object_array_get_idx(harms, i);
        if (strcmp(json_text(harm, "fault"), "CUDA after fork") == 0)
            snprintf(totals->forked, sizeof totals->forked, "%s", json_text(harm, "call"));
    }
}

static void add(const struct cushim_report *report, const struct report_origin *origin,
                void *context) {
    struct totals *totals = context;
    if (origin->json)
        look_for_fork(totals, json_member((struct json_object *)origin->json, "harms"));
    totals->n_reports++;
    totals->n_requests += cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_requests);
    totals->n_no_call += cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_hits);
    totals->n_native += cushim_report_sum(report, CUSHIM_KIND_DEVICE, n_natively);
    totals->n_async += cushim_report_sum(report, CUSHIM_KIND_ASYNC, n_requests);
    totals->async_bytes += cushim_report_sum(report, CUSHIM_KIND_ASYNC, requested_bytes);
    totals->n_mapped += cushim_report_sum(report, CUSHIM_KIND_MAPPED, n_requests);
    totals->n_mapped_no_call += cushim_report_sum(report, CUSHIM_KIND_MAPPED, n_hits);
    totals->mapped_bytes += cushim_report_sum(report, CUSHIM_KIND_MAPPED, requested_bytes);
    totals->n_bypassed += cushim_mem_stats_read(&report->page.n_bypassed);
    totals->n_foreign += cushim_mem_stats_read(&report->page.n_foreign_frees);
    if (report->run_ns > totals->run_ns)
        totals->run_ns = report->run_ns;
}

/* One row for all reached processes of a program, because a script may start hundreds. */
static void tell_of_reached(const struct look *look, const struct seen *seen) {
    size_t n_more = 0;
    for (const struct seen *other = look->seen; other < look->seen + look->n_seen; other++) {
        if (other == seen || !other->is_reached || strcmp(other->path, seen->path) != 0)
            continue;
        if (other < seen) /* it has the row */
            return;
        n_more++;
    }
    if (n_more)
        report_ok("reached", "%ld %s, and %zu more", (long)seen->process, seen->path, n_more);
    else
        report_ok("reached", "%ld %s", (long)seen->process, seen->path);
}

static void tell_of_process(const struct look *look, struct seen *seen) {
    struct program program;
    const char *why = "its parent left LD_PRELOAD out";
    if (!seen->is_reached && !seen->is_loaded) /* it ended too early to tell */
        return;
    if (seen->is_reached) {
        tell_of_reached(look, seen);
        return;
    }
    cushim_utf8_clean(seen->path);
    if (program_inspect(&program, seen->path) == 0 && program_obstacle(&program))
        why = program_obstacle(&program);
    report_add(seen->has_driver ? REPORT_WRONG : REPORT_NOTE, "not reached", "%ld %s: %s%s",
               (long)seen->process, seen->path, why,
               seen->has_driver ? ", and it has a CUDA driver" : "");
}

static void tell_of_libraries(const struct look *look) {
    for (size_t i = 0; i < look->n_libraries; i++) {
        if (is_cache(look->libraries[i]))
            report_note("cache", "%s caches freed memory itself and rarely asks the driver",
                        look->libraries[i]);
        else
            report_ok("CUDA runtime", "%s", look->libraries[i]);
    }
    for (size_t i = 0; i < look->n_seen; i++) {
        struct program program;
        if (look->seen[i].is_reached && program_inspect(&program, look->seen[i].path) == 0 &&
            program.cudart == PROGRAM_CUDART_STATIC)
            report_ok("CUDA runtime", "static, inside %s", look->seen[i].path);
    }
}

static void tell_of_memory(const struct totals *totals) {
    uint64_t n_pooled = totals->n_requests - totals->n_native;
    if (totals->n_requests)
        report_add(n_pooled ? REPORT_OK : REPORT_WRONG, "pooled",
                   "%s of %s of device memory, %s without a driver call", CUSHIM_COUNT(n_pooled),
                   CUSHIM_SOME(totals->n_requests, "request"), CUSHIM_COUNT(totals->n_no_call));
    if (totals->n_async)
        report_note("forwarded", "%s in stream order, %s", CUSHIM_BYTES(totals->async_bytes),
                    CUSHIM_SOME(totals->n_async, "request"));
    if (totals->n_mapped_no_call)
        report_ok("pooled", "%s by cuMemCreate, %s, %s without a driver call",
                  CUSHIM_BYTES(totals->mapped_bytes), CUSHIM_SOME(totals->n_mapped, "request"),
                  CUSHIM_COUNT(totals->n_mapped_no_call));
    else if (totals->n_mapped)
        report_note("forwarded", "%s by cuMemCreate, %s", CUSHIM_BYTES(totals->mapped_bytes),
                    CUSHIM_SOME(totals->n_mapped, "request"));
    if (totals->n_bypassed)
        report_wrong("bypassed", "%s of memory whose allocation bypassed cushim",
                     CUSHIM_SOME(totals->n_bypassed, "free"));
    if (*totals->forked) {
        report_wrong("fork",
                     "%s was called in a child forked from a process that used CUDA: its "
                     "calls fail",
                     totals->forked);
        report_remedy("spawn instead of fork, or fork before CUDA is used");
    }
    if (totals->n_foreign)
        report_note("foreign", "%s of memory whose allocation was not seen",
                    CUSHIM_SOME(totals->n_foreign, "free"));
}

static void tell_of_hooks(const char *library) {
    const char *hook = probe_other_hook();
    if (!hook)
        return;
    if (probe_is_cut_off(library)) {
        report_wrong("hook", "%s answers dlsym before cushim", hook);
        report_remedy("put %s ahead of it in LD_PRELOAD", library);
    } else {
        report_note("hook", "%s answers dlsym, too, and passes look-ups on to cushim", hook);
    }
}

static void tell(struct look *look, const struct totals *totals, int status, uint64_t ns) {
    bool is_reached = false, is_missed = false;
    if (WIFSIGNALED(status))
        report_note("ran", "%s, and ended by signal %d (%s)", CUSHIM_TIME(ns), WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
    else
        report_add(WEXITSTATUS(status) ? REPORT_NOTE : REPORT_OK, "ran", "%s, exit status %d",
                   CUSHIM_TIME(ns), WEXITSTATUS(status));
    for (size_t i = 0; i < look->n_seen; i++) {
        is_reached |= look->seen[i].is_reached;
        is_missed |= look->seen[i].is_loaded && !look->seen[i].is_reached;
        tell_of_process(look, &look->seen[i]);
    }
    if (look->is_cut)
        report_note("processes", "there were more than %d", (int)MOST_SEEN);
    tell_of_libraries(look);
    tell_of_memory(totals);
    if (totals->n_requests || totals->n_async || totals->n_mapped)
        report_ok("effective", "yes: %s used CUDA memory",
                  CUSHIM_SOME(totals->n_reports, "process"));
    else if (is_reached || !is_missed)
        report_note("effective", "not seen: no process used CUDA memory that cushim can see");
    else
        report_wrong("effective", "no: the preload reached no process");
}

static void remove_folder(const char *folder) {
    DIR *open = opendir(folder);
    struct dirent *entry;
    while (open && (entry = readdir(open))) {
        if (*entry->d_name != '.')
            unlinkat(dirfd(open), entry->d_name, 0);
    }
    if (open)
        closedir(open);
    rmdir(folder);
}

int command_examine(char **argv, const char *library, bool is_quiet) {
    static struct look look;
    struct totals totals = {0};
    char folder[] = P_tmpdir "/cushim-doctor-XXXXXX", by[32];
    report_heading("the command");
    tell_of_hooks(library);
    if (!mkdtemp(folder)) {
        report_wrong("ran", "no folder %s: %s", folder, strerror(errno));
        return 0;
    }
    uint64_t start_ns = cushim_clock_ns();
    int status = run(&look, argv, folder, is_quiet);
    uint64_t ns = cushim_clock_ns() - start_ns;
    int number = WIFSIGNALED(status) && signals_have(WTERMSIG(status)) ? WTERMSIG(status) : 0;
    if (status == -1) {
        report_wrong("ran", "it could not be started: %s", strerror(errno));
    } else if (WIFEXITED(status) && !look.n_seen && WEXITSTATUS(status) >= 125) {
        report_wrong("ran", "%s could not be run, exit status %d", argv[0], WEXITSTATUS(status));
    } else {
        reports_of_folder(folder, add, &totals);
        tell(&look, &totals, status, ns);
    }
    if (number)
        report_wrong("doctor", "ended by %s before it had finished",
                     run_reports_signal(number, by));
    remove_folder(folder);
    return number;
}
