/*
 * The end of the process: the exit report, if one was asked for (HOOKS.md E).
 *
 * A destructor of this object, not an atexit handler: it runs after those of the program, so that
 * frees in static destructors are still counted; those that come even later are served, and not
 * counted.  What stdio still holds the C library writes later, behind anything that can be
 * registered here; its streams are the program's, so nothing is flushed (docs/hazards.md).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "preload/report.h"

static bool is_one_of(const char *text, const char *const *words) {
    for (; *words; words++) {
        if (strcasecmp(text, *words) == 0)
            return true;
    }
    return false;
}

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

static void write_report(const char *where) {
    static const char *const stderr_words[] = {"1", "stderr", "on", "true", "yes", NULL};
    char path[CUSHIM_OPTION_PATH_BYTES];
    struct cushim_writer writer = {.fd = STDERR_FILENO};
    bool is_file = !is_one_of(where, stderr_words);
    if (is_file) {
        if (!cushim_path_expand(path, sizeof path, where)) {
            log_error("stats", "the name of the report is too long: %s", where);
            return;
        }
        writer.fd = cushim_path_create(path);
        if (writer.fd < 0) {
            log_error("stats", "no report in %s: %s", path, strerror(errno));
            return;
        }
    }
    if (is_file && ends_in(path, ".json"))
        cushim_report_json(&writer);
    else
        cushim_report_text(&writer);
    cushim_writer_flush(&writer);
    if (is_file)
        close(writer.fd);
}

/* Is this the process that `cushim run` became, with a report asked for, and no child of it? */
static bool is_the_one_started(void) {
    const char *started = secure_getenv(CUSHIM_STARTED_VARIABLE);
    return started && strtol(started, NULL, 10) == (long)getpid();
}

static void say_that_there_is_none(void) {
    struct cushim_writer writer = {.fd = STDERR_FILENO};
    cushim_write(&writer, "cushim: %s used no CUDA memory that cushim can see, and has no report\n",
                 program_invocation_short_name);
    cushim_writer_flush(&writer);
}

__attribute__((destructor)) static void leave_process(void) {
    int state = atomic_load(&cushim_engine_state);
    bool is_on = state == CUSHIM_ENGINE_ON; /* off covers a forked child too */
    bool is_used = atomic_load(&cushim_engine.is_used);
    const char *where = cushim_engine.options.stats;
    if (is_on && is_used && *where)
        write_report(where);
    /* who used no memory has no report, and may never have read the options */
    else if (!is_used && (is_on || state == CUSHIM_ENGINE_UNREAD) && is_the_one_started())
        say_that_there_is_none();
}
