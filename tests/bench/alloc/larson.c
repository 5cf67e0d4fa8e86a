/*
 * Threads that free blocks of other threads (after Larson and Krishnan's server benchmark).
 *
 * Each thread has an array of blocks of random sizes; in a phase it replaces every block by a new
 * one, then passes the array to its neighbour, so with 2 or more threads each free is of another
 * thread's block.
 */
#include <pthread.h>
#include <string.h>

#include "alloc.h"
#include "tests/bench/bench.h"
#include "random.h"

enum { MIN_BYTES = 512, MAX_BYTES = 64 << 10, MAX_SAMPLES = 100000, MAX_SLOTS = 1024 };

struct slot {
    void *block;
    size_t n_bytes;
};

struct larson {
    const struct settings *settings;
    unsigned n_threads;
    size_t n_slots;
    struct slot *slots; /* [n_threads][n_slots] */
    uint64_t end_ns;
    bool is_over; /* written by thread 0 between two barriers */
    pthread_barrier_t barrier;
};

struct thread {
    pthread_t thread;
    struct larson *larson;
    unsigned number;
    uint64_t random;
    struct bench_samples phases, singles;
};

static void fill(struct larson *larson, struct slot *slot, uint64_t *random) {
    slot->n_bytes = MIN_BYTES + random_below(random, MAX_BYTES - MIN_BYTES);
    bench_must("malloc while timing",
               larson->settings->allocator->obtain(&slot->block, slot->n_bytes));
}

static void replace(struct thread *thread, struct slot *slot) {
    struct larson *larson = thread->larson;
    bench_must("free while timing",
               larson->settings->allocator->release(slot->block, slot->n_bytes));
    fill(larson, slot, &thread->random);
}

static void run_phase(struct thread *thread, struct slot *slots, bool is_clocked) {
    struct larson *larson = thread->larson;
    const struct allocator *allocator = larson->settings->allocator;
    uint64_t begin_ns = bench_now_ns(), last_ns = begin_ns;
    for (size_t i = 0; i < larson->n_slots; i++) {
        replace(thread, &slots[i]);
        if (allocator->settle && i % SETTLE_EVERY == SETTLE_EVERY - 1)
            bench_must("wait while timing", allocator->settle());
        if (is_clocked) {
            uint64_t now_ns = bench_now_ns();
            bench_samples_add(&thread->singles, now_ns - last_ns);
            last_ns = now_ns;
        }
    }
    if (!is_clocked)
        bench_samples_add(&thread->phases, bench_now_ns() - begin_ns);
}

static void *work(void *argument) {
    struct thread *thread = argument;
    struct larson *larson = thread->larson;
    bench_must("cudaSetDevice", cudaSetDevice(0));
    (void)allocator_stream(); /* created before the clock starts */
    for (size_t phase = 0; !larson->is_over; phase++) {
        size_t turn = (thread->number + phase) % larson->n_threads;
        pthread_barrier_wait(&larson->barrier);
        run_phase(thread, larson->slots + turn * larson->n_slots, phase % 2);
        if (larson->settings->allocator->settle)
            bench_must("wait", larson->settings->allocator->settle());
        pthread_barrier_wait(&larson->barrier);
        if (thread->number == 0) /* the first two warm the caches */
            larson->is_over = phase >= 3 && bench_now_ns() > larson->end_ns;
        if (phase < 2)
            thread->phases.n = thread->singles.n = 0;
        pthread_barrier_wait(&larson->barrier);
    }
    return NULL;
}

/* If a pair is as slow as without cushim, a phase has fewer blocks. */
static size_t slots_for(const struct allocator *allocator) {
    uint64_t start_ns = bench_now_ns();
    for (int i = 0; i < 32; i++) {
        void *block = NULL;
        bench_must("malloc", allocator->obtain(&block, MAX_BYTES / 2));
        bench_must("free", allocator->release(block, MAX_BYTES / 2));
    }
    return bench_now_ns() - start_ns > 32 * 5000 ? SETTLE_EVERY : MAX_SLOTS;
}

static void report(const struct larson *larson, const struct thread *threads) {
    struct bench_samples phases = bench_samples_create(MAX_SAMPLES * (size_t)larson->n_threads);
    struct bench_samples singles = bench_samples_create(MAX_SAMPLES * (size_t)larson->n_threads);
    for (unsigned i = 0; i < larson->n_threads; i++) {
        bench_samples_join(&phases, &threads[i].phases);
        bench_samples_join(&singles, &threads[i].singles);
    }
    struct bench_stats stats = bench_stats_of(&phases), tail = bench_stats_of(&singles);
    stats.n = phases.n * larson->n_slots + singles.n;
    stats.p99_ns = tail.p99_ns;
    stats.max_ns = tail.max_ns;
    char name[64];
    snprintf(name, sizeof name, "larson/%u-thread", larson->n_threads);
    bench_print(name, &stats);
    bench_samples_destroy(&singles);
    bench_samples_destroy(&phases);
}

static void run_threads(const struct settings *settings, unsigned n_threads) {
    const struct allocator *allocator = settings->allocator;
    struct larson larson = {.settings = settings, .n_threads = n_threads};
    larson.n_slots = settings->is_tiny ? SETTLE_EVERY : slots_for(allocator);
    size_t n = n_threads * larson.n_slots;
    larson.slots = bench_memory(n, sizeof *larson.slots);
    struct thread *threads = bench_memory(n_threads, sizeof *threads);
    uint64_t random = 1;
    for (size_t i = 0; i < n; i++)
        fill(&larson, &larson.slots[i], &random);
    if (allocator->settle)
        bench_must("wait", allocator->settle());
    pthread_barrier_init(&larson.barrier, NULL, n_threads);
    larson.end_ns = bench_now_ns() + (uint64_t)settings->time_ms * 1000000u;
    for (unsigned i = 0; i < n_threads; i++) {
        threads[i] = (struct thread){.larson = &larson,
                                     .number = i,
                                     .random = i + 2,
                                     .phases = bench_samples_create(MAX_SAMPLES),
                                     .singles = bench_samples_create(MAX_SAMPLES)};
        threads[i].phases.n_each = (double)larson.n_slots;
    }
    for (unsigned i = 0; i < n_threads; i++)
        if (pthread_create(&threads[i].thread, NULL, work, &threads[i]))
            bench_fail("pthread_create", 0);
    for (unsigned i = 0; i < n_threads; i++)
        pthread_join(threads[i].thread, NULL);
    report(&larson, threads);

    for (size_t i = 0; i < n; i++)
        bench_must("free", allocator->release(larson.slots[i].block, larson.slots[i].n_bytes));
    for (unsigned i = 0; i < n_threads; i++) {
        bench_samples_destroy(&threads[i].phases);
        bench_samples_destroy(&threads[i].singles);
    }
    pthread_barrier_destroy(&larson.barrier);
    free(threads);
    free(larson.slots);
}

void run_larson(const struct settings *settings) {
    char *threads = strdup(settings->threads ? settings->threads : "1,2,4,8,16"), *place = NULL;
    for (char *n = strtok_r(threads, ",", &place); n; n = strtok_r(NULL, ",", &place))
        run_threads(settings, (unsigned)atoi(n));
    free(threads);
}
