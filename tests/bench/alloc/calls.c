/*
 * The cost of calls that do not allocate, which should be the same with and without cushim.
 *
 *   calls [--ms N] [--no-kernels]
 *
 * A sample is the mean of a batch of calls without a wait between them; the wait after each batch
 * is not timed, unless the call itself waits.
 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "kernel.h"

enum { BATCH = 100, COPY_BYTES = 4096, MAX_SAMPLES = 20000 };

/* The smallest possible kernel; the driver compiles it. */
static const char empty_kernel[] = ".version 7.0\n"
                                   ".target sm_75\n"
                                   ".address_size 64\n"
                                   ".visible .entry empty() { ret; }\n";

struct bench {
    char *block, *other; /* device */
    char *pinned;
    char *pageable;
    cudaStream_t stream;
    cudaEvent_t event, untimed;
    const void *kernel; /* NULL: no such case */
    cudaGraphExec_t graph;
};

typedef int call_fn(struct bench *bench);

static void must(const char *what, int answer) {
    if (answer)
        bench_fail(what, answer);
}

static int launch(struct bench *bench) {
    return cudaLaunchKernel(bench->kernel, (struct dim3){1, 1, 1}, (struct dim3){1, 1, 1}, NULL, 0,
                            bench->stream);
}

static int launch_graph(struct bench *bench) {
    return cudaGraphLaunch(bench->graph, bench->stream);
}

static int copy_up_async(struct bench *bench) {
    return cudaMemcpyAsync(bench->block, bench->pinned, COPY_BYTES, cudaMemcpyHostToDevice,
                           bench->stream);
}

static int copy_down_async(struct bench *bench) {
    return cudaMemcpyAsync(bench->pinned, bench->block, COPY_BYTES, cudaMemcpyDeviceToHost,
                           bench->stream);
}

static int copy_across_async(struct bench *bench) {
    return cudaMemcpyAsync(bench->other, bench->block, COPY_BYTES, cudaMemcpyDeviceToDevice,
                           bench->stream);
}

static int copy_up(struct bench *bench) {
    return cudaMemcpy(bench->block, bench->pageable, COPY_BYTES, cudaMemcpyHostToDevice);
}

static int copy_down(struct bench *bench) {
    return cudaMemcpy(bench->pageable, bench->block, COPY_BYTES, cudaMemcpyDeviceToHost);
}

static int set_async(struct bench *bench) {
    return cudaMemsetAsync(bench->block, 1, COPY_BYTES, bench->stream);
}

static int record_event(struct bench *bench) {
    return cudaEventRecord(bench->event, bench->stream);
}

static int wait_idle(struct bench *bench) {
    return cudaStreamSynchronize(bench->stream);
}

static int wait_for_device(struct bench *bench) {
    (void)bench;
    return cudaDeviceSynchronize();
}

static int ask_memory(struct bench *bench) {
    size_t free_bytes, total_bytes;
    (void)bench;
    return cudaMemGetInfo(&free_bytes, &total_bytes);
}

static int ask_pointer(struct bench *bench) {
    struct cudaPointerAttributes attributes;
    return cudaPointerGetAttributes(&attributes, bench->block);
}

/* The driver calls that a free in `exact` needs, and the query of each allocation. */
static struct {
    __typeof__(cuCtxGetCurrent) *get_current;
    __typeof__(cuCtxRecordEvent) *record;
    __typeof__(cuEventQuery) *query;
} driver;

static bool has_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return false;
    *(void **)&driver.get_current = dlsym(library, "cuCtxGetCurrent");
    *(void **)&driver.record = dlsym(library, "cuCtxRecordEvent");
    *(void **)&driver.query = dlsym(library, "cuEventQuery");
    return driver.get_current && driver.record && driver.query;
}

static int ask_context(struct bench *bench) {
    CUcontext context;
    (void)bench;
    return driver.get_current(&context);
}

static int prove_idle(struct bench *bench) {
    CUcontext context;
    int answer = driver.get_current(&context);
    if (!answer)
        answer = driver.record(context, bench->untimed);
    if (answer)
        return answer;
    while ((answer = driver.query(bench->untimed)) == CUDA_ERROR_NOT_READY) {
    }
    return answer;
}

