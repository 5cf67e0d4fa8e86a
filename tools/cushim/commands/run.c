#include "tools/cushim/commands/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/options.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/commands.h"
#include "tools/cushim/guard.h"
#include "tools/cushim/launch.h"
#include "tools/cushim/doctor/probe.h"
#include "tools/cushim/program.h"
#include "tools/cushim/options.h"
#include "tools/cushim/pages.h"
#include "tools/cushim/run_reports.h"
#include "tools/cushim/usage.h"
#include "tools/cushim/wait.h"

/* Print one line that says what the option costs. */
static void tell_what_relaxed_gives_up(int n_options, char **options) {
    int i = 1;
    while (i < n_options && strcasecmp(options[i], "--free=relaxed") != 0)
        i++;
    if (i < n_options)
        complain("--free=relaxed: cudaFree no longer waits for the GPU.  Data that kernels write "
                 "to host memory, printf output and errors are complete only after you "
                 "synchronise");
}

/* If the preload cannot be in the program, print one line and set `is_named`; the program runs
 * all the same.  Returns true if LD_PRELOAD must not name the preload at all. */
static bool warn_where_out_of_reach(const char *name, bool *is_named) {
    char path[PATH_MAX];
    struct program program;
    *is_named = false;
    if (program_find(name, path) != 0 || program_inspect(&program, path) != 0)
        return false;
    const char *obstacle = program_obstacle(&program);
    bool is_unfit = program.link == PROGRAM_MUSL || program.link == PROGRAM_OLD_GLIBC;
    if (obstacle)
        complain("%s %s: %s, and it runs without cushim",
                 *program.interpreter ? program.interpreter : name, obstacle,
                 is_unfit ? "its loader cannot take our library" : "LD_PRELOAD does not reach it");
    *is_named = obstacle != NULL;
    return is_unfit;
}

/* Print one line if another preload answers dlsym before ours. */
static void warn_where_cut_off(const char *library) {
    const char *hook = probe_other_hook();
    if (hook && probe_is_cut_off(library))
        complain(
            "%s answers dlsym before cushim: look-ups of the CUDA driver by dlsym bypass cushim; "
            "put %s ahead of it in LD_PRELOAD",
            hook, library);
}

/* `cushim doctor` started us, so no line sends the user there.  It says itself whether the program
 * used memory. */
static bool is_from_doctor;

/* Print one line if no page can be made.  Returns what to say at the end if the program has no
 * report, because without a page nobody knows what it used.  Returns NULL if this line said
 * enough. */
static const char *tell_of_page(const char *name, bool is_left_out) {
    char why[PAGES_WHY_BYTES];
    const char *live = getenv("CUSHIM_LIVE");
    bool is_wished = !is_left_out && !settings_are_off() && live && !cushim_option_is_off(live);
    if (is_wished && pages_can_be_made(why))
        return "itself used no CUDA memory that cushim can see, or could not write its report";
    if (is_wished && errno != EMFILE) { /* without descriptors the driver cannot work either */
        complain("no live page of %s: %s", name, why);
        return NULL;
    }
    return "has no report: it used no CUDA memory that cushim can see, or had no live page";
}

int run_program(int first, char **argv, bool waits, wait_end_fn *at_end, void *context) {
    char library[PATH_MAX], wrong[LAUNCH_WRONG_BYTES];
    if (!launch_find(library, wrong))
        return complain_as(EXIT_OURS, "%s", wrong);
    bool is_named, is_left_out = warn_where_out_of_reach(argv[first], &is_named);
    if (!launch_set(is_left_out ? NULL : library) || (!is_left_out && !launch_inject(library)) ||
        !launch_mark(!is_left_out && settings_want_word()))
        return complain_as(EXIT_OURS, "the environment cannot be set: %s", strerror(errno));
    char where[SETTINGS_PATH_BYTES], path[PATH_MAX];
    bool has_report = !is_left_out && settings_report(where);
    int error = has_report ? run_reports_can_be_made(where, path) : 0;
    if (error) /* say so now rather than after hours */
        return complain_as(EXIT_OURS, "no report can be made in %s: %s", *path ? path : where,
                           strerror(error));
    if (!is_left_out) {
        tell_what_relaxed_gives_up(first, argv);
        warn_where_cut_off(library);
        if (settings_are_told() && !settings_are_off())
            complain("%s starts with %s preloaded; the line `active` follows when it first comes "
                     "to CUDA memory",
                     argv[first], library);
    }
    if (!is_left_out && !settings_are_off() &&
        (setenv("CUSHIM_LIVE", "1", 0) != 0 || setenv("CUSHIM_OOM", "full", 0) != 0))
        return EXIT_OURS;
    const char *none = tell_of_page(argv[first], is_left_out);
    pages_prune();
    if ((waits && has_report) || at_end)
        wait_for(argv + first, waits && has_report ? where : NULL,
                 is_named || is_from_doctor ? NULL : none, at_end, context);
    else
        execvp(argv[first], argv + first);
    return launch_refused(first, argv, errno);
}

static void end_guard(pid_t process, int status, void *context) {
    (void)process, (void)status, (void)context;
    guard_end();
}

int run_main(int argc, char **argv) {
    bool becomes = false;
    const char *suspend = NULL;
    const struct argument rows[] = {{"--no-wait", .flag = &becomes},
                                    {"--suspend", .text = &suspend},
                                    {"--from-doctor", .flag = &is_from_doctor},
                                    {0}};
    int first = arguments_program("run", rows, NULL, settings_take, true, argc, argv);
    if (suspend && becomes)
        usage_error("run", "--suspend waits for the program's end, and --no-wait does not");
    if (suspend && !guard_begin(suspend))
        return EXIT_OURS;
    int code = run_program(first, argv, !becomes, suspend ? end_guard : NULL, NULL);
    guard_end(); /* it was not started */
    return code;
}
