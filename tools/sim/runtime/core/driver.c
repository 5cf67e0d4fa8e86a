#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

enum { FLAG_LEGACY = 0, FLAG_PER_THREAD = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };

struct simrt_driver simrt_legacy;
struct simrt_driver simrt_per_thread;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t verdict;

/* One row of driver.def, with the place of its slot. */
struct row {
    const char *asked_as;
    size_t offset;
    int since;
    int per_thread;
};

static const struct row rows[] = {
#define CALL(abi, asked_as, since, per_thread)                                                     \
    {asked_as, offsetof(struct simrt_driver, abi), since, per_thread},
#include "driver.def"
#undef CALL
};

/* An address arrives as void *, and ISO C has no cast from it to a function, so copy the bytes. */
static void put(struct simrt_driver *table, size_t offset, void *address) {
    memcpy((char *)table + offset, &address, sizeof address);
}

static void *ask(const char *name, int version, int flags) {
    CUdriverProcAddressQueryResult status;
    void *address = NULL;
    CUresult result =
        simrt_legacy.cuGetProcAddress_v2(name, &address, version, (cuuint64_t)flags, &status);
    return result == CUDA_SUCCESS ? address : NULL;
}

/* In the order of NVIDIA's runtime: the empty name, the resolver in both its forms, all others. */
static cudaError_t fill_tables(void) {
    ask("", SIMRT_VERSION, FLAG_LEGACY);
    ask("cuGetProcAddress", 11030, FLAG_LEGACY);
    void *resolver = ask("cuGetProcAddress", 12000, FLAG_LEGACY);
    if (!resolver)
        return cudaErrorInsufficientDriver;
    put(&simrt_legacy, offsetof(struct simrt_driver, cuGetProcAddress_v2), resolver);
    put(&simrt_per_thread, offsetof(struct simrt_driver, cuGetProcAddress_v2), resolver);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        void *plain = ask(row->asked_as, row->since, FLAG_LEGACY);
        void *per_thread =
            row->per_thread ? ask(row->asked_as, row->per_thread, FLAG_PER_THREAD) : plain;
        if (!plain || !per_thread)
            return cudaErrorInsufficientDriver;
        put(&simrt_legacy, row->offset, plain);
        put(&simrt_per_thread, row->offset, per_thread);
    }
    return cudaSuccess;
}

static void load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *resolver = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (!resolver) {
        verdict = cudaErrorInsufficientDriver;
        return;
    }
    put(&simrt_legacy, offsetof(struct simrt_driver, cuGetProcAddress_v2), resolver);
    verdict = fill_tables();
    if (verdict == cudaSuccess)
        verdict = simrt_from_cu(simrt_legacy.cuInit(0));
}

cudaError_t simrt_driver_load(void) {
    pthread_once(&once, load);
    return verdict;
}
