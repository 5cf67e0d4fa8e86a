/*
 * Blocks of a pool are allocated and freed, one by one or many before the first free, by 1 or more
 * threads, each on its own streams.  The comparisons are the driver's stream-ordered pool, which
 * keeps everything, and its plain malloc.
 *
 * The ways take turns in slices of time, and all threads begin each slice together.  Three quarters
 * of a slice go to batches, whose median is the figure of a pair, and the rest to single rounds of
 * blocks, for the tail.  The measured time includes a wait for stream-ordered work every 64 pairs.
 */
#include <pthread.h>
#include <string.h>

#include "companion.h"

enum {
    N_WAYS = 3,
    MAX_SAMPLES = 50000,
    SETTLE_EVERY = 64,
    N_SLICES = 8,
    MAX_AT_ONCE = 256,
    MAX_STREAMS = 8
};

struct shape {
    const char *label;
    size_t n_bytes;
    size_t n_at_once;   /* blocks that a thread has before it frees them, the oldest first */
    unsigned n_streams; /* of a thread, used in turn */
};

struct worker {
    pthread_t thread;
    const struct companion_settings *settings;
    const struct shape *shape;
    size_t n_done, n_turns;
    struct companion_stream streams[MAX_STREAMS];
    CUdeviceptr blocks[MAX_AT_ONCE];
    struct bench_samples batches[N_WAYS], singles[N_WAYS];
};

static struct cushim_pool *pool;
static pthread_barrier_t everybody;

static const struct companion_stream *turn(struct worker *worker) {
    unsigned n_streams = worker->shape->n_streams;
    return &worker->streams[n_streams == 1 ? 0 : worker->n_turns++ % n_streams];
}

/* Each way runs n pairs or a few more, because it ends with a whole round of blocks. */

static void by_native(void *cookie, size_t n) {
    struct worker *worker = cookie;
    const struct shape *shape = worker->shape;
    for (size_t i = 0; i < n; i += shape->n_at_once) {
        for (size_t k = 0; k < shape->n_at_once; k++)
            bench_must("cuMemAlloc", (int)raw.cuMemAlloc(&worker->blocks[k], shape->n_bytes));
        for (size_t k = 0; k < shape->n_at_once; k++)
            bench_must("cuMemFree", (int)raw.cuMemFree(worker->blocks[k]));
    }
}

static void by_driver_pool(void *cookie, size_t n) {
    struct worker *worker = cookie;
    const struct shape *shape = worker->shape;
    for (size_t i = 0; i < n; i += shape->n_at_once) {
        CUstream stream = turn(worker)->cu;
        for (size_t k = 0; k < shape->n_at_once; k++)
            bench_must("cuMemAllocAsync",
                       (int)raw.cuMemAllocAsync(&worker->blocks[k], shape->n_bytes, stream));
        for (size_t k = 0; k < shape->n_at_once; k++)
            bench_must("cuMemFreeAsync", (int)raw.cuMemFreeAsync(worker->blocks[k], stream));
        worker->n_done += shape->n_at_once;
        if (worker->n_done % SETTLE_EVERY == 0)
            bench_must("wait", (int)raw.cuStreamSynchronize(stream));
    }
}

static inline __attribute__((always_inline)) void rounds(struct worker *worker, size_t n,
                                                         size_t n_at_once) {
    cushim_devptr blocks[MAX_AT_ONCE];
    size_t n_bytes = worker->shape->n_bytes;
    for (size_t i = 0; i < n; i += n_at_once) {
        struct cushim_stream *stream = turn(worker)->handle;
        for (size_t k = 0; k < n_at_once; k++)
            need(cushim_pool_alloc(pool, 0, CUSHIM_MEMORY_DEVICE, n_bytes, stream, &blocks[k]));
        for (size_t k = 0; k < n_at_once; k++)
            need(cushim_pool_free(pool, 0, blocks[k], n_bytes, stream));
    }
}

