/*
 * A preload in front of ours, to see what a runtime is given: it answers dlsym for
 * cuGetProcAddress_v2 with a function that asks ours and writes one line a look-up to WITNESS_LOG:
 * symbol, version, flags, the object that holds the answer and its name there.  For all other names
 * it calls the next dlsym, which it finds in the symbol table of our object, so that it is a second
 * interposer as well.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/resolve/elf.h"

typedef void *dlsym_fn(void *, const char *);
typedef int proc5_fn(const char *, void **, int, unsigned long long, int *);

static proc5_fn *next_proc;

static void note(const char *symbol, int version, unsigned long long flags, void *pfn) {
    char line[512];
    Dl_info info = {"none", NULL, "none", NULL};
    if (pfn)
        dladdr(pfn, &info);
    const char *slash = strrchr(info.dli_fname, '/');
    int n =
        snprintf(line, sizeof line, "%s %d %llu %s %s\n", symbol[0] ? symbol : "-", version, flags,
                 slash ? slash + 1 : info.dli_fname, info.dli_sname ? info.dli_sname : "?");
    int fd = open(getenv("WITNESS_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

static int proc(const char *symbol, void **pfn, int version, unsigned long long flags,
                int *status) {
    int result = next_proc(symbol, pfn, version, flags, status);
    note(symbol, version, flags, *pfn);
    if (*pfn && !strcmp(symbol, "cuGetProcAddress") && version >= 12000) {
        next_proc = (proc5_fn *)*pfn; /* the runtime goes on with this one */
        *pfn = (void *)proc;
    }
    return result;
}

static dlsym_fn *next_dlsym(void) {
    struct cushim_object ours;
    if (!cushim_object_list("libcushim-preload", "dlsym", &ours, 1))
        abort();
    return (dlsym_fn *)cushim_object_symbol(&ours, "dlsym");
}

__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name) {
    void *found = next_dlsym()(handle, name);
    if (!found || strcmp(name, "cuGetProcAddress_v2") || !getenv("WITNESS_LOG"))
        return found;
    next_proc = (proc5_fn *)found;
    return (void *)proc;
}
