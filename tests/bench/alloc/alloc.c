/*
 * The allocator benchmark: one allocator, any workloads, one JSON line per case.
 *
 *   alloc --work NAME[,NAME ...] [--allocator malloc] [--peer LIBRARY] [--ms N] [--sizes 512,64K]
 *         [--threads 1,4,16] [--trace FILE] [--dump FOLDER] [--tiny] [--turns]
 *
 * Workloads: pair, larson, deep, random/COUNTxMAX, power/COUNT, growth/STEPS, pack/COUNTxBYTES and
 * trace (the file).  Allocators: malloc, async, async-kept, pinned, rmm-pool, rmm-arena, rmm-async
 * (from the library that --peer names).  --dump writes the workloads that are traces to files, for
 * other players, and times nothing.  --turns: see tests/bench/run/turns.py.
 */
#include "alloc.h"

#include <string.h>

#include "tests/bench/bench.h"
#include "replay.h"
#include "trace.h"

struct arguments {
    struct settings settings;
    const char *work, *allocator, *library, *folder;
    bool is_by_turns;
};

static struct arguments read_arguments(int argc, char **argv) {
    struct arguments given = {.settings = {.time_ms = 60}, .allocator = "malloc"};
    const char *time_ms = NULL;
    const struct {
        const char *name, **value;
    } options[] = {{"--work", &given.work},
                   {"--allocator", &given.allocator},
                   {"--peer", &given.library},
                   {"--ms", &time_ms},
                   {"--sizes", &given.settings.sizes},
                   {"--threads", &given.settings.threads},
                   {"--trace", &given.settings.trace},
                   {"--dump", &given.folder}};
    enum { N = sizeof options / sizeof *options };
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < N && strcmp(argv[i], options[k].name))
            k++;
        if (!strcmp(argv[i], "--tiny"))
            given.settings.is_tiny = true;
        else if (!strcmp(argv[i], "--turns"))
            given.is_by_turns = true;
        else if (k < N && i + 1 < argc)
            *options[k].value = argv[++i];
        else
            bench_fail(argv[i], 2);
    }
    if (!given.work)
        bench_fail("--work", 2);
    if (time_ms)
        given.settings.time_ms = (unsigned)atoi(time_ms);
    return given;
}

/* "trace" and the file's name without its suffix, or the workload's name. */
static void name_of(const struct settings *settings, const char *work, char *name, size_t n) {
    if (strcmp(work, "trace")) {
        snprintf(name, n, "%s", work);
        return;
    }
    const char *slash = strrchr(settings->trace, '/');
    snprintf(name, n, "trace/%s", slash ? slash + 1 : settings->trace);
    char *end = strrchr(name, '.');
    if (end)
        *end = 0;
}

static bool open_trace(struct trace *trace, const struct settings *settings, const char *work) {
    if (strcmp(work, "trace"))
        return trace_generate(trace, work, settings->is_tiny);
    if (!settings->trace)
        bench_fail("--trace", 2);
    trace_read(trace, settings->trace);
    return true;
}

static void run_trace(const struct settings *settings, const char *work, size_t before_bytes) {
    struct trace trace;
    char name[128];
    if (!open_trace(&trace, settings, work))
        bench_fail(work, 2);
    name_of(settings, work, name, sizeof name);
    allocator_check(settings->allocator, 4096);
    replay(name, &trace, settings, before_bytes);
    trace_destroy(&trace);
}

static void dump(const struct settings *settings, const char *work, const char *folder) {
    struct trace trace;
    char name[128], path[4096];
    if (!open_trace(&trace, settings, work))
        bench_fail(work, 2);
    name_of(settings, work, name, sizeof name);
    for (char *c = name; *c; c++)
        *c = *c == '/' ? '-' : *c;
    snprintf(path, sizeof path, "%s/%s.trace", folder, name);
    trace_write(&trace, path);
    printf("{\"case\": \"%s\", \"file\": \"%s\", \"blocks\": %zu}\n", work, path, trace.n_blocks);
    trace_destroy(&trace);
}

static void run(const struct settings *settings, const char *work, size_t before_bytes) {
    static const struct {
        const char *name;
        void (*run)(const struct settings *settings);
    } workloads[] = {{"pair", run_pair}, {"larson", run_larson}, {"deep", run_deep}};
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        if (!strcmp(workloads[i].name, work)) {
            workloads[i].run(settings);
            return;
        }
    }
    run_trace(settings, work, before_bytes);
}

static void run_all(const struct arguments *given, size_t before_bytes) {
    char *works = strdup(given->work), *place = NULL;
    for (char *work = strtok_r(works, ",", &place); work; work = strtok_r(NULL, ",", &place)) {
        if (given->folder)
            dump(&given->settings, work, given->folder);
        else
            run(&given->settings, work, before_bytes);
    }
    free(works);
}

int main(int argc, char **argv) {
    struct arguments given = read_arguments(argc, argv);
    size_t before_bytes = 0;
    if (!given.folder) {
        const char *why;
        bench_must("cudaFree(0)", cudaFree(0));
        allocator_warm();
        before_bytes = held_bytes(); /* a pool's own memory at its start does not count */
        given.settings.allocator = allocator_open(given.allocator, given.library, &why);
        if (!given.settings.allocator) {
            fprintf(stderr, "%s: %s\n", given.allocator, why);
            return 77;
        }
    }
    for (unsigned n_turns = 0; bench_next(given.is_by_turns, &n_turns);)
        run_all(&given, before_bytes);
    return 0;
}
