/*
 * The launch of one executable graph by cushim's handle and by the driver's: a graph of one empty
 * kernel, whose launch is the shortest possible, and one of 20.
 *
 * Single launches in turn, each between two clock readings; the queue is emptied so often that no
 * launch waits for room in it.
 */
#include "companion.h"

enum { N_QUEUED = 32, N_KERNELS = 20, N_CHECKED = 8 };

struct launches {
    struct cushim_graphexec *handle;
    CUgraphExec cu;
    struct companion_stream stream;
    size_t n_queued;
};

/* The captured work: kernels without parameters, or one that counts its threads. */
struct recipe {
    CUfunction kernel;
    CUstream stream;
    unsigned n;
    void **args;
};

static void by_driver(void *cookie, size_t n) {
    struct launches *launches = cookie;
    for (size_t i = 0; i < n; i++)
        bench_must("cuGraphLaunch", (int)raw.cuGraphLaunch(launches->cu, launches->stream.cu));
}

static void by_companion(void *cookie, size_t n) {
    struct launches *launches = cookie;
    for (size_t i = 0; i < n; i++)
        need(cushim_graphexec_launch(launches->handle, launches->stream.handle));
}

static void settle(void *cookie) {
    struct launches *launches = cookie;
    if (++launches->n_queued % N_QUEUED == 0)
        bench_must("wait", (int)raw.cuStreamSynchronize(launches->stream.cu));
}

static int submit(struct cushim_stream *stream, void *cookie) {
    const struct recipe *recipe = cookie;
    int answer = 0;
    (void)stream;
    for (unsigned i = 0; i < recipe->n && !answer; i++)
        answer = (int)raw.cuLaunchKernel(recipe->kernel, 1, 1, 1, 1, 1, 1, 0, recipe->stream,
                                         recipe->args, NULL);
    return answer;
}

static void make(struct launches *launches, struct recipe *recipe) {
    need(cushim_graph_capture(launches->stream.handle, NULL, submit, recipe, NULL, NULL,
                              &launches->handle));
    need(cushim_graphexec_handle(launches->handle, &launches->cu));
    need(cushim_graphexec_upload(launches->handle, launches->stream.handle));
    need(cushim_stream_synchronize(launches->stream.handle));
}

/* Check that a counting graph has counted each launch of both ways. */
static void check(struct launches *launches, CUmodule module) {
    CUdeviceptr counter;
    struct cushim_graphexec_info info = {.struct_size = sizeof info};
    uint32_t wanted = 2 * N_CHECKED;
    struct recipe recipe = {.stream = launches->stream.cu, .n = 1, .args = (void *[]){&counter}};
    bench_must("cuModuleGetFunction",
               (int)raw.cuModuleGetFunction(&recipe.kernel, module, "count"));
    bench_must("cuMemAlloc", (int)raw.cuMemAlloc(&counter, sizeof wanted));
    companion_fill(counter, 0, sizeof wanted);
    make(launches, &recipe);
    by_driver(launches, N_CHECKED);
    by_companion(launches, N_CHECKED);
    need(cushim_stream_synchronize(launches->stream.handle));
    companion_check("what launches counted", counter, &wanted, sizeof wanted);
    need(cushim_graphexec_info(launches->handle, &info));
    if (info.launches != N_CHECKED)
        bench_fail("launches of the graph", (int)info.launches);
    need(cushim_graphexec_destroy(launches->handle));
    bench_must("cuMemFree", (int)raw.cuMemFree(counter));
}

void run_companion_graph(const struct companion_settings *settings) {
    static const struct companion_way ways[] = {{"native", by_driver}, {"companion", by_companion}};
    static const struct {
        const char *name;
        unsigned n_kernels;
    } cases[] = {{"graph/launch-1", 1}, {"graph/launch-20", N_KERNELS}};
    struct launches launches = {.stream = companion_stream_create()};
    struct recipe recipe = {.stream = launches.stream.cu};
    CUmodule module;
    bench_must("cuModuleLoadData", (int)raw.cuModuleLoadData(&module, companion_image()));
    bench_must("cuModuleGetFunction",
               (int)raw.cuModuleGetFunction(&recipe.kernel, module, "nothing"));
    check(&launches, module);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        recipe.n = cases[i].n_kernels;
        make(&launches, &recipe);
        companion_contest(&(struct companion_contest){.name = cases[i].name,
                                                      .ways = ways,
                                                      .n_ways = 2,
                                                      .cookie = &launches,
                                                      .n_each = 1,
                                                      .settle = settle},
                          settings);
        need(cushim_stream_synchronize(launches.stream.handle));
        need(cushim_graphexec_destroy(launches.handle));
    }
    need(cushim_stream_destroy(launches.stream.handle));
}
