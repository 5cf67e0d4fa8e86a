/*
 * Launches of one kernel with the same arguments: by cuLaunchKernel, prepared, and checked each
 * time.  A sample has 32 launches; the wait after it is not timed.
 *
 * `handle` is the overhead of calls: `pin` looks one object up and releases it (then the bucket of
 * a pool is arithmetic), `scope` also queries the current context (the handle of a stream), `flags`
 * also asks the driver; the comparison is the driver alone.
 */
#include <string.h>

#include "companion.h"

enum { N_EACH = 32, N_WORDS = 32, MANY = 1000 };

struct launches {
    struct companion_stream stream;
    CUfunction cu;
    struct cushim_function *function;
    struct cushim_prepared *prepared;
    struct cushim_launch shape;
    void **args;
    size_t n_args;
};

static void by_driver(void *cookie, size_t n) {
    struct launches *launches = cookie;
    for (size_t i = 0; i < n; i++)
        bench_must("cuLaunchKernel",
                   (int)raw.cuLaunchKernel(launches->cu, 1, 1, 1, N_WORDS, 1, 1, 0,
                                           launches->stream.cu, launches->args, NULL));
}

static void prepared(void *cookie, size_t n) {
    struct launches *launches = cookie;
    const void *const *args = (const void *const *)launches->args;
    for (size_t i = 0; i < n; i++)
        need(cushim_prepared_launch(launches->prepared, &launches->shape, args));
}

static void unprepared(void *cookie, size_t n) {
    struct launches *launches = cookie;
    const void *const *args = (const void *const *)launches->args;
    for (size_t i = 0; i < n; i++)
        need(cushim_function_launch(launches->function, &launches->shape, args, launches->n_args));
}

static void settle(void *cookie) {
    struct launches *launches = cookie;
    bench_must("wait", (int)raw.cuStreamSynchronize(launches->stream.cu));
}

static const struct companion_way ways[] = {
    {"native", by_driver}, {"companion", prepared}, {"companion, unprepared", unprepared}};

static void time_kernel(struct launches *launches, const char *name,
                        const struct companion_settings *settings) {
    companion_contest(&(struct companion_contest){.name = name,
                                                  .ways = ways,
                                                  .n_ways = 3,
                                                  .cookie = launches,
                                                  .n_each = N_EACH,
                                                  .settle = settle},
                      settings);
    need(cushim_prepared_destroy(launches->prepared));
}

/* The functions of the library and of the driver come from two modules with the same image. */
static void find(struct launches *launches, struct cushim_module *module, CUmodule of_driver,
                 const char *name, const char *format) {
    need(cushim_module_function(module, name, &launches->function));
    need(cushim_function_prepare(launches->function, format, &launches->prepared));
    bench_must("cuModuleGetFunction", (int)raw.cuModuleGetFunction(&launches->cu, of_driver, name));
}

/* Each way adds the numbers whose bytes are all 0x3f. */
static void check(struct launches *launches, cushim_devptr sum) {
    float wanted[N_WORDS];
    memset(wanted, 0x3f, sizeof wanted);
    for (int i = 0; i < N_WORDS; i++)
        wanted[i] += wanted[i];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        companion_fill(sum, 0xff, sizeof wanted);
        ways[i].run(launches, 1);
        settle(launches);
        companion_check(ways[i].variant, sum, wanted, sizeof wanted);
    }
}

static void time_add(struct launches *launches, const struct companion_settings *settings) {
    CUdeviceptr sum, a, b;
    uint64_t n = N_WORDS;
    void *args[] = {&sum, &a, &b, &n};
    bench_must("cuMemAlloc", (int)raw.cuMemAlloc(&sum, n * sizeof(float)));
    bench_must("cuMemAlloc", (int)raw.cuMemAlloc(&a, n * sizeof(float)));
    bench_must("cuMemAlloc", (int)raw.cuMemAlloc(&b, n * sizeof(float)));
    companion_fill(a, 0x3f, n * sizeof(float));
    companion_fill(b, 0x3f, n * sizeof(float));
    launches->args = args;
    launches->n_args = 4;
    check(launches, sum);
    time_kernel(launches, "launch/4-args", settings);
    bench_must("cuMemFree", (int)raw.cuMemFree(sum));
    bench_must("cuMemFree", (int)raw.cuMemFree(a));
    bench_must("cuMemFree", (int)raw.cuMemFree(b));
}

/* ---- handles ---- */

struct handles {
    struct cushim_pool *pool;
    struct companion_stream stream;
};

static void ask_bucket(void *cookie, size_t n) {
    struct handles *handles = cookie;
    size_t bytes;
    for (size_t i = 0; i < n; i++)
        need(cushim_pool_bucket(handles->pool, 512, &bytes));
}

static void ask_handle(void *cookie, size_t n) {
    struct handles *handles = cookie;
    CUstream cu;
    for (size_t i = 0; i < n; i++)
        need(cushim_stream_handle(handles->stream.handle, &cu));
}

static void ask_flags(void *cookie, size_t n) {
    struct handles *handles = cookie;
    unsigned flags;
    for (size_t i = 0; i < n; i++)
        need(cushim_stream_flags(handles->stream.handle, &flags));
}

static void ask_driver(void *cookie, size_t n) {
    struct handles *handles = cookie;
    unsigned flags;
    for (size_t i = 0; i < n; i++)
        bench_must("cuStreamGetFlags", (int)raw.cuStreamGetFlags(handles->stream.cu, &flags));
}

static void time_handles(struct companion_stream stream,
                         const struct companion_settings *settings) {
    static const struct companion_way pin = {"companion", ask_bucket},
                                      scope = {"companion", ask_handle},
                                      flags[] = {{"native", ask_driver}, {"companion", ask_flags}};
    struct handles handles = {.stream = stream};
    const struct companion_contest contests[] = {
        {.name = "handle/pin", .ways = &pin, .n_ways = 1},
        {.name = "handle/scope", .ways = &scope, .n_ways = 1},
        {.name = "handle/flags", .ways = flags, .n_ways = 2}};
    need(cushim_pool_create(NULL, &handles.pool));
    for (size_t i = 0; i < sizeof contests / sizeof *contests; i++) {
        struct companion_contest contest = contests[i];
        contest.cookie = &handles;
        contest.n_each = MANY;
        companion_contest(&contest, settings);
    }
    need(cushim_pool_destroy(handles.pool));
}

void run_companion_launch(const struct companion_settings *settings) {
    struct launches launches = {.stream = companion_stream_create()};
    struct cushim_module *module;
    CUmodule of_driver;
    need(cushim_module_load(NULL, companion_image(), 0, NULL, &module));
    bench_must("cuModuleLoadData", (int)raw.cuModuleLoadData(&of_driver, companion_image()));
    cushim_launch_default(&launches.shape);
    launches.shape.block[0] = N_WORDS;
    launches.shape.stream = launches.stream.handle;
    find(&launches, module, of_driver, "add", "PPPQ");
    time_add(&launches, settings);
    find(&launches, module, of_driver, "nothing", "");
    launches.args = NULL;
    launches.n_args = 0;
    time_kernel(&launches, "launch/0-args", settings);
    time_handles(launches.stream, settings);
    need(cushim_module_unload(module));
    need(cushim_stream_destroy(launches.stream.handle));
}
