/*
 * A program that looks names up as it is told, one argument a step, and prints one line a step: the
 * object and the name that dladdr gives for the answer, or "none".
 *
 *   open:FILE  local:FILE  self  default      the handle for the steps that follow
 *   dlsym:NAME  dlvsym:NAME:VERSION           error: what dlerror says
 *   proc4:SYMBOL:VERSION:FLAGS  proc5:...     both ABIs of cuGetProcAddress, found by dlsym
 *   entry:SYMBOL:VERSION:FLAGS                cudaGetDriverEntryPointByVersion, found by dlsym
 *   null                                      both resolvers with arguments that are NULL
 *   inside:NAME                               each driver look-up makes this one inside, and one
 *                                             of cuMemAlloc; found: what they gave
 *   table  threads  close                     cuGetExportTable; threads of the process; dlclose
 *   replay:FILE                               proc4 and proc5 of each line: symbol, version, flags
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int proc4_fn(const char *, void **, int, unsigned long long);
typedef int proc5_fn(const char *, void **, int, unsigned long long, int *);
typedef int entry_fn(const char *, void **, unsigned, unsigned long long, int *);
typedef int table_fn(const void **, const void *);
typedef void on_lookup_fn(void (*)(void));

static void *handle = RTLD_DEFAULT;
static const char *inside;
static void *found_inside[2];

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void print(void *address) {
    Dl_info info;
    if (!address)
        puts("none");
    else if (!dladdr(address, &info))
        puts("nowhere");
    else
        printf("%s %s\n", base_name(info.dli_fname), info.dli_sname ? info.dli_sname : "?");
}

static void open_file(const char *file, int scope) {
    handle = dlopen(file, RTLD_NOW | scope);
    if (!handle) {
        puts("not loaded");
        exit(1);
    }
}

/* Called by the driver inside its resolver, which this asks again. */
static void look_inside(void) {
    static int is_inside;
    if (is_inside++ == 0) {
        proc5_fn *resolver = (proc5_fn *)dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2");
        found_inside[0] = dlsym(handle, inside);
        if (resolver)
            resolver("cuMemAlloc", &found_inside[1], 12000, 0, NULL);
    }
    is_inside--;
}

/* symbol, version, flags through one of the resolvers. */
static void proc(const char *resolver, const char *symbol, int version, unsigned long long flags) {
    void *pfn = (void *)resolver, *function = dlsym(handle, resolver);
    int result, status = -1;
    if (!function) {
        puts("no resolver");
        return;
    }
    if (!strcmp(resolver, "cuGetProcAddress"))
        result = ((proc4_fn *)function)(symbol, &pfn, version, flags);
    else if (!strcmp(resolver, "cuGetProcAddress_v2"))
        result = ((proc5_fn *)function)(symbol, &pfn, version, flags, &status);
    else
        result = ((entry_fn *)function)(symbol, &pfn, (unsigned)version, flags, &status);
    printf("%d %d ", result, status);
    print(pfn == resolver ? NULL : pfn);
}

static void replay(const char *path) {
    char symbol[128];
    int version;
    unsigned long long flags;
    FILE *file = fopen(path, "r");
    if (!file)
        abort();
    while (fscanf(file, "%127s %d %llu", symbol, &version, &flags) == 3) {
        const char *asked = strcmp(symbol, "-") ? symbol : "";
        proc("cuGetProcAddress", asked, version, flags);
        proc("cuGetProcAddress_v2", asked, version, flags);
    }
    fclose(file);
}

static void null_arguments(void) {
    void *pfn = NULL;
    int status = -1;
    proc4_fn *four = (proc4_fn *)dlsym(handle, "cuGetProcAddress");
    proc5_fn *five = (proc5_fn *)dlsym(handle, "cuGetProcAddress_v2");
    printf("%d %d ", four(NULL, &pfn, 12000, 0), four("cuMemAlloc", NULL, 12000, 0));
    printf("%d %d ", five(NULL, &pfn, 12000, 0, &status),
           five("cuMemAlloc", NULL, 12000, 0, &status));
    printf("%d ", five("cuMemAlloc", &pfn, 12000, 0, NULL));
    print(pfn);
}

static unsigned count_threads(void) {
    unsigned n = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && readdir(tasks))
        n++;
    closedir(tasks);
    return n - 2;
}

static void step(const char *verb, const char *name, const char *second, const char *third) {
    if (!strcmp(verb, "open") || !strcmp(verb, "local"))
        open_file(name, verb[0] == 'o' ? RTLD_GLOBAL : RTLD_LOCAL);
    else if (!strcmp(verb, "self"))
        handle = dlopen(NULL, RTLD_NOW);
    else if (!strcmp(verb, "default"))
        handle = RTLD_DEFAULT;
    else if (!strcmp(verb, "close"))
        dlclose(handle);
    else if (!strcmp(verb, "dlsym"))
        print(dlsym(handle, name));
    else if (!strcmp(verb, "dlvsym"))
        print(dlvsym(handle, name, second));
    else if (!strcmp(verb, "error")) {
        const char *error = dlerror();
        puts(error ? error : "no error");
    } else if (!strcmp(verb, "proc4"))
        proc("cuGetProcAddress", name, atoi(second), strtoull(third, NULL, 0));
    else if (!strcmp(verb, "proc5"))
        proc("cuGetProcAddress_v2", name, atoi(second), strtoull(third, NULL, 0));
    else if (!strcmp(verb, "entry"))
        proc("cudaGetDriverEntryPointByVersion", name, atoi(second), strtoull(third, NULL, 0));
    else if (!strcmp(verb, "null"))
        null_arguments();
    else if (!strcmp(verb, "inside")) {
        inside = name;
        ((on_lookup_fn *)dlsym(handle, "fake_on_lookup"))(look_inside);
    } else if (!strcmp(verb, "found"))
        print(found_inside[0]), print(found_inside[1]);
    else if (!strcmp(verb, "table")) {
        const void *table = NULL;
        printf("%d\n", ((table_fn *)dlsym(handle, "cuGetExportTable"))(&table, NULL));
    } else if (!strcmp(verb, "threads"))
        printf("%u\n", count_threads());
    else if (!strcmp(verb, "replay"))
        replay(name);
    else
        abort();
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        char *part[4] = {argv[i], NULL, NULL, NULL};
        for (int n = 1; n < 4 && part[n - 1]; n++) {
            char *colon = strchr(part[n - 1], ':');
            if (colon)
                *colon++ = '\0';
            part[n] = colon;
        }
        step(part[0], part[1], part[2], part[3]);
    }
    return 0;
}
