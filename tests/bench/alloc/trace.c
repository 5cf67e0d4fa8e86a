#include "trace.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "alloc.h"
#include "tests/bench/bench.h"
#include "random.h"

#define MIB ((size_t)1 << 20)

/* ---- building traces ---- */

static void add(struct trace *trace, size_t n_bytes, size_t id) {
    if (trace->n == trace->capacity) {
        trace->capacity = trace->capacity ? 2 * trace->capacity : 4096;
        trace->steps = realloc(trace->steps, trace->capacity * sizeof *trace->steps);
        if (!trace->steps)
            bench_fail("memory for a trace", 0);
    }
    trace->steps[trace->n++] = (struct trace_step){n_bytes, (uint32_t)id};
}

static size_t add_block(struct trace *trace, size_t n_bytes) {
    add(trace, n_bytes, trace->n_blocks);
    return trace->n_blocks++;
}

/* Finds the peak; ends the process if a free names a block that is not live. */
static void finish(struct trace *trace, const char *name) {
    size_t *sizes = bench_memory(trace->n_blocks, sizeof *sizes), live_bytes = 0;
    for (size_t i = 0; i < trace->n; i++) {
        const struct trace_step *step = &trace->steps[i];
        if (step->n_bytes) {
            sizes[step->id] = step->n_bytes;
            live_bytes += step->n_bytes;
        } else {
            if (step->id >= trace->n_blocks || !sizes[step->id])
                bench_fail(name, (int)i);
            live_bytes -= sizes[step->id];
            sizes[step->id] = 0;
        }
        if (live_bytes > trace->peak_live_bytes)
            trace->peak_live_bytes = live_bytes;
    }
    free(sizes);
}

void trace_destroy(struct trace *trace) {
    free(trace->steps);
    *trace = (struct trace){0};
}

/* ---- random sizes and lifetimes ---- */

struct live {
    size_t *ids, *sizes;
    size_t n, n_bytes;
};

static void free_one(struct trace *trace, struct live *live, uint64_t *random) {
    size_t i = random_below(random, live->n);
    add(trace, 0, live->ids[i]);
    live->n_bytes -= live->sizes[i];
    live->n--;
    live->ids[i] = live->ids[live->n];
    live->sizes[i] = live->sizes[live->n];
}

/* As RMM's random_allocations: each of 2 n steps allocates with 73 % probability if there are fewer
 * than n blocks and the fill limit allows it; otherwise it frees any live block. */
static void random_lives(struct trace *trace, size_t n, size_t limit_bytes,
                         size_t (*draw)(uint64_t *random, size_t max_bytes), size_t max_bytes) {
    uint64_t random = 42;
    struct live live = {bench_memory(n, sizeof(size_t)), bench_memory(n, sizeof(size_t)), 0, 0};
    for (size_t i = 0; i < 2 * n; i++) {
        size_t n_bytes = draw(&random, max_bytes);
        bool is_obtained = live.n == 0 || (random_below(&random, 100) < 73 &&
                                           live.n_bytes + n_bytes < limit_bytes);
        if (is_obtained && trace->n_blocks < n) {
            live.sizes[live.n] = n_bytes;
            live.ids[live.n++] = add_block(trace, n_bytes);
            live.n_bytes += n_bytes;
        } else if (live.n > 0)
            free_one(trace, &live, &random);
    }
    while (live.n > 0)
        free_one(trace, &live, &random);
    free(live.ids);
    free(live.sizes);
}

static size_t draw_uniform(uint64_t *random, size_t max_bytes) {
    return 1 + random_below(random, max_bytes);
}

/* A bounded Pareto of exponent 1/2: P(more than x) falls as the root of x, from 512 bytes. */
static size_t draw_power(uint64_t *random, size_t max_bytes) {
    double low = 1 / sqrt(512.0), high = 1 / sqrt((double)max_bytes);
    double root = low - random_share(random) * (low - high);
    return (size_t)(1 / (root * root));
}

/* ---- the workloads ---- */