/* Pairs without the cost of rounds: they are near the resolution of the clock. */
static void by_companion(void *cookie, size_t n) {
    struct worker *worker = cookie;
    if (worker->shape->n_at_once == 1)
        rounds(worker, n, 1);
    else
        rounds(worker, n, worker->shape->n_at_once);
}

static const struct companion_way ways[N_WAYS] = {
    {"native", by_native}, {"cuMemAllocAsync, kept", by_driver_pool}, {"companion", by_companion}};

/* ---- checks ---- */

static void keep_driver_pool(void) {
    CUmemoryPool driver_pool;
    uint64_t everything = UINT64_MAX;
    bench_must("cuDeviceGetDefaultMemPool", (int)raw.cuDeviceGetDefaultMemPool(&driver_pool, 0));
    bench_must("threshold", (int)raw.cuMemPoolSetAttribute(
                                driver_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything));
}

/* Two blocks do not overlap, keep their contents, and the next block of this size is a hit. */
static void check(size_t n_bytes) {
    struct companion_stream stream = companion_stream_create();
    struct cushim_pool_stats before = {.struct_size = sizeof before}, after = before;
    cushim_devptr blocks[2], again;
    void *wanted = bench_memory(n_bytes, 1);
    for (int i = 0; i < 2; i++) {
        need(cushim_pool_alloc(pool, 0, CUSHIM_MEMORY_DEVICE, n_bytes, stream.handle, &blocks[i]));
        companion_fill(blocks[i], (unsigned char)(i + 1), n_bytes);
    }
    for (int i = 0; i < 2; i++) {
        memset(wanted, i + 1, n_bytes);
        companion_check("a block of the pool", blocks[i], wanted, n_bytes);
        need(cushim_pool_free(pool, 0, blocks[i], n_bytes, stream.handle));
    }
    need(cushim_pool_stats(pool, -1, -1, &before));
    need(cushim_pool_alloc(pool, 0, CUSHIM_MEMORY_DEVICE, n_bytes, stream.handle, &again));
    need(cushim_pool_free(pool, 0, again, n_bytes, stream.handle));
    need(cushim_pool_stats(pool, -1, -1, &after));
    if (again != blocks[1] || after.hits != before.hits + 1 || after.live_blocks)
        bench_fail("a hit of the pool", (int)(after.hits - before.hits));
    free(wanted);
    need(cushim_stream_destroy(stream.handle));
}

/* ---- time ---- */

static void take_samples(struct worker *worker, const struct companion_way *way,
                         struct bench_samples *samples, uint64_t time_ns) {
    uint64_t start_ns = bench_now_ns(), until_ns = start_ns + time_ns, end_ns;
    do {
        way->run(worker, (size_t)samples->n_each);
        end_ns = bench_now_ns();
        bench_samples_add(samples, end_ns - start_ns);
        start_ns = bench_now_ns();
    } while (start_ns < until_ns);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    uint64_t slice_ns = worker->settings->time_ms * 1000000ull / N_SLICES;
    size_t n_at_once = worker->shape->n_at_once;
    companion_enter();
    for (unsigned i = 0; i < worker->shape->n_streams; i++)
        worker->streams[i] = companion_stream_create();
    for (int i = 0; i < N_WAYS; i++) {
        ways[i].run(worker, SETTLE_EVERY);
        pthread_barrier_wait(&everybody);
        size_t n =
            ways[i].run == by_driver_pool ? 2 * SETTLE_EVERY : companion_batch(ways[i].run, worker);
        worker->batches[i].n_each = (double)((n + n_at_once - 1) / n_at_once * n_at_once);
        worker->singles[i].n_each = (double)n_at_once;
    }
    for (int slice = 0; slice < N_SLICES; slice++) {
        for (int i = 0; i < N_WAYS; i++) {
            pthread_barrier_wait(&everybody);
            take_samples(worker, &ways[i], &worker->batches[i], slice_ns * 3 / 4);
            take_samples(worker, &ways[i], &worker->singles[i], slice_ns / 4);
        }
    }
    for (unsigned i = 0; i < worker->shape->n_streams; i++) {
        bench_must("wait", (int)raw.cuStreamSynchronize(worker->streams[i].cu));
        need(cushim_stream_destroy(worker->streams[i].handle));
    }
    return NULL;
}

