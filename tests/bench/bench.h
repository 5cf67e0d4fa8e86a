/*
 * What the benchmarks share: a clock, percentiles, and one JSON line a case.
 *
 * A line holds the case and its nanoseconds alone; rounds.py, which runs the programs in turns
 * natively and under cushim, adds device, driver, clocks and commit.
 */
#ifndef CUSHIM_TESTS_BENCH_H
#define CUSHIM_TESTS_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct bench_samples {
    uint64_t *ns;
    size_t n, capacity;
};

struct bench_stats {
    size_t n;
    uint64_t p0_ns, p50_ns, p99_ns, max_ns;
    double mean_ns; /* of a loop that reads no clock inside, where the case has one */
};

static inline uint64_t bench_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void bench_fail(const char *what, int code) {
    fprintf(stderr, "%s: failed with %d\n", what, code);
    exit(1);
}

static inline struct bench_samples bench_samples_create(size_t capacity) {
    struct bench_samples samples = {malloc(capacity * sizeof(uint64_t)), 0, capacity};
    if (!samples.ns)
        bench_fail("memory for samples", 0);
    return samples;
}

static inline void bench_samples_destroy(struct bench_samples *samples) {
    free(samples->ns);
    samples->ns = NULL;
}

static inline int bench_compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Sorts the samples; mean_ns is theirs until the caller knows a better one. */
static inline struct bench_stats bench_stats_of(struct bench_samples *samples) {
    struct bench_stats stats = {.n = samples->n};
    if (!samples->n)
        return stats;
    qsort(samples->ns, samples->n, sizeof *samples->ns, bench_compare);
    double sum_ns = 0;
    for (size_t i = 0; i < samples->n; i++)
        sum_ns += (double)samples->ns[i];
    stats.p0_ns = samples->ns[0];
    stats.p50_ns = samples->ns[samples->n / 2];
    stats.p99_ns = samples->ns[(samples->n - 1) * 99 / 100];
    stats.max_ns = samples->ns[samples->n - 1];
    stats.mean_ns = sum_ns / (double)samples->n;
    return stats;
}

/* What two readings of the clock cost: part of every sample. */
static inline uint64_t bench_clock_cost_ns(void) {
    uint64_t start_ns = bench_now_ns();
    for (int i = 0; i < 1000; i++)
        (void)bench_now_ns();
    return (bench_now_ns() - start_ns) / 1000;
}

static inline void bench_print(const char *name, const struct bench_stats *stats) {
    printf("{\"case\": \"%s\", \"n\": %zu, \"p0_ns\": %llu, \"p50_ns\": %llu, \"p99_ns\": %llu, "
           "\"max_ns\": %llu, \"mean_ns\": %.1f, \"clock_ns\": %llu}\n",
           name, stats->n, (unsigned long long)stats->p0_ns, (unsigned long long)stats->p50_ns,
           (unsigned long long)stats->p99_ns, (unsigned long long)stats->max_ns, stats->mean_ns,
           (unsigned long long)bench_clock_cost_ns());
    fflush(stdout);
}

static inline void bench_skip(const char *name, const char *why) {
    printf("{\"case\": \"%s\", \"skipped\": \"%s\"}\n", name, why);
    fflush(stdout);
}

#endif
