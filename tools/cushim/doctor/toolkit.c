#include "tools/cushim/doctor/toolkit.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cushim/launch.h"
#include "tools/cushim/program.h"

/* CUDA_VERSION of a toolkit's <cuda.h>, 0 if it cannot be read. */
static int version_in(const char *folder) {
    char path[PATH_MAX + 32], line[256];
    int version = 0;
    snprintf(path, sizeof path, "%s/include/cuda.h", folder);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    while (!version && fgets(line, sizeof line, file)) {
        if (sscanf(line, "#define CUDA_VERSION %d", &version) != 1)
            version = 0;
    }
    fclose(file);
    return version;
}

static void look_in(struct toolkit *found, const char *folder) {
    if (found->version >= TOOLKIT_LEAST || !folder || !*folder)
        return;
    int version = version_in(folder);
    if (version < TOOLKIT_LEAST && found->version)
        return;
    found->version = version;
    snprintf(found->folder, sizeof found->folder, "%s", folder);
}

/* Write the folder above that of a program on PATH.  If `is_followed`, links are followed. */
static bool prefix_of(const char *name, bool is_followed, char prefix[PATH_MAX]) {
    char path[PATH_MAX];
    if (program_find(name, path) != 0 || (is_followed && !realpath(path, prefix)))
        return false;
    if (!is_followed)
        memcpy(prefix, path, PATH_MAX);
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(prefix, '/');
        if (!slash)
            return false;
        *slash = 0;
    }
    return true;
}

/* Look in packages of pip.  Links are not followed, because python3 of a virtual environment is
 * a link out of it. */
static void look_in_packages(struct toolkit *found) {
    char prefix[PATH_MAX], pattern[PATH_MAX + 80];
    glob_t folders;
    if (!prefix_of("python3", false, prefix))
        return;
    snprintf(pattern, sizeof pattern,
             "%s/{lib,local/lib}/python3*/{site,dist}-packages/nvidia/cu13", prefix);
    if (glob(pattern, GLOB_BRACE, NULL, &folders) == 0) {
        for (size_t i = 0; i < folders.gl_pathc; i++)
            look_in(found, folders.gl_pathv[i]);
        globfree(&folders);
    }
}

/* Look at what tools/quickstart or tools/check fetched into the build tree of this command. */
static void look_in_tree(struct toolkit *found) {
    char folder[PATH_MAX], fetched[PATH_MAX];
    if (!launch_find_here(folder))
        return;
    for (char *slash = folder + strlen(folder); slash; slash = strrchr(folder, '/')) {
        *slash = 0;
        snprintf(fetched, sizeof fetched, "%.*s/build-cuda/toolkit", PATH_MAX - 32, folder);
        look_in(found, fetched);
    }
}

bool toolkit_find(struct toolkit *found) {
    char of_nvcc[PATH_MAX];
    *found = (struct toolkit){.version = 0};
    look_in(found, getenv("CUDA_HOME"));
    if (prefix_of("nvcc", true, of_nvcc))
        look_in(found, of_nvcc);
    look_in(found, "/usr/local/cuda");
    look_in_packages(found);
    look_in_tree(found);
    return found->version != 0;
}
