#include "tools/cushim/cache/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool cache_path(const char *name, char path[PATH_MAX]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache && *cache == '/')
        n = snprintf(path, PATH_MAX, "%s/cushim/%s", cache, name);
    else if (home && *home == '/')
        n = snprintf(path, PATH_MAX, "%s/.cache/cushim/%s", home, name);
    return n > 0 && n < PATH_MAX;
}

void cache_make_folders(const char *path) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(folder, 0700);
        *slash = '/';
    }
}
