#include "report/report_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
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

/* ---- names ---- */

bool cushim_report_is_folder(const char *where, const char *folder) {
    char path[PATH_MAX];
    struct stat status;
    size_t n = strlen(where);
    bool is_relative = *where != '/' && *folder;
    if (!n || where[n - 1] == '/')
        return n;
    n = (size_t)snprintf(path, sizeof path, "%s%s%s", is_relative ? folder : "",
                         is_relative ? "/" : "", where);
    return n < sizeof path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool cushim_report_is_shared(const char *where, const char *folder) {
    return cushim_report_descriptor(where) >= 0 ||
           (!cushim_path_has(where, "prnq") && !cushim_report_is_folder(where, folder));
}

/*
 * The name with its places; false: it is too long.  Ranks of one job have the same command line, so
 * a name without a place for them gets the rank before its ending, unless there is only one rank.
 */
static bool choose_pattern(char pattern[PATH_MAX], const char *where, const char *folder,
                           bool is_apart, long rank, long ranks) {
    int n;
    if (cushim_report_is_folder(where, folder)) {
        n = snprintf(pattern, PATH_MAX, "%s/%s%%p-%%n.json", where, rank < 0 ? "" : "%r-");
        return n < PATH_MAX;
    }
    bool is_of_rank = rank >= 0 && ranks != 1 && !cushim_path_has(where, "prnq");
    if (is_apart && !cushim_path_has(where, "prn"))
        return cushim_path_tell_apart(pattern, PATH_MAX, where, is_of_rank ? "%r-%p" : "%p");
    if (is_of_rank)
        return cushim_path_tell_apart(pattern, PATH_MAX, where, "%r");
    return snprintf(pattern, PATH_MAX, "%s", where) < PATH_MAX;
}

static bool name_file(char path[PATH_MAX], const char *pattern, const char *folder,
                      const struct cushim_path_places *places) {
    size_t n = 0;
    if (*pattern != '/' && *folder)
        n = (size_t)snprintf(path, PATH_MAX, "%s/", folder);
    return n < PATH_MAX && cushim_path_expand(path + n, PATH_MAX - n, pattern, places);
}

bool cushim_report_name(char path[PATH_MAX], const char *where, long process) {
    struct cushim_path_places places = {process, cushim_path_rank(), 0};
    char pattern[PATH_MAX];
    return choose_pattern(pattern, where, "", false, places.rank, cushim_path_ranks()) &&
           name_file(path, pattern, "", &places);
}

/* ---- writing ---- */

bool cushim_report_is_json(const char *path) {
    return cushim_path_ends_in(path, ".json");
}

/* 0 or an errno; EEXIST if the name must be new and is not. */
static int write_file(const char *path, bool is_new, const struct cushim_report *report) {
    struct cushim_draft draft;
    if (is_new && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return EEXIST;
    int error = cushim_draft_begin(&draft, path);
    if (error)
        return error;
    draft.is_new = is_new;
    struct cushim_writer writer = {.fd = draft.fd};
    if (cushim_report_is_json(path))
        cushim_report_json(&writer, report);
    else
        cushim_report_text(&writer, report);
    cushim_writer_flush(&writer);
    return cushim_draft_end(&draft, writer.error);
}

static int write_report(const char *where, const char *folder, bool is_apart,
                        const struct cushim_report *report, char path[PATH_MAX]) {
    enum { MOST_NUMBERS = 10000 };
    struct cushim_writer writer = {.fd = cushim_report_descriptor(where)};
    struct cushim_path_places places = {(long)report->page.head.process,
                                        (long)report->page.head.rank, 0};
    char pattern[PATH_MAX];
    int error = EEXIST;
    *path = 0;
    if (writer.fd >= 0) {
        cushim_report_text(&writer, report);
        cushim_writer_flush(&writer);
        return writer.error;
    }
    bool fits = choose_pattern(pattern, where, folder, is_apart, places.rank,
                               (long)report->page.head.ranks);
    bool is_numbered = fits && cushim_path_has(pattern, "n");
    for (; fits && error == EEXIST && places.number < MOST_NUMBERS; places.number++) {
        fits = name_file(path, pattern, folder, &places);
        if (fits)
            error = write_file(path, is_numbered, report);
        if (!is_numbered)
            break;
    }
    if (!fits)
        *path = 0;
    return fits ? error : ENAMETOOLONG;
}

int cushim_report_write(const char *where, const char *folder, bool is_apart,
                        const struct cushim_report *report, char path[PATH_MAX]) {
    int cancel = cushim_cancel_hold();
    int error = write_report(where, folder, is_apart, report, path);
    cushim_cancel_let(cancel);
    return error;
}