/* random/COUNTxMAX */
static void make_random(struct trace *trace, const char *rest, bool is_tiny) {
    const char *max = strchr(rest, 'x');
    size_t n = strtoull(rest, NULL, 10), max_bytes = max ? size_of(max + 1) : 64 * MIB;
    size_t limit_bytes = 16000 * MIB;
    if (is_tiny) {
        n = n / 50 + 10;
        limit_bytes = 64 * MIB;
        max_bytes = max_bytes < 8 * MIB ? max_bytes : 8 * MIB;
    }
    random_lives(trace, n, limit_bytes, draw_uniform, max_bytes);
}

/* power/COUNT, up to 256 MiB */
static void make_power(struct trace *trace, const char *rest, bool is_tiny) {
    size_t n = strtoull(rest, NULL, 10);
    random_lives(trace, is_tiny ? n / 50 + 10 : n, is_tiny ? 64 * MIB : 4096 * MIB, draw_power,
                 is_tiny ? 8 * MIB : 256 * MIB);
}

/* growth/STEPS: a batch grows from 1 to STEPS, so that no size comes twice */
static void make_growth(struct trace *trace, const char *rest, bool is_tiny) {
    static const size_t shares[] = {1, 1, 2, 4, 4, 8, 16, 1, 2, 4, 32, 64}; /* in units of 4 KiB */
    enum { N = sizeof shares / sizeof *shares };
    size_t n = is_tiny ? 10 : strtoull(rest, NULL, 10), ids[N];
    for (size_t batch = 1; batch <= n; batch++) {
        for (size_t i = 0; i < N; i++)
            ids[i] = add_block(trace, shares[i] * batch * 4096);
        for (size_t i = N; i > 0; i--)
            add(trace, 0, ids[i - 1]);
    }
}

/* pack/COUNTxBYTES: all live at once */
static void make_pack(struct trace *trace, const char *rest, bool is_tiny) {
    const char *size = strchr(rest, 'x');
    size_t n = is_tiny ? 20 : strtoull(rest, NULL, 10), n_bytes = size ? size_of(size + 1) : MIB;
    for (size_t i = 0; i < n; i++)
        add_block(trace, n_bytes);
    for (size_t i = 0; i < n; i++)
        add(trace, 0, i);
}

bool trace_generate(struct trace *trace, const char *name, bool is_tiny) {
    static const struct {
        const char *prefix;
        void (*make)(struct trace *trace, const char *rest, bool is_tiny);
    } makers[] = {{"random/", make_random},
                  {"power/", make_power},
                  {"growth/", make_growth},
                  {"pack/", make_pack}};
    *trace = (struct trace){0};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        size_t length = strlen(makers[i].prefix);
        if (!strncmp(name, makers[i].prefix, length)) {
            makers[i].make(trace, name + length, is_tiny);
            finish(trace, name);
            return trace->n > 0;
        }
    }
    return false;
}

/* ---- files ---- */

void trace_read(struct trace *trace, const char *path) {
    char line[128];
    unsigned long long number;
    FILE *file = fopen(path, "r");
    *trace = (struct trace){0};
    if (!file || !fgets(line, sizeof line, file) || strncmp(line, "cushim-trace 1", 14))
        bench_fail(path, 0);
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        if (line[0] == 't')
            trace->timed_from = trace->n;
        else if (sscanf(line, "a %llu", &number) == 1 && number > 0)
            add_block(trace, number);
        else if (sscanf(line, "f %llu", &number) == 1)
            add(trace, 0, number);
        else
            bench_fail(line, 0);
    }
    fclose(file);
    finish(trace, path);
}

void trace_write(const struct trace *trace, const char *path) {
    FILE *file = fopen(path, "w");
    if (!file)
        bench_fail(path, 0);
    fprintf(file, "cushim-trace 1\n");
    for (size_t i = 0; i < trace->n; i++) {
        const struct trace_step *step = &trace->steps[i];
        if (i == trace->timed_from && i > 0)
            fprintf(file, "t\n");
        if (step->n_bytes)
            fprintf(file, "a %zu\n", step->n_bytes);
        else
            fprintf(file, "f %" PRIu32 "\n", step->id);
    }
    if (fclose(file))
        bench_fail(path, 0);
}
