/*
 * Copies between host and device: their speed and their processor time.
 *
 *   copies [--ms N] [--sizes 64K,1M] [--threads 1,4] [--memory pageable,pinned] [--tiny]
 *
 * One thread copies with cudaMemcpy.  Several threads copy at once, each with its own stream and
 * blocks, and wait after each copy; together they use at most the largest size.  A sample is one
 * copy.  gb_per_s is the bytes of all threads divided by the time from the first start to the last
 * end; cpu_ns is the processor time of the process divided by its copies.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/bench/bench.h"

enum { MAX_THREADS = 64, MAX_LIST = 32, MAX_SAMPLES = 20000, LEAST_COPIES = 3 };
#define MOST_BYTES ((size_t)4 << 30)

struct list {
    size_t n, values[MAX_LIST];
};

struct settings {
    unsigned time_ms;
    struct list sizes, threads;
    bool has_pageable, has_pinned;
};

struct copier {
    pthread_t thread;
    pthread_barrier_t *start;
    char *host, *device;
    cudaStream_t stream; /* NULL: cudaMemcpy */
    size_t n_bytes;
    bool is_up;
    uint64_t time_ns, end_ns;
    struct bench_samples samples;
};

static void copy(const struct copier *copier) {
    void *to = copier->is_up ? copier->device : copier->host;
    const void *from = copier->is_up ? copier->host : copier->device;
    enum cudaMemcpyKind kind = copier->is_up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    if (!copier->stream) {
        bench_must("copy", cudaMemcpy(to, from, copier->n_bytes, kind));
        return;
    }
    bench_must("copy", cudaMemcpyAsync(to, from, copier->n_bytes, kind, copier->stream));
    bench_must("wait", cudaStreamSynchronize(copier->stream));
}

static void *run(void *cookie) {
    struct copier *copier = cookie;
    copy(copier); /* the first copy pays for the initialisation */
    bench_must("wait", cudaDeviceSynchronize());
    pthread_barrier_wait(copier->start);
    pthread_barrier_wait(copier->start);
    uint64_t begin_ns = bench_now_ns();
    do {
        uint64_t start_ns = bench_now_ns();
        copy(copier);
        copier->end_ns = bench_now_ns();
        bench_samples_add(&copier->samples, copier->end_ns - start_ns);
    } while (copier->samples.n < copier->samples.capacity &&
             (copier->end_ns - begin_ns < copier->time_ns || copier->samples.n < LEAST_COPIES));
    return NULL;
}

static uint64_t cpu_ns(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000u;
}

/* Checks a copy in both directions in the measured way. */
static void check(struct copier *copier) {
    for (size_t i = 0; i < copier->n_bytes; i++)
        copier->host[i] = (char)(i * 2654435761u >> 13);
    copier->is_up = true;
    copy(copier);
    memset(copier->host, 0, copier->n_bytes);
    copier->is_up = false;
    copy(copier);
    for (size_t i = 0; i < copier->n_bytes; i++) {
        if (copier->host[i] != (char)(i * 2654435761u >> 13))
            bench_fail("contents", (int)(i & 0x7fffffff));
    }
}

static const char *size_text(char text[24], size_t n_bytes) {
    static const char units[] = "BKMG";
    int unit = 0;
    for (; unit < 3 && n_bytes % 1024 == 0; unit++)
        n_bytes /= 1024;
    snprintf(text, 24, "%zu%c", n_bytes, units[unit]);
    return text;
}

static void measure(const struct settings *settings, struct copier *copiers, size_t n_threads,
                    bool is_up, const char *memory) {
    pthread_barrier_t start;
    char name[96], size[24], more[96];
    pthread_barrier_init(&start, NULL, (unsigned)n_threads + 1);
    for (size_t i = 0; i < n_threads; i++) {
        copiers[i].is_up = is_up;
        copiers[i].start = &start;
        copiers[i].time_ns = settings->time_ms * 1000000ull;
        copiers[i].samples = bench_samples_create(MAX_SAMPLES);
        bench_must("thread", pthread_create(&copiers[i].thread, NULL, run, &copiers[i]));
    }
    pthread_barrier_wait(&start);
    uint64_t begin_cpu_ns = cpu_ns(), begin_ns = bench_now_ns(), end_ns = 0;
    pthread_barrier_wait(&start);
    struct bench_samples all = bench_samples_create(n_threads * MAX_SAMPLES);
    for (size_t i = 0; i < n_threads; i++) {
        pthread_join(copiers[i].thread, NULL);
        bench_samples_join(&all, &copiers[i].samples);
        end_ns = copiers[i].end_ns > end_ns ? copiers[i].end_ns : end_ns;
        bench_samples_destroy(&copiers[i].samples);
    }
    double n_bytes = (double)copiers[0].n_bytes * (double)all.n;
    snprintf(more, sizeof more, ", \"gb_per_s\": %.2f, \"cpu_ns\": %.0f",
             n_bytes / (double)(end_ns - begin_ns),
             (double)(cpu_ns() - begin_cpu_ns) / (double)all.n);
    snprintf(name, sizeof name, "copies/%s/%s/%s/%zu", is_up ? "up" : "down", memory,
             size_text(size, copiers[0].n_bytes), n_threads);
    struct bench_stats stats = bench_stats_of(&all);
    bench_print_with(name, &stats, more);
    bench_samples_destroy(&all);
    pthread_barrier_destroy(&start);
}

