/*
 * A libcuda.so.1 for tests of the resolver: it exports every name of the driver and answers
 * look-ups by (symbol, version, flags) as the real one does; behind the names is nothing.
 *
 *   FAKE_CUDA_LOG=FILE   each look-up adds a line: symbol ("-" for the empty one), version, flags
 *   FAKE_CUDA_THUNKS=1   the answers are other functions than the exports (interposition.md B14)
 *   FAKE_CUDA_TABLES=1   cuGetExportTable looks names up and then knows no table; without it the
 *                        process ends there: private tables are not emulated (interposition.md G)
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_FOUND = 500, PER_THREAD = 2 };
enum { STATUS_FOUND = 0, STATUS_NO_SYMBOL = 1, STATUS_OLD = 2 };

#define HAND(abi, symbol, since, per_thread) NUMBER_##abi,
#define ROW(abi, symbol, since, per_thread)  NUMBER_##abi,
enum {
#include "fake_rows.def"
    N_ROWS
};
#undef HAND
#undef ROW

/* The exports and, for the thunks, a second function each; each returns a number of its own. */
#define HAND(abi, symbol, since, per_thread)
#define ROW(abi, symbol, since, per_thread)                                                        \
    FAKE_EXPORT int abi(void);                                                                     \
    FAKE_EXPORT int abi(void) {                                                                    \
        return -NUMBER_##abi;                                                                      \
    }                                                                                              \
    static int thunk_##abi(void) {                                                                 \
        return N_ROWS + NUMBER_##abi;                                                              \
    }
#include "fake_rows.def"
#undef HAND
#undef ROW

static const struct row {
    void *exported, *thunk;
    const char *symbol;
    int since, per_thread;
} rows[] = {
#define HAND(abi, symbol, since, per_thread) {(void *)abi, (void *)abi, symbol, since, per_thread},
#define ROW(abi, symbol, since, per_thread)                                                        \
    {(void *)abi, (void *)thunk_##abi, symbol, since, per_thread},
#include "fake_rows.def"
#undef HAND
#undef ROW
};

#ifdef PADDING_BYTES
FAKE_EXPORT char fake_padding[PADDING_BYTES]; /* does not fit where a smaller one was unloaded */
#endif

static void (*callback)(void);

FAKE_EXPORT void fake_on_lookup(void (*function)(void)) {
    callback = function;
}

FAKE_EXPORT void *fake_resolver(void) {
    return (void *)cuGetProcAddress_v2;
}

static void note(const char *symbol, int version, unsigned long long flags) {
    char line[256];
    const char *path = getenv("FAKE_CUDA_LOG");
    if (!path)
        return;
    int n = snprintf(line, sizeof line, "%s %d %llu\n", symbol[0] ? symbol : "-", version, flags);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

static const struct row *find(const char *symbol, int version, int per_thread, int *status) {
    const struct row *best = NULL;
    for (const struct row *row = rows; row < rows + N_ROWS; row++) {
        if (strcmp(row->symbol, symbol) != 0 || row->per_thread != per_thread)
            continue;
        if (row->since > version && *status == STATUS_NO_SYMBOL)
            *status = STATUS_OLD;
        else if (row->since <= version && (!best || row->since > best->since))
            best = row;
    }
    return best;
}

FAKE_EXPORT int cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
                                    unsigned long long flags, int *out) {
    int status = STATUS_NO_SYMBOL;
    if (!symbol || !pfn)
        return INVALID_VALUE;
    note(symbol, version, flags);
    if (callback)
        callback();
    const struct row *row = flags == PER_THREAD ? find(symbol, version, 1, &status) : NULL;
    if (!row)
        row = find(symbol, version, 0, &status);
    *pfn = !row ? NULL : getenv("FAKE_CUDA_THUNKS") ? row->thunk : row->exported;
    if (out)
        *out = row ? STATUS_FOUND : status;
    return row || out ? SUCCESS : NOT_FOUND;
}

FAKE_EXPORT int cuGetProcAddress(const char *symbol, void **pfn, int version,
                                 unsigned long long flags) {
    return cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);
}

/* As drivers 570 and later do: look names up, in a thread that holds whatever the caller holds. */
FAKE_EXPORT int cuGetExportTable(const void **table, const void *id) {
    void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *pfn = NULL;
    (void)id;
    if (!getenv("FAKE_CUDA_TABLES"))
        _exit(0);
    if (dlsym(self, "cuMemAlloc_v2") != (void *)cuMemAlloc_v2)
        return INVALID_VALUE;
    if (cuGetProcAddress_v2("cuMemFree", &pfn, 3020, 0, NULL) != SUCCESS || !pfn)
        return INVALID_VALUE;
    *table = NULL;
    return NOT_FOUND;
}
