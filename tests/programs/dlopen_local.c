/*
 * A program without CUDA opens a library that is linked to the runtime in a private scope, as
 * plugins and language bindings are opened, closes it, and opens it again.
 *
 *   dlopen_local LIBRARY [--rounds N]
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t work(const char *path, size_t n_rounds) {
    size_t (*part_work)(size_t) = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *address = library ? dlsym(library, "part_work") : NULL;
    if (!address) {
        fprintf(stderr, "dlopen_local: %s\n", dlerror());
        exit(1);
    }
    memcpy(&part_work, &address, sizeof part_work);
    size_t n_right = part_work(n_rounds);
    dlclose(library);
    return n_right;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "dlopen_local_part.so";
    size_t n_rounds = argc > 3 ? (size_t)strtoull(argv[3], NULL, 0) : 100;
    size_t n_right = work(path, n_rounds) + work(path, n_rounds);
    printf("dlopen_local: %zu of %zu right\n", n_right, 2 * n_rounds);
    return n_right != 2 * n_rounds;
}