static char *host_memory(size_t n_bytes, bool is_pinned) {
    void *memory;
    if (is_pinned)
        bench_must("pinned memory", cudaMallocHost(&memory, n_bytes));
    else
        memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bench_fail("memory", 0);
    return memory;
}

static void run_size(const struct settings *settings, size_t n_bytes, size_t n_threads,
                     bool is_pinned) {
    static struct copier copiers[MAX_THREADS];
    for (size_t i = 0; i < n_threads; i++) {
        copiers[i] = (struct copier){.n_bytes = n_bytes, .host = host_memory(n_bytes, is_pinned)};
        bench_must("device memory", cudaMalloc((void **)&copiers[i].device, n_bytes));
        if (n_threads > 1)
            bench_must("stream",
                       cudaStreamCreateWithFlags(&copiers[i].stream, cudaStreamNonBlocking));
        check(&copiers[i]);
    }
    const char *memory = is_pinned ? "pinned" : "pageable";
    measure(settings, copiers, n_threads, true, memory);
    measure(settings, copiers, n_threads, false, memory);
    for (size_t i = 0; i < n_threads; i++) {
        if (is_pinned)
            cudaFreeHost(copiers[i].host);
        else
            munmap(copiers[i].host, n_bytes);
        cudaFree(copiers[i].device);
        if (copiers[i].stream)
            cudaStreamDestroy(copiers[i].stream);
    }
}

static struct list read_list(const char *text) {
    struct list list = {0};
    for (char *end; *text && list.n < MAX_LIST; text = *end == ',' ? end + 1 : end) {
        size_t value = strtoull(text, &end, 10);
        if (end == text)
            bench_fail(text, 2);
        if (*end == 'K')
            value <<= 10;
        else if (*end == 'M')
            value <<= 20;
        else if (*end == 'G')
            value <<= 30;
        end += *end && *end != ',';
        list.values[list.n++] = value;
    }
    return list;
}

static struct settings read_arguments(int argc, char **argv) {
    struct settings settings = {100, read_list("64K,256K,1M,4M,16M,64M,256M,1G,4G"),
                                read_list("1,2,4,8,16"), true, true};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--tiny")) {
            settings.sizes = read_list("64K,4M");
            settings.threads = read_list("1,2");
        } else if (i + 1 == argc) {
            bench_fail(argv[i], 2);
        } else if (!strcmp(argv[i], "--ms")) {
            settings.time_ms = (unsigned)atoi(argv[++i]);
        } else if (!strcmp(argv[i], "--sizes")) {
            settings.sizes = read_list(argv[++i]);
        } else if (!strcmp(argv[i], "--threads")) {
            settings.threads = read_list(argv[++i]);
        } else if (!strcmp(argv[i], "--memory")) {
            settings.has_pageable = strstr(argv[++i], "pageable") != NULL;
            settings.has_pinned = strstr(argv[i], "pinned") != NULL;
        } else {
            bench_fail(argv[i], 2);
        }
    }
    return settings;
}

int main(int argc, char **argv) {
    struct settings settings = read_arguments(argc, argv);
    for (size_t t = 0; t < settings.threads.n; t++) {
        size_t n_threads = settings.threads.values[t];
        if (!n_threads || n_threads > MAX_THREADS)
            bench_fail("threads", 2);
        for (size_t s = 0; s < settings.sizes.n; s++) {
            size_t n_bytes = settings.sizes.values[s];
            if (n_bytes > MOST_BYTES / n_threads)
                continue;
            if (settings.has_pageable)
                run_size(&settings, n_bytes, n_threads, false);
            if (settings.has_pinned)
                run_size(&settings, n_bytes, n_threads, true);
        }
    }
    return 0;
}