static const struct {
    const char *name;
    call_fn *call;
} cases[] = {
    {"calls/current-context", ask_context},
    {"calls/context-record-query", prove_idle},
    {"calls/launch", launch},
    {"calls/graph-launch", launch_graph},
    {"calls/copy-async-up-4K", copy_up_async},
    {"calls/copy-async-down-4K", copy_down_async},
    {"calls/copy-async-across-4K", copy_across_async},
    {"calls/copy-up-4K", copy_up},
    {"calls/copy-down-4K", copy_down},
    {"calls/set-async-4K", set_async},
    {"calls/event-record", record_event},
    {"calls/stream-wait-idle", wait_idle},
    {"calls/device-wait-idle", wait_for_device},
    {"calls/memory-info", ask_memory},
    {"calls/pointer-attributes", ask_pointer},
};

static int make_graph(struct bench *bench) {
    cudaGraph_t graph;
    int answer = cudaStreamBeginCapture(bench->stream, cudaStreamCaptureModeThreadLocal);
    if (!answer)
        answer = launch(bench);
    if (!answer)
        answer = cudaStreamEndCapture(bench->stream, &graph);
    if (!answer)
        answer = cudaGraphInstantiate(&bench->graph, graph, 0);
    return answer;
}

/* Copies are checked once in both directions. */
static void check_copies(struct bench *bench) {
    memset(bench->pinned, 0x5a, COPY_BYTES);
    must("copy up", copy_up_async(bench));
    must("copy across", copy_across_async(bench));
    must("wait", wait_idle(bench));
    must("copy back",
         cudaMemcpy(bench->pageable, bench->other, COPY_BYTES, cudaMemcpyDeviceToHost));
    if (memcmp(bench->pageable, bench->pinned, COPY_BYTES))
        bench_fail("contents", 0);
}

static void time_call(struct bench *bench, const char *name, call_fn *call, unsigned time_ms) {
    struct bench_samples samples = bench_samples_create(MAX_SAMPLES);
    for (int i = 0; i < BATCH; i++)
        must(name, call(bench));
    must("wait", wait_for_device(bench));
    uint64_t begin_ns = bench_now_ns(), last_ns = begin_ns;
    while (samples.n < samples.capacity && last_ns - begin_ns < time_ms * 1000000ull) {
        uint64_t start_ns = bench_now_ns();
        for (int i = 0; i < BATCH; i++)
            must(name, call(bench));
        last_ns = bench_now_ns();
        samples.ns[samples.n++] = (last_ns - start_ns) / BATCH;
        must("wait", wait_for_device(bench));
    }
    struct bench_stats stats = bench_stats_of(&samples);
    bench_print(name, &stats);
    bench_samples_destroy(&samples);
}

static void run(struct bench *bench, bool has_kernels, unsigned time_ms) {
    bool has_floor = has_driver();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!has_floor && (cases[i].call == ask_context || cases[i].call == prove_idle))
            bench_skip(cases[i].name, "a driver before 12.5");
        else if (!bench->kernel && (cases[i].call == launch || cases[i].call == launch_graph))
            bench_skip(cases[i].name, has_kernels ? "the device takes no PTX" : "not asked for");
        else
            time_call(bench, cases[i].name, cases[i].call, time_ms);
    }
}

int main(int argc, char **argv) {
    struct bench bench = {0};
    unsigned time_ms = 50, n_turns = 0;
    bool has_kernels = true, is_by_turns = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--ms") && i + 1 < argc)
            time_ms = (unsigned)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--no-kernels"))
            has_kernels = false;
        else if (!strcmp(argv[i], "--turns"))
            is_by_turns = true;
        else
            bench_fail(argv[i], 2);
    }
    must("malloc", cudaMalloc((void **)&bench.block, COPY_BYTES));
    must("malloc", cudaMalloc((void **)&bench.other, COPY_BYTES));
    must("pinned", cudaMallocHost((void **)&bench.pinned, COPY_BYTES));
    bench.pageable = calloc(1, COPY_BYTES);
    must("stream", cudaStreamCreate(&bench.stream));
    must("event", cudaEventCreate(&bench.event));
    must("event", cudaEventCreateWithFlags(&bench.untimed, cudaEventDisableTiming));
    if (!bench.pageable)
        bench_fail("memory", 0);
    check_copies(&bench);
    if (has_kernels)
        bench.kernel = kernel_load(empty_kernel, "empty");
    if (bench.kernel)
        must("graph", make_graph(&bench));

    while (bench_next(is_by_turns, &n_turns))
        run(&bench, has_kernels, time_ms);
    free(bench.pageable);
    return 0;
}
