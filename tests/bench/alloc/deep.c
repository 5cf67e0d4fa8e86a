/*
 * The cost of a free while the device is busy: 8 streams have kernels in flight.
 *
 *   deep/sync     cudaDeviceSynchronize instead: how long the device still works
 *   deep/malloc   a malloc after the queued work
 *   deep/free     a free after it; `added_ns`: its time beyond the synchronise of the same
 *                 round (the driver's wait is in both), with the interval of that median
 *
 * The kernels spin for a given time, so that the queue is equally long in each round. A device that
 * takes no PTX sets memory instead.
 */
#include "alloc.h"
#include "tests/bench/bench.h"
#include "kernel.h"

enum { N_STREAMS = 8, N_KERNELS = 8, SPIN_NS = 100000, SET_BYTES = 1 << 20, MAX_ROUNDS = 1000 };

static const char spin_kernel[] = ".version 7.0\n"
                                  ".target sm_75\n"
                                  ".address_size 64\n"
                                  ".visible .entry spin(.param .u64 n_ns) {\n"
                                  "  .reg .u64 %begin, %now, %length;\n"
                                  "  .reg .pred %more;\n"
                                  "  ld.param.u64 %length, [n_ns];\n"
                                  "  mov.u64 %begin, %globaltimer;\n"
                                  "again:\n"
                                  "  mov.u64 %now, %globaltimer;\n"
                                  "  sub.u64 %now, %now, %begin;\n"
                                  "  setp.lt.u64 %more, %now, %length;\n"
                                  "  @%more bra again;\n"
                                  "  ret;\n"
                                  "}\n";

struct deep {
    cudaStream_t streams[N_STREAMS];
    void *memory[N_STREAMS];
    cudaKernel_t kernel; /* NULL: memory is set instead */
};

static void prepare(struct deep *deep) {
    for (int i = 0; i < N_STREAMS; i++) {
        bench_must("stream", cudaStreamCreateWithFlags(&deep->streams[i], cudaStreamNonBlocking));
        bench_must("malloc", cudaMalloc(&deep->memory[i], SET_BYTES));
    }
    deep->kernel = kernel_load(spin_kernel, "spin");
}

static void finish(struct deep *deep) {
    bench_must("wait", cudaDeviceSynchronize());
    for (int i = 0; i < N_STREAMS; i++) {
        bench_must("free", cudaFree(deep->memory[i]));
        bench_must("stream", cudaStreamDestroy(deep->streams[i]));
    }
}

static void queue(struct deep *deep) {
    unsigned long long n_ns = SPIN_NS;
    void *arguments[] = {&n_ns};
    struct dim3 one = {1, 1, 1};
    for (int k = 0; k < N_KERNELS; k++)
        for (int i = 0; i < N_STREAMS; i++)
            bench_must("queue", deep->kernel ? cudaLaunchKernel((const void *)deep->kernel, one,
                                                                one, arguments, 0, deep->streams[i])
                                             : cudaMemsetAsync(deep->memory[i], k, SET_BYTES,
                                                               deep->streams[i]));
}

static void print_free(struct bench_samples *frees, int64_t *added_ns, size_t n) {
    struct bench_interval added = bench_interval_of(added_ns, n);
    struct bench_stats stats = bench_stats_of(frees);
    char more[160];
    snprintf(more, sizeof more,
             ", \"added_ns\": %lld, \"added_low_ns\": %lld, \"added_high_ns\": %lld",
             (long long)added.middle, (long long)added.low, (long long)added.high);
    bench_print_with("deep/free", &stats, more);
}

static uint64_t time_sync(struct deep *deep) {
    queue(deep);
    uint64_t start_ns = bench_now_ns();
    bench_must("wait", cudaDeviceSynchronize());
    return bench_now_ns() - start_ns;
}

static uint64_t time_malloc(struct deep *deep, const struct allocator *allocator, size_t n_bytes) {
    void *block = NULL;
    queue(deep);
    uint64_t start_ns = bench_now_ns();
    bench_must("malloc while busy", allocator->obtain(&block, n_bytes));
    uint64_t ns = bench_now_ns() - start_ns;
    bench_must("wait", cudaDeviceSynchronize());
    bench_must("free", allocator->release(block, n_bytes));
    bench_must("wait", cudaDeviceSynchronize());
    return ns;
}

static uint64_t time_free(struct deep *deep, const struct allocator *allocator, size_t n_bytes) {
    void *block = NULL;
    bench_must("malloc", allocator->obtain(&block, n_bytes));
    queue(deep);
    uint64_t start_ns = bench_now_ns();
    bench_must("free while busy", allocator->release(block, n_bytes));
    uint64_t ns = bench_now_ns() - start_ns;
    bench_must("wait", cudaDeviceSynchronize());
    return ns;
}

void run_deep(const struct settings *settings) {
    const struct allocator *allocator = settings->allocator;
    struct deep deep = {0};
    size_t n_bytes = 1 << 20;
    struct bench_samples syncs = bench_samples_create(MAX_ROUNDS);
    struct bench_samples mallocs = bench_samples_create(MAX_ROUNDS);
    struct bench_samples frees = bench_samples_create(MAX_ROUNDS);
    int64_t *added_ns = bench_memory(MAX_ROUNDS, sizeof *added_ns);
    allocator_check(allocator, n_bytes);
    prepare(&deep);
    time_sync(&deep);
    uint64_t begin_ns = bench_now_ns();
    while (syncs.n < MAX_ROUNDS &&
           (syncs.n < 5 || bench_now_ns() - begin_ns < (uint64_t)settings->time_ms * 1000000u)) {
        uint64_t sync_ns = time_sync(&deep), free_ns;
        bench_samples_add(&mallocs, time_malloc(&deep, allocator, n_bytes));
        free_ns = time_free(&deep, allocator, n_bytes);
        added_ns[syncs.n] = (int64_t)free_ns - (int64_t)sync_ns;
        bench_samples_add(&frees, free_ns);
        bench_samples_add(&syncs, sync_ns);
    }
    size_t n = syncs.n;
    struct bench_stats stats = bench_stats_of(&syncs);
    bench_print("deep/sync", &stats);
    stats = bench_stats_of(&mallocs);
    bench_print("deep/malloc", &stats);
    print_free(&frees, added_ns, n);
    finish(&deep);
    free(added_ns);
    bench_samples_destroy(&frees);
    bench_samples_destroy(&mallocs);
    bench_samples_destroy(&syncs);
}
