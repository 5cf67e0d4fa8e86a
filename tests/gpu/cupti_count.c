/*
 * Counts the driver's allocation calls as the driver sees them, below any preload.
 *
 *   CUDA_INJECTION64_PATH=libcupti_count.so CUPTI_COUNT=FILE program
 *
 * The driver loads this library in cuInit and calls InitializeInjection.  FILE.<pid> then holds
 * rows of 64 bytes, a name of 48 and two 64-bit counts: calls that succeeded, calls that failed.
 * It is a shared mapping, so that it is complete even if the program ends by _exit or a signal.
 */
#include <cupti.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNTED(X)                                                                                 \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemFree_v2)                                                                                \
    X(cuMemAllocPitch_v2)                                                                          \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemHostAlloc_v2)                                                                           \
    X(cuMemAllocHost_v2)                                                                           \
    X(cuMemFreeHost)                                                                               \
    X(cuMemAllocAsync)                                                                             \
    X(cuMemAllocAsync_ptsz)                                                                        \
    X(cuMemAllocFromPoolAsync)                                                                     \
    X(cuMemAllocFromPoolAsync_ptsz)                                                                \
    X(cuMemFreeAsync)                                                                              \
    X(cuMemFreeAsync_ptsz)                                                                         \
    X(cuMemCreate)                                                                                 \
    X(cuMemRelease)

struct row {
    char name[48];
    atomic_ullong n_good, n_bad;
};

#define NUMBER(name) ROW_##name,
/* The pool's barrier during a capture frees a block of one byte, which it does not count. */
enum { COUNTED(NUMBER) ROW_ONE_BYTE, N_ROWS };

static struct row *rows;

#define IS_ROW(name)                                                                               \
    case CUPTI_DRIVER_TRACE_CBID_##name:                                                           \
        return ROW_##name;

static int row_of(CUpti_CallbackId id) {
    switch (id) {
        COUNTED(IS_ROW)
    default:
        return -1;
    }
}

static void CUPTIAPI count(void *cookie, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                           const void *data) {
    const CUpti_CallbackData *call = data;
    int number = row_of(id);
    (void)cookie;
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API || number < 0 || call->callbackSite != CUPTI_API_EXIT)
        return;
    CUresult answer = *(const CUresult *)call->functionReturnValue;
    atomic_fetch_add(answer == CUDA_SUCCESS ? &rows[number].n_good : &rows[number].n_bad, 1);
    if (number == ROW_cuMemAlloc_v2 && answer == CUDA_SUCCESS &&
        ((const cuMemAlloc_v2_params *)call->functionParams)->bytesize == 1)
        atomic_fetch_add(&rows[ROW_ONE_BYTE].n_good, 1);
}

/* Opens the file; NULL if that fails. */
static struct row *map_rows(const char *path) {
    char name[4096];
    size_t n_bytes = N_ROWS * sizeof(struct row);
    snprintf(name, sizeof name, "%s.%ld", path, (long)getpid());
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return NULL;
    void *memory = MAP_FAILED;
    if (ftruncate(file, (off_t)n_bytes) == 0)
        memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

#define NAME_ROW(function) strcpy(rows[ROW_##function].name, #function);
#define ENABLE(function)                                                                           \
    failure |= cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,                      \
                                   CUPTI_DRIVER_TRACE_CBID_##function);

int InitializeInjection(void);

__attribute__((visibility("default"))) int InitializeInjection(void) {
    CUpti_SubscriberHandle subscriber;
    const char *path = getenv("CUPTI_COUNT");
    if (!path || rows)
        return 1;
    rows = map_rows(path);
    if (!rows)
        return 1;
    int failure = cuptiSubscribe(&subscriber, count, NULL);
    if (!failure) {
        COUNTED(ENABLE)
    }
    if (!failure) {
        strcpy(rows[ROW_ONE_BYTE].name, "cuMemAlloc_v2 of one byte");
        COUNTED(NAME_ROW) /* a file without names means that nothing was counted */
    }
    return 1;
}
