/*
 * One block is allocated and freed at once, again and again, by 1 or more threads at a time.
 *
 * Half of the time goes to batches that last a hundred clock readings; their median is the figure.
 * The other half reads the clock at every pair, for P99 and maximum.
 */
#include <pthread.h>
#include <string.h>

#include "alloc.h"
#include "tests/bench/bench.h"

enum { MAX_SAMPLES = 100000, MAX_BATCH = 256 };

struct worker {
    pthread_t thread;
    const struct settings *settings;
    size_t n_bytes;
    unsigned n_threads;
    size_t n_done;
    struct bench_samples batches, singles;
};

static pthread_barrier_t everybody;

static void do_pairs(struct worker *worker, size_t n) {
    const struct allocator *allocator = worker->settings->allocator;
    for (size_t i = 0; i < n; i++) {
        void *block = NULL;
        int answer = allocator->obtain(&block, worker->n_bytes);
        if (answer || !block)
            bench_fail("malloc while timing", answer);
        bench_must("free while timing", allocator->release(block, worker->n_bytes));
        if (allocator->settle && ++worker->n_done % SETTLE_EVERY == 0)
            bench_must("wait while timing", allocator->settle());
    }
}

static void try_pairs(void *cookie, size_t n) {
    do_pairs(cookie, n);
}

static size_t batch_of(struct worker *worker) {
    if (!worker->settings->allocator->settle)
        return bench_batch(try_pairs, worker, MAX_BATCH);
    do_pairs(worker, MAX_BATCH); /* warm up; each batch has whole periods between waits */
    return MAX_BATCH;
}

static void take_samples(struct worker *worker, struct bench_samples *samples, size_t n_each,
                         uint64_t time_ns) {
    uint64_t begin_ns = bench_now_ns(), last_ns = begin_ns;
    samples->n_each = (double)n_each;
    while (samples->n < samples->capacity && (last_ns - begin_ns < time_ns || samples->n < 3)) {
        uint64_t start_ns = bench_now_ns();
        do_pairs(worker, n_each);
        last_ns = bench_now_ns();
        bench_samples_add(samples, last_ns - start_ns);
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;
    const struct allocator *allocator = worker->settings->allocator;
    uint64_t half_ns = (uint64_t)worker->settings->time_ms * 500000u;
    bench_must("cudaSetDevice", cudaSetDevice(0));
    do_pairs(worker, 10);
    if (worker->n_threads > 1)
        pthread_barrier_wait(&everybody);
    take_samples(worker, &worker->batches, batch_of(worker), half_ns);
    take_samples(worker, &worker->singles, 1, half_ns);
    if (allocator->settle)
        bench_must("wait", allocator->settle());
    return NULL;
}

static void report(const struct worker *workers, unsigned n_threads, const char *name) {
    struct bench_samples batches = bench_samples_create(MAX_SAMPLES * (size_t)n_threads);
    struct bench_samples singles = bench_samples_create(MAX_SAMPLES * (size_t)n_threads);
    batches.n_each = workers[0].batches.n_each;
    for (unsigned i = 0; i < n_threads; i++) {
        /* batches of threads differ in length, so divide by their pairs */
        double n_each = workers[i].batches.n_each;
        for (size_t k = 0; k < workers[i].batches.n; k++) {
            double ns = (double)workers[i].batches.ns[k] / n_each;
            bench_samples_add(&batches, (uint64_t)(ns * batches.n_each + 0.5));
        }
        bench_samples_join(&singles, &workers[i].singles);
    }
    struct bench_stats stats = bench_stats_of(&batches), tail = bench_stats_of(&singles);
    stats.n = batches.n * (size_t)batches.n_each + singles.n;
    stats.p99_ns = tail.p99_ns;
    stats.max_ns = tail.max_ns;
    bench_print(name, &stats);
    bench_samples_destroy(&singles);
    bench_samples_destroy(&batches);
}

static void time_size(const struct settings *settings, unsigned n_threads, const char *label) {
    struct worker *workers = bench_memory(n_threads, sizeof *workers);
    pthread_barrier_init(&everybody, NULL, n_threads);
    for (unsigned i = 0; i < n_threads; i++) {
        workers[i] = (struct worker){.settings = settings,
                                     .n_bytes = size_of(label),
                                     .n_threads = n_threads,
                                     .batches = bench_samples_create(MAX_SAMPLES),
                                     .singles = bench_samples_create(MAX_SAMPLES)};
        if (n_threads > 1 && pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            bench_fail("pthread_create", 0);
    }
    if (n_threads == 1)
        work(&workers[0]);
    for (unsigned i = 0; i < n_threads; i++)
        if (n_threads > 1)
            pthread_join(workers[i].thread, NULL);

    const char *kind = settings->allocator->is_host ? "pinned" : "pair";
    char name[96];
    if (n_threads == 1)
        snprintf(name, sizeof name, "%s/%s", kind, label);
    else
        snprintf(name, sizeof name, "%s/%u-thread/%s", kind, n_threads, label);
    report(workers, n_threads, name);
    for (unsigned i = 0; i < n_threads; i++) {
        bench_samples_destroy(&workers[i].batches);
        bench_samples_destroy(&workers[i].singles);
    }
    pthread_barrier_destroy(&everybody);
    free(workers);
}

void run_pair(const struct settings *settings) {
    bool is_host = settings->allocator->is_host;
    const char *own = is_host ? "4K,64K,1M,16M,64M" : "512,4K,64K,1M,2M,16M,256M,1G";
    const char *few = is_host ? "4K,1M" : "512,64K,2M";
    const char *wanted = settings->sizes ? settings->sizes : settings->is_tiny ? few : own;
    char *threads = strdup(settings->threads ? settings->threads : "1"), *at_thread = NULL;
    for (char *n = strtok_r(threads, ",", &at_thread); n; n = strtok_r(NULL, ",", &at_thread)) {
        char *sizes = strdup(wanted), *at_size = NULL;
        for (char *label = strtok_r(sizes, ",", &at_size); label;
             label = strtok_r(NULL, ",", &at_size)) {
            allocator_check(settings->allocator, size_of(label));
            time_size(settings, (unsigned)atoi(n), label);
        }
        free(sizes);
    }
    free(threads);
}
