/* Contests: ways to do the same work, timed in turn. */
#include <string.h>

#include "companion.h"

enum { MAX_WAYS = 8, MAX_SAMPLES = 20000, MAX_BATCH = 4096, FEWEST = 15, FEWEST_TINY = 3 };

size_t companion_batch(void (*run)(void *cookie, size_t n), void *cookie) {
    return bench_batch(run, cookie, MAX_BATCH);
}

void companion_print(const char *name, const char *variant, struct bench_samples *samples,
                     const char *more) {
    char fields[320];
    struct bench_stats stats = bench_stats_of(samples);
    snprintf(fields, sizeof fields, ", \"variant\": \"%s\"%s", variant, more);
    bench_print_with(name, &stats, fields);
}

/* What a call adds to the native one, by samples of the same turn, and the ratio of the medians.
 * Call it before the samples are sorted. */
static void compare(const struct bench_samples *native, const struct bench_samples *samples,
                    char *more, size_t n) {
    int64_t *added = bench_memory(samples->n, sizeof *added);
    struct bench_samples of_native = bench_samples_create(samples->n),
                         ours = bench_samples_create(samples->n);
    bench_samples_join(&of_native, native);
    bench_samples_join(&ours, samples);
    for (size_t i = 0; i < samples->n; i++) {
        double each = (double)samples->ns[i] / samples->n_each;
        double of_driver = (double)native->ns[i] / native->n_each;
        added[i] = (int64_t)(1000 * (each - of_driver)); /* picoseconds */
    }
    struct bench_interval interval = bench_interval_of(added, samples->n);
    struct bench_stats by = bench_stats_of(&of_native), of = bench_stats_of(&ours);
    snprintf(more, n,
             ", \"added_ns\": %.1f, \"added_low_ns\": %.1f, \"added_high_ns\": %.1f, "
             "\"time_by_native\": %.4f",
             (double)interval.middle / 1000, (double)interval.low / 1000,
             (double)interval.high / 1000, by.p50_ns > 0 ? of.p50_ns / by.p50_ns : 0);
    bench_samples_destroy(&ours);
    bench_samples_destroy(&of_native);
    free(added);
}

static void report(const struct companion_contest *contest, struct bench_samples *samples) {
    char more[MAX_WAYS][256] = {{0}};
    bool is_compared = !strcmp(contest->ways[0].variant, "native");
    for (size_t i = 1; is_compared && i < contest->n_ways; i++)
        compare(&samples[0], &samples[i], more[i], sizeof more[i]);
    for (size_t i = 0; i < contest->n_ways; i++)
        companion_print(contest->name, contest->ways[i].variant, &samples[i], more[i]);
}

static void take(const struct companion_contest *contest, const struct companion_way *way,
                 struct bench_samples *samples) {
    size_t n = (size_t)samples->n_each;
    uint64_t start_ns = bench_now_ns();
    way->run(contest->cookie, n);
    bench_samples_add(samples, bench_now_ns() - start_ns);
    if (contest->settle)
        contest->settle(contest->cookie);
}

void companion_contest(const struct companion_contest *contest,
                       const struct companion_settings *settings) {
    struct bench_samples samples[MAX_WAYS];
    size_t n_ways = contest->n_ways;
    if (n_ways > MAX_WAYS)
        bench_fail(contest->name, 2);
    for (size_t i = 0; i < n_ways; i++) {
        samples[i] = bench_samples_create(MAX_SAMPLES);
        size_t n = contest->n_each ? contest->n_each
                                   : companion_batch(contest->ways[i].run, contest->cookie);
        samples[i].n_each = (double)n;
        contest->ways[i].run(contest->cookie, n); /* warm up */
        if (contest->settle)
            contest->settle(contest->cookie);
    }
    size_t n_least = settings->is_tiny ? FEWEST_TINY : FEWEST;
    uint64_t until_ns = bench_now_ns() + n_ways * settings->time_ms * 1000000ull;
    for (size_t turn = 0; turn < MAX_SAMPLES && (turn < n_least || bench_now_ns() < until_ns);
         turn++) {
        for (size_t i = 0; i < n_ways; i++) {
            /* each way comes first, and after each other way, equally often */
            size_t k = (i + turn) % n_ways;
            size_t at = turn / n_ways % 2 ? n_ways - 1 - k : k;
            take(contest, &contest->ways[at], &samples[at]);
        }
    }
    report(contest, samples);
    for (size_t i = 0; i < n_ways; i++)
        bench_samples_destroy(&samples[i]);
}
