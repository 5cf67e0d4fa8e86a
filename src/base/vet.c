#include "base/vet.h"

#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

static bool is_writable_by_all(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && (facts.st_mode & S_IWOTH);
}

const char *cushim_vet_library(const char *path) {
    char folder[PATH_MAX];
    if (path[0] != '/')
        return "not an absolute path";
    if (strlen(path) >= sizeof folder)
        return "path too long";
    if (is_writable_by_all(path))
        return "file is writable by everybody";
    strcpy(folder, path);
    return is_writable_by_all(dirname(folder)) ? "folder is writable by everybody" : NULL;
}
