#include "tools/cushim/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/options.h"
#include "tools/cushim/options.h"
#include "tools/cushim/program.h"
#include "tools/cushim/usage.h"

/* glibc splits LD_PRELOAD at these. */
#define SEPARATORS " :"

/* Write the folder of this command, without a slash at its end; false if it is unknown. */
static bool find_here(char here[PATH_MAX]) {
    ssize_t n_bytes = readlink("/proc/self/exe", here, PATH_MAX - 1);
    if (n_bytes < 0)
        return false;
    here[n_bytes] = 0;
    *strrchr(here, '/') = 0;
    return true;
}

bool launch_find_library(const char *name, const char *build_folder, char path[PATH_MAX]) {
    const char *const places[] = {".", build_folder, CUSHIM_LIBRARY_FOLDER};
    char here[PATH_MAX];
    if (!find_here(here))
        return false;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char candidate[2 * PATH_MAX];
        bool is_absolute = places[i][0] == '/';
        snprintf(candidate, sizeof candidate, "%s%s%s/%s", is_absolute ? "" : here,
                 is_absolute ? "" : "/", places[i], name);
        if (realpath(candidate, path) && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

bool launch_find(char path[PATH_MAX], char wrong[LAUNCH_WRONG_BYTES]) {
    char here[PATH_MAX];
    if (!launch_find_library(LAUNCH_LIBRARY, "../../preload", path)) {
        if (find_here(here))
            snprintf(wrong, LAUNCH_WRONG_BYTES,
                     "no %s: it is neither beside %s/cushim nor in its %s", LAUNCH_LIBRARY, here,
                     CUSHIM_LIBRARY_FOLDER);
        else
            snprintf(wrong, LAUNCH_WRONG_BYTES, "/proc/self/exe cannot be read");
        return false;
    }
    if (!program_is_whole_library(path)) {
        snprintf(wrong, LAUNCH_WRONG_BYTES, "%s is damaged or incomplete; install it again", path);
        return false;
    }
    if (!strpbrk(path, SEPARATORS "$"))
        return true;
    snprintf(wrong, LAUNCH_WRONG_BYTES,
             "%s cannot be in LD_PRELOAD, because its path has a blank, a colon or a $; move it",
             path);
    return false;
}

/* Do the n bytes at `entry` end in the file name of the preload library? */
static bool is_ours(const char *entry, size_t n) {
    const size_t name_bytes = sizeof LAUNCH_LIBRARY - 1;
    if (n < name_bytes || memcmp(entry + n - name_bytes, LAUNCH_LIBRARY, name_bytes) != 0)
        return false;
    return n == name_bytes || entry[n - name_bytes - 1] == '/';
}

/*
 * Make a value of LD_PRELOAD that has `library` once, and all else of `now` (may be NULL) in its
 * order.  If `now` has a library of that file name, ours replaces it; otherwise ours comes last. If
 * `library` is NULL, the value has none of that file name.  Returns memory for free(3), or NULL
 * with errno.
 */
static char *merge(const char *now, const char *library) {
    if (!now)
        now = "";
    /* Every entry gets at most one colon; ours may replace a shorter one. */
    char *merged = malloc(2 * strlen(now) + (library ? strlen(library) : 0) + 2);
    if (!merged)
        return NULL;
    char *end = merged;
    bool is_in = !library;
    for (;;) {
        now += strspn(now, SEPARATORS);
        size_t n_bytes = strcspn(now, SEPARATORS);
        if (n_bytes == 0 && is_in)
            break;
        const char *entry = now;
        now += n_bytes;
        if (n_bytes == 0 || is_ours(entry, n_bytes)) {
            if (is_in)
                continue;
            is_in = true;
            entry = library;
            n_bytes = strlen(library);
        }
        if (end != merged)
            *end++ = ':';
        memcpy(end, entry, n_bytes);
        end += n_bytes;
    }
    *end = 0;
    return merged;
}

bool launch_set(const char *library) {
    char *merged = merge(getenv("LD_PRELOAD"), library);
    bool is_set =
        merged && (*merged ? setenv("LD_PRELOAD", merged, 1) : unsetenv("LD_PRELOAD")) == 0;
    free(merged);
    return is_set;
}

bool launch_inject(const char *library) {
    const char *range = getenv("CUSHIM_ARENA_RESET");
    return !range || !*range || setenv("NVTX_INJECTION64_PATH", library, 0) == 0;
}

bool launch_mark(bool is_wanted) {
    char process[24];
    snprintf(process, sizeof process, "%ld", (long)getpid());
    return is_wanted ? setenv(CUSHIM_STARTED_VARIABLE, process, 1) == 0
                     : unsetenv(CUSHIM_STARTED_VARIABLE) == 0;
}

static bool ends_in_one_of(const char *name, const char *endings) {
    const char *dot = strrchr(name, '.');
    const char *at = dot ? strstr(endings, dot) : NULL;
    return at && at[strlen(dot)] == ' ';
}

/* Is it a command of ours that people may put behind another, without `cushim`? */
static bool starts_programs(const char *name) {
    static const char *const commands[] = {"run", "record", "doctor", "sim"};
    size_t i = 0, n = sizeof commands / sizeof *commands;
    while (i < n && strcmp(name, commands[i]) != 0)
        i++;
    return i < n;
}

void launch_hint(const char *name, int error, char hint[LAUNCH_HINT_BYTES]) {
    const char *here = strchr(name, '/') ? "" : "./";
    char path[PATH_MAX];
    struct stat file;
    *hint = 0;
    snprintf(path, sizeof path, "%s%s", here, name);
    bool is_there = *name && stat(path, &file) == 0;
    if (is_there && S_ISDIR(file.st_mode))
        strcpy(hint, " (it is a folder)");
    else if (is_there && ends_in_one_of(name, ".c .cc .cpp .cxx .cu .h "))
        strcpy(hint, " (it is source code: compile it, and name the program)");
    else if (is_there && ends_in_one_of(name, ".py .ipynb "))
        snprintf(hint, LAUNCH_HINT_BYTES, " (did you mean python3 %s?)", name);
    else if (is_there && access(path, X_OK) != 0)
        snprintf(hint, LAUNCH_HINT_BYTES, " (is it a program?  chmod +x %s)", path);
    else if (is_there && *here)
        snprintf(hint, LAUNCH_HINT_BYTES, " (did you mean %s?)", path);
    else if (starts_programs(name))
        snprintf(hint, LAUNCH_HINT_BYTES, " (did you mean cushim %s?)", name);
    else if (is_there && error == ENOENT)
        strcpy(hint, " (the interpreter that it names is missing)");
    else if (*name != '=' && name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")] == '=')
        snprintf(hint, LAUNCH_HINT_BYTES, " (did you mean %s cushim ...?)", name);
    else if (strchr(name, ' '))
        snprintf(hint, LAUNCH_HINT_BYTES, " (did you mean %s, without quotes?)", name);
}

int launch_refused(int first, char **argv, int error) {
    const char *name = argv[first];
    char hint[LAUNCH_HINT_BYTES];
    launch_hint(name, error, hint);
    if (first > 0 && settings_would_take(argv[first - 1], name))
        snprintf(hint, sizeof hint, " (did you mean %s=%s?)", argv[first - 1], name);
    return complain_as(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT, "%s: %s%s",
                       *name ? name : "an empty name", strerror(error), hint);
}
