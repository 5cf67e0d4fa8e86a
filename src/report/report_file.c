#include "report/report_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/draft.h"
#include "base/path.h"

int cushim_report_descriptor(const char *where) {
    static const char *const errors[] = {"1", "stderr", "on", "true", "yes", "/dev/stderr"};
    static const char *const output[] = {"-", "stdout", "/dev/stdout"};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (strcasecmp(where, errors[i]) == 0)
            return STDERR_FILENO;
    }
    for (size_t i = 0; i < sizeof output / sizeof *output; i++) {
        if (strcasecmp(where, output[i]) == 0)
            return STDOUT_FILENO;
    }
    return -1;
}

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* "report.json" becomes "report-%p.json", where the name has no place for the process. */
static bool tell_apart(char pattern[PATH_MAX], const char *where) {
    const char *name = strrchr(where, '/'), *dot = strrchr(where, '.');
    name = name ? name + 1 : where;
    if (strstr(where, "%p"))
        return snprintf(pattern, PATH_MAX, "%s", where) < PATH_MAX;
    if (!dot || dot <= name)
        dot = where + strlen(where);
    return snprintf(pattern, PATH_MAX, "%.*s-%%p%s", (int)(dot - where), where, dot) < PATH_MAX;
}

static bool name_file(char path[PATH_MAX], const char *where, const char *folder, bool is_apart,
                      long process) {
    char pattern[PATH_MAX];
    size_t n = 0;
    if (is_apart && !tell_apart(pattern, where))
        return false;
    if (*where != '/' && *folder)
        n = (size_t)snprintf(path, PATH_MAX, "%s/", folder);
    return n < PATH_MAX &&
           cushim_path_expand_for(path + n, PATH_MAX - n, is_apart ? pattern : where, process);
}

int cushim_report_write(const char *where, const char *folder, bool is_apart,
                        const struct cushim_report *report, char path[PATH_MAX]) {
    struct cushim_writer writer = {.fd = cushim_report_descriptor(where)};
    struct cushim_draft draft;
    *path = 0;
    if (writer.fd >= 0) {
        cushim_report_text(&writer, report);
        cushim_writer_flush(&writer);
        return writer.error;
    }
    if (!name_file(path, where, folder, is_apart, (long)report->page.head.process)) {
        *path = 0;
        return ENAMETOOLONG;
    }
    int error = cushim_draft_begin(&draft, path);
    if (error)
        return error;
    writer.fd = draft.fd;
    if (ends_in(path, ".json"))
        cushim_report_json(&writer, report);
    else
        cushim_report_text(&writer, report);
    cushim_writer_flush(&writer);
    return cushim_draft_end(&draft, writer.error);
}