/* Batches of threads differ in length, so divide by their pairs, to a tenth of a nanosecond. */
static void report(const char *name, const struct worker *workers, unsigned n_threads, int way) {
    struct bench_samples pairs = bench_samples_create((size_t)MAX_SAMPLES * n_threads);
    struct bench_samples singles = bench_samples_create((size_t)MAX_SAMPLES * n_threads);
    double n_calls = 0;
    for (unsigned i = 0; i < n_threads; i++) {
        const struct bench_samples *batches = &workers[i].batches[way];
        for (size_t k = 0; k < batches->n; k++)
            bench_samples_add(&pairs,
                              (uint64_t)(10 * (double)batches->ns[k] / batches->n_each + 0.5));
        n_calls += (double)batches->n * batches->n_each;
        bench_samples_join(&singles, &workers[i].singles[way]);
    }
    pairs.n_each = 10;
    struct bench_stats stats = bench_stats_of(&pairs), tail = bench_stats_of(&singles);
    char more[96];
    stats.n = (size_t)n_calls + singles.n;
    stats.p99_ns = tail.p99_ns;
    stats.max_ns = tail.max_ns > stats.max_ns ? tail.max_ns : stats.max_ns;
    snprintf(more, sizeof more, ", \"variant\": \"%s\"", ways[way].variant);
    bench_print_with(name, &stats, more);
    bench_samples_destroy(&singles);
    bench_samples_destroy(&pairs);
}

static void time_shape(const struct companion_settings *settings, unsigned n_threads,
                       const struct shape *shape) {
    struct worker *workers = bench_memory(n_threads, sizeof *workers);
    char name[96];
    pthread_barrier_init(&everybody, NULL, n_threads);
    for (unsigned i = 0; i < n_threads; i++) {
        workers[i] = (struct worker){.settings = settings, .shape = shape};
        for (int k = 0; k < N_WAYS; k++) {
            workers[i].batches[k] = bench_samples_create(MAX_SAMPLES);
            workers[i].singles[k] = bench_samples_create(MAX_SAMPLES);
        }
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            bench_fail("pthread_create", 0);
    }
    for (unsigned i = 0; i < n_threads; i++)
        pthread_join(workers[i].thread, NULL);
    if (n_threads == 1)
        snprintf(name, sizeof name, "pool/%s", shape->label);
    else
        snprintf(name, sizeof name, "pool/%u-thread/%s", n_threads, shape->label);
    for (int k = 0; k < N_WAYS; k++) {
        report(name, workers, n_threads, k);
        for (unsigned i = 0; i < n_threads; i++) {
            bench_samples_destroy(&workers[i].batches[k]);
            bench_samples_destroy(&workers[i].singles[k]);
        }
    }
    pthread_barrier_destroy(&everybody);
    free(workers);
}

void run_companion_pool(const struct companion_settings *settings) {
    static const struct shape shapes[] = {{"512", 512, 1, 1},
                                          {"64K", 64 << 10, 1, 1},
                                          {"1M", 1 << 20, 1, 1},
                                          {"256-at-once/512", 512, 256, 1},
                                          {"48-at-once/1M", 1 << 20, 48, 1},
                                          {"8-streams/64K", 64 << 10, 1, 8},
                                          {"8-streams/4M", 4 << 20, 1, 8}};
    static const unsigned threads[] = {1, 4, 16}, few[] = {1, 2};
    const unsigned *counts = settings->is_tiny ? few : threads;
    size_t n_counts = settings->is_tiny ? 2 : 3;
    need(cushim_pool_create(NULL, &pool));
    keep_driver_pool();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(shapes[i].n_bytes);
    for (size_t k = 0; k < n_counts; k++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            time_shape(settings, counts[k], &shapes[i]);
    }
    need(cushim_pool_destroy(pool));
}
