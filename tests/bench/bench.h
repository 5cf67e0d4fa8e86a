/*
 * A clock, percentiles, and one JSON line per case, for all benchmarks.
 *
 * A line has only the case and its nanoseconds. rounds.py runs the programs alternately with and
 * without cushim and adds device, driver, clocks and commit.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct bench_samples {
    uint64_t *ns;
    size_t n, capacity;
    double n_each; /* calls in each sample; 0: one */
};

struct bench_stats {
    size_t n;
    double p0_ns, p50_ns, p99_ns, max_ns;
    double mean_ns; /* from a loop without clock readings, if the case has one */
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

static inline void bench_must(const char *what, int answer) {
    if (answer)
        bench_fail(what, answer);
}

/* Whether to measure again: once, or with --turns at each line of the input; an empty line ends a
 * turn. */
static inline bool bench_next(bool is_by_turns, unsigned *n_turns) {
    int c = 0;
    if (!is_by_turns)
        return (*n_turns)++ == 0;
    if ((*n_turns)++ > 0) {
        printf("\n");
        fflush(stdout);
    }
    while (c != '\n' && c != EOF)
        c = getchar();
    return c != EOF;
}

static inline void *bench_memory(size_t n, size_t n_bytes) {
    void *memory = calloc(n ? n : 1, n_bytes);
    if (!memory)
        bench_fail("memory", 0);
    return memory;
}

static inline struct bench_samples bench_samples_create(size_t capacity) {
    struct bench_samples samples = {malloc(capacity * sizeof(uint64_t)), 0, capacity, 1};
    if (!samples.ns)
        bench_fail("memory for samples", 0);
    return samples;
}

static inline void bench_samples_destroy(struct bench_samples *samples) {
    free(samples->ns);
    samples->ns = NULL;
}

/* Samples that do not fit are left out. */
static inline void bench_samples_add(struct bench_samples *samples, uint64_t ns) {
    if (samples->n < samples->capacity)
        samples->ns[samples->n++] = ns;
}

static inline void bench_samples_join(struct bench_samples *all, const struct bench_samples *more) {
    for (size_t i = 0; i < more->n; i++)
        bench_samples_add(all, more->ns[i]);
    all->n_each = more->n_each;
}

static inline int bench_compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Sorts the samples; mean_ns is their mean unless the caller sets a better one. */
static inline struct bench_stats bench_stats_of(struct bench_samples *samples) {
    struct bench_stats stats = {.n = samples->n};
    double n_each = samples->n_each > 0 ? samples->n_each : 1;
    if (!samples->n)
        return stats;
    qsort(samples->ns, samples->n, sizeof *samples->ns, bench_compare);
    double sum_ns = 0;
    for (size_t i = 0; i < samples->n; i++)
        sum_ns += (double)samples->ns[i];
    stats.p0_ns = (double)samples->ns[0] / n_each;
    stats.p50_ns = (double)samples->ns[samples->n / 2] / n_each;
    stats.p99_ns = (double)samples->ns[(samples->n - 1) * 99 / 100] / n_each;
    stats.max_ns = (double)samples->ns[samples->n - 1] / n_each;
    stats.mean_ns = sum_ns / (double)samples->n / n_each;
    return stats;
}

struct bench_interval {
    int64_t middle, low, high; /* the median and its 95 % interval */
};

static inline int bench_compare_signed(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Sorts the differences. */
static inline struct bench_interval bench_interval_of(int64_t *ns, size_t n) {
    qsort(ns, n, sizeof *ns, bench_compare_signed);
    size_t reach = (size_t)(0.98 * sqrt((double)n)); /* order statistics around the median */
    return (struct bench_interval){ns[n / 2], ns[n / 2 > reach ? n / 2 - reach : 0],
                                   ns[n / 2 + reach < n ? n / 2 + reach : n - 1]};
}

/* The cost of two clock readings, which is part of every sample. */
static inline uint64_t bench_clock_cost_ns(void) {
    uint64_t start_ns = bench_now_ns();
    for (int i = 0; i < 1000; i++)
        (void)bench_now_ns();
    return (bench_now_ns() - start_ns) / 1000;
}

/* How often to repeat work between two readings, at most `most`, so that the readings are a
 * hundredth of its time. Takes the shortest of a few trials, because an interruption must not count
 * as work. */
static inline size_t bench_batch(void (*run)(void *cookie, size_t n), void *cookie, size_t most) {
    enum { N_TRIALS = 5 };
    uint64_t enough_ns = 100 * (bench_clock_cost_ns() + 1);
    for (size_t n = 1; n < most; n *= 2) {
        uint64_t least_ns = UINT64_MAX;
        for (int i = 0; i < N_TRIALS; i++) {
            uint64_t start_ns = bench_now_ns();
            run(cookie, n);
            uint64_t time_ns = bench_now_ns() - start_ns;
            least_ns = time_ns < least_ns ? time_ns : least_ns;
        }
        if (least_ns >= enough_ns)
            return n;
    }
    return most;
}

/* `more` is "" or further fields: `, "name": value`. */
static inline void bench_print_with(const char *name, const struct bench_stats *stats,
                                    const char *more) {
    printf("{\"case\": \"%s\", \"n\": %zu, \"p0_ns\": %.1f, \"p50_ns\": %.1f, \"p99_ns\": %.1f, "
           "\"max_ns\": %.1f, \"mean_ns\": %.1f, \"clock_ns\": %llu%s}\n",
           name, stats->n, stats->p0_ns, stats->p50_ns, stats->p99_ns, stats->max_ns,
           stats->mean_ns, (unsigned long long)bench_clock_cost_ns(), more);
    fflush(stdout);
}

static inline void bench_print(const char *name, const struct bench_stats *stats) {
    bench_print_with(name, stats, "");
}

static inline void bench_skip(const char *name, const char *why) {
    printf("{\"case\": \"%s\", \"skipped\": \"%s\"}\n", name, why);
    fflush(stdout);
}
