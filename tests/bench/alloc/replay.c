#include "replay.h"

#include <string.h>

#include "tests/bench/bench.h"

enum { LONG_NS = 1000000000, N_LOOKS = 200 };

struct block {
    void *place;
    size_t n_bytes;
    uint64_t obtain_ns;
};

struct player {
    const struct trace *trace;
    const struct allocator *allocator;
    struct block *blocks;
    size_t n_calls;
    /* measured in the first pass */
    size_t live_bytes, looked_at_bytes, held_bytes;
};

static void obtain(struct player *player, const struct trace_step *step) {
    struct block *block = &player->blocks[step->id];
    block->n_bytes = step->n_bytes;
    bench_must("malloc of a trace", player->allocator->obtain(&block->place, step->n_bytes));
    if (!block->place)
        bench_fail("address", 0);
}

static void release(struct player *player, struct block *block) {
    bench_must("free of a trace", player->allocator->release(block->place, block->n_bytes));
    block->place = NULL;
}

static void play(struct player *player, const struct trace_step *step) {
    if (step->n_bytes)
        obtain(player, step);
    else
        release(player, &player->blocks[step->id]);
    if (player->allocator->settle && ++player->n_calls % (2 * SETTLE_EVERY) == 0)
        bench_must("wait of a trace", player->allocator->settle());
}

/* At new peaks, about a hundred times. */
static void look(struct player *player, const struct trace_step *step) {
    size_t peak_bytes = player->trace->peak_live_bytes;
    player->live_bytes += step->n_bytes ? step->n_bytes : 0;
    if (!step->n_bytes) {
        player->live_bytes -= player->blocks[step->id].n_bytes;
        return;
    }
    if (player->live_bytes < player->looked_at_bytes + peak_bytes / N_LOOKS &&
        player->live_bytes < peak_bytes)
        return;
    player->looked_at_bytes = player->live_bytes;
    size_t now_bytes = held_bytes();
    if (now_bytes > player->held_bytes)
        player->held_bytes = now_bytes;
}

/* Returns the nanoseconds of the timed steps, without the work between them. */
static uint64_t clocked_pass(struct player *player, struct bench_samples *samples,
                             bool is_looking) {
    const struct trace *trace = player->trace;
    uint64_t sum_ns = 0;
    for (size_t i = 0; i < trace->n; i++) {
        const struct trace_step *step = &trace->steps[i];
        uint64_t start_ns = bench_now_ns();
        play(player, step);
        uint64_t ns = bench_now_ns() - start_ns;
        struct block *block = &player->blocks[step->id];
        if (i >= trace->timed_from)
            sum_ns += ns;
        if (step->n_bytes)
            block->obtain_ns = ns;
        else if (i >= trace->timed_from)
            bench_samples_add(samples, block->obtain_ns + ns);
        if (is_looking)
            look(player, step);
    }
    return sum_ns;
}

static uint64_t plain_pass(struct player *player) {
    const struct trace *trace = player->trace;
    for (size_t i = 0; i < trace->timed_from; i++)
        play(player, &trace->steps[i]);
    uint64_t start_ns = bench_now_ns();
    for (size_t i = trace->timed_from; i < trace->n; i++)
        play(player, &trace->steps[i]);
    return bench_now_ns() - start_ns;
}

/* Frees the blocks that the trace leaves live. */
static void clear(struct player *player) {
    for (size_t id = 0; id < player->trace->n_blocks; id++)
        if (player->blocks[id].place)
            release(player, &player->blocks[id]);
    if (player->allocator->settle)
        bench_must("wait of a trace", player->allocator->settle());
}

static size_t timed_frees(const struct trace *trace) {
    size_t n = 0;
    for (size_t i = trace->timed_from; i < trace->n; i++)
        n += trace->steps[i].n_bytes == 0;
    return n ? n : 1;
}

static void print_line(const char *name, const struct player *player, struct bench_samples *samples,
                       double mean_ns, unsigned n_passes, size_t before_bytes, double cold_ns) {
    const struct trace *trace = player->trace;
    size_t held = player->held_bytes > before_bytes ? player->held_bytes - before_bytes : 0;
    struct bench_stats stats = bench_stats_of(samples);
    stats.mean_ns = mean_ns;
    char more[320];
    snprintf(more, sizeof more,
             ", \"cold_mean_ns\": %.1f, \"passes\": %u, \"pairs\": %zu, \"peak_live_bytes\": %zu, "
             "\"peak_held_bytes\": %zu, \"held_by_live\": %.4f",
             cold_ns, n_passes, trace->n_blocks * n_passes, trace->peak_live_bytes, held,
             (double)held / (double)(trace->peak_live_bytes ? trace->peak_live_bytes : 1));
    bench_print_with(name, &stats, more);
}

void replay(const char *name, const struct trace *trace, const struct settings *settings,
            size_t before_bytes) {
    struct player player = {.trace = trace, .allocator = settings->allocator};
    player.blocks = bench_memory(trace->n_blocks, sizeof *player.blocks);
    struct bench_samples samples = bench_samples_create(trace->n);
    double n_pairs = (double)timed_frees(trace);
    unsigned n_passes = 1;
    uint64_t start_ns = bench_now_ns();
    double cold_ns = (double)clocked_pass(&player, &samples, true) / n_pairs, mean_ns = cold_ns;
    clear(&player);
    if (bench_now_ns() - start_ns < LONG_NS) {
        samples.n = 0;
        clocked_pass(&player, &samples, false);
        clear(&player);
        mean_ns = (double)plain_pass(&player) / n_pairs;
        clear(&player);
        n_passes = 3;
    }
    print_line(name, &player, &samples, mean_ns, n_passes, before_bytes, cold_ns);
    bench_samples_destroy(&samples);
    free(player.blocks);
}
