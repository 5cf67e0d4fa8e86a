/*
 * What a malloc and free pair costs while the device is idle, size by size.
 *
 *   pair [--api runtime|driver] [--threads N] [--ms N] [--sizes 512,4K,1M]
 *
 * Every size is checked first: an address, and contents that come back as they were set.
 */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "bench.h"

typedef int alloc_fn(void **block, size_t n_bytes);
typedef int free_fn(void *block);
typedef int driver_alloc_fn(unsigned long long *address, size_t n_bytes);
typedef int driver_free_fn(unsigned long long address);

struct settings {
    const char *api;
    const char *sizes;
    unsigned n_threads;
    unsigned time_ms;
};

struct worker {
    pthread_t thread;
    struct bench_samples samples;
    double mean_ns;
    size_t n_bytes;
    uint64_t time_ns;
};

static alloc_fn *obtain;
static free_fn *release;
static driver_alloc_fn *driver_alloc;
static driver_free_fn *driver_free;
static pthread_barrier_t everybody;

static int obtain_by_runtime(void **block, size_t n_bytes) {
    return cudaMalloc(block, n_bytes);
}

static int release_by_runtime(void *block) {
    return cudaFree(block);
}

static int obtain_by_driver(void **block, size_t n_bytes) {
    unsigned long long address = 0;
    int answer = driver_alloc(&address, n_bytes);
    *block = (void *)(uintptr_t)address;
    return answer;
}

static int release_by_driver(void *block) {
    return driver_free((uintptr_t)block);
}

static void *symbol(void *library, const char *name) {
    void *address = library ? dlsym(library, name) : NULL;
    if (!address)
        bench_fail(name, 0);
    return address;
}

static void open_door(const char *api) {
    obtain = obtain_by_runtime;
    release = release_by_runtime;
    if (strcmp(api, "driver"))
        return;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *address = symbol(library, "cuMemAlloc_v2");
    memcpy(&driver_alloc, &address, sizeof address);
    address = symbol(library, "cuMemFree_v2");
    memcpy(&driver_free, &address, sizeof address);
    obtain = obtain_by_driver;
    release = release_by_driver;
}

static void check_size(size_t n_bytes) {
    unsigned char head[64], tail[64], want[64];
    void *block = NULL;
    memset(want, 0xa5, sizeof want);
    int answer = obtain(&block, n_bytes);
    if (answer || !block)
        bench_fail("malloc", answer);
    answer = cudaMemset(block, 0xa5, n_bytes);
    if (answer)
        bench_fail("memset", answer);
    answer = cudaMemcpy(head, block, sizeof head, cudaMemcpyDeviceToHost);
    if (answer)
        bench_fail("copy of the head", answer);
    answer = cudaMemcpy(tail, (char *)block + n_bytes - sizeof tail, sizeof tail,
                        cudaMemcpyDeviceToHost);
    if (answer)
        bench_fail("copy of the tail", answer);
    if (memcmp(head, want, sizeof head) || memcmp(tail, want, sizeof tail))
        bench_fail("contents", 0);
    answer = release(block);
    if (answer)
        bench_fail("free", answer);
}

static void one_pair(size_t n_bytes) {
    void *block = NULL;
    int answer = obtain(&block, n_bytes);
    if (answer || !block)
        bench_fail("malloc while timing", answer);
    answer = release(block);
    if (answer)
        bench_fail("free while timing", answer);
}

/* First with a clock reading a pair, for the percentiles; then the same number without, for the
 * mean. */
static void *work(void *argument) {
    struct worker *worker = argument;
    int answer = cudaSetDevice(0);
    if (answer)
        bench_fail("cudaSetDevice", answer);
    for (int i = 0; i < 10; i++)
        one_pair(worker->n_bytes);
    pthread_barrier_wait(&everybody);

    struct bench_samples *samples = &worker->samples;
    uint64_t begin_ns = bench_now_ns(), last_ns = begin_ns;
    while (samples->n < samples->capacity && last_ns - begin_ns < worker->time_ns) {
        one_pair(worker->n_bytes);
        uint64_t now_ns = bench_now_ns();
        samples->ns[samples->n++] = now_ns - last_ns;
        last_ns = now_ns;
    }
    pthread_barrier_wait(&everybody);

    begin_ns = bench_now_ns();
    for (size_t i = 0; i < samples->n; i++)
        one_pair(worker->n_bytes);
    worker->mean_ns = (double)(bench_now_ns() - begin_ns) / (double)samples->n;
    return NULL;
}

static void time_size(const struct settings *settings, size_t n_bytes, const char *label) {
    unsigned n_threads = settings->n_threads;
    struct worker *workers = calloc(n_threads, sizeof *workers);
    if (!workers)
        bench_fail("memory for threads", 0);
    pthread_barrier_init(&everybody, NULL, n_threads);
    for (unsigned i = 0; i < n_threads; i++) {
        workers[i] = (struct worker){.samples = bench_samples_create(200000 / n_threads),
                                     .n_bytes = n_bytes,
                                     .time_ns = (uint64_t)settings->time_ms * 1000000u};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            bench_fail("pthread_create", 0);
    }
    struct bench_samples all = bench_samples_create(200000);
    double mean_ns = 0;
    for (unsigned i = 0; i < n_threads; i++) {
        pthread_join(workers[i].thread, NULL);
        memcpy(all.ns + all.n, workers[i].samples.ns, workers[i].samples.n * sizeof *all.ns);
        all.n += workers[i].samples.n;
        mean_ns += workers[i].mean_ns / n_threads;
        bench_samples_destroy(&workers[i].samples);
    }
    struct bench_stats stats = bench_stats_of(&all);
    if (n_threads == 1) /* several are not all at it until the end */
        stats.mean_ns = mean_ns;
    char name[96];
    snprintf(name, sizeof name, "pair/%s/%u-thread/%s", settings->api, n_threads, label);
    bench_print(name, &stats);
    bench_samples_destroy(&all);
    pthread_barrier_destroy(&everybody);
    free(workers);
}

static size_t size_of(const char *text) {
    char *end;
    size_t n_bytes = strtoull(text, &end, 10);
    static const char units[] = "KMG";
    const char *unit = *end ? strchr(units, *end) : NULL;
    return unit ? n_bytes << (10 * (unit - units + 1)) : n_bytes;
}

static struct settings read_settings(int argc, char **argv) {
    struct settings settings = {"runtime", "512,4K,64K,1M,2M,16M,256M,1G", 1, 60};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--api"))
            settings.api = argv[i + 1];
        else if (!strcmp(argv[i], "--sizes"))
            settings.sizes = argv[i + 1];
        else if (!strcmp(argv[i], "--threads"))
            settings.n_threads = (unsigned)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--ms"))
            settings.time_ms = (unsigned)atoi(argv[i + 1]);
        else
            bench_fail(argv[i], 2);
    }
    return settings;
}

int main(int argc, char **argv) {
    struct settings settings = read_settings(argc, argv);
    int answer = cudaFree(0);
    if (answer)
        bench_fail("cudaFree(0)", answer);
    open_door(settings.api);

    char *sizes = strdup(settings.sizes), *place = NULL;
    for (char *label = strtok_r(sizes, ",", &place); label; label = strtok_r(NULL, ",", &place)) {
        size_t n_bytes = size_of(label);
        if (n_bytes < 64)
            bench_fail(label, 2);
        check_size(n_bytes);
        time_size(&settings, n_bytes, label);
    }
    free(sizes);
    return 0;
}
