#include "base/vet.h"

#include <dlfcn.h>
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

const char *cushim_vet_refusal(const char *name) {
    const char *text = dlerror();
    size_t n_bytes = strlen(name);
    if (!text)
        return "unknown";
    return strncmp(text, name, n_bytes) == 0 && strncmp(text + n_bytes, ": ", 2) == 0
               ? text + n_bytes + 2
               : text;
}
