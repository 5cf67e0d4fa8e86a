/*
 * A copy of earlier data to the host during a kernel of 5 ms: each alone, both together by the
 * driver on two streams, and both together by a client.
 *
 * A sample is measured on the device, from an event on the compute stream before the kernel to the
 * later of two events, one on each stream.  `exposed_by_shorter` is the time of both together
 * beyond the longer one, divided by the shorter: 0 if they overlap completely, 1 if one waits for
 * the other.
 */
#include <string.h>

#include "companion.h"

enum { MAX_SAMPLES = 400, MIN_TURNS = 10 };

struct work {
    struct cushim_client *client;
    struct companion_stream compute, copy;
    struct cushim_event *ready, *start, *end_compute, *end_copy;
    CUevent ready_handle;
    CUfunction spin;
    uint64_t spin_ns;
    size_t n_bytes;
    unsigned char *host; /* pinned */
    cushim_devptr device;
};

/* Queue the copy of the ready data; the kernel is already queued. */
typedef void copy_fn(struct work *work, struct cushim_event *ready);

static void by_driver(struct work *work, struct cushim_event *ready) {
    (void)ready; /* the library's kernel; the driver has its own */
    bench_must("cuStreamWaitEvent",
               (int)raw.cuStreamWaitEvent(work->copy.cu, work->ready_handle, 0));
    bench_must("cuMemcpyDtoHAsync",
               (int)raw.cuMemcpyDtoHAsync(work->host, work->device, work->n_bytes, work->copy.cu));
}

static void by_start(struct work *work, struct cushim_event *ready) {
    struct cushim_event *done;
    need(cushim_client_d2h_start(work->client, work->host, work->device, work->n_bytes, ready,
                                 &done));
    need(cushim_event_destroy(done));
}

static void by_pipelined(struct work *work, struct cushim_event *ready) {
    need(cushim_client_d2h_pipelined(work->client, work->host, work->device, work->n_bytes, ready));
}

static const struct way {
    const char *variant;
    bool has_kernel;
    copy_fn *copy;
} ways[] = {{"compute alone", true, NULL},
            {"copy alone", false, by_driver},
            {"native", true, by_driver},
            {"companion", true, by_start},
            {"companion, pipelined", true, by_pipelined}};
enum { N_WAYS = sizeof ways / sizeof *ways };

static void launch(struct work *work) {
    uint64_t unused = 0;
    void *args[] = {&work->spin_ns, &unused};
    bench_must("cuLaunchKernel", (int)raw.cuLaunchKernel(work->spin, 1, 1, 1, 1, 1, 1, 0,
                                                         work->compute.cu, args, NULL));
}

static double ns_between(struct cushim_event *start, struct cushim_event *end) {
    float ms;
    need(cushim_event_synchronize(end));
    need(cushim_event_elapsed(start, end, &ms));
    return 1e6 * (double)ms;
}

/* Returns nanoseconds measured by the device. */
static double take(struct work *work, const struct way *way, unsigned char value) {
    struct cushim_event *ready;
    need(cushim_memory_set8_async(work->device, value, work->n_bytes, work->compute.handle));
    need(cushim_client_synchronize(work->client));
    need(cushim_client_record(work->client, &ready));
    need(cushim_event_record(work->ready, work->compute.handle));
    need(cushim_event_record(work->start, work->compute.handle));
    if (way->has_kernel)
        launch(work);
    need(cushim_event_record(work->end_compute, work->compute.handle));
    if (way->copy)
        way->copy(work, ready);
    if (!way->copy || way->copy == by_driver)
        need(cushim_event_destroy(ready)); /* because the client's copies consume it */
    need(cushim_event_record(work->end_copy, work->copy.handle));
    double compute_ns = ns_between(work->start, work->end_compute);
    double copy_ns = ns_between(work->start, work->end_copy);
    return way->copy && copy_ns > compute_ns ? copy_ns : compute_ns;
}

/* Check that all bytes from before the kernel arrived. */
static void check(struct work *work) {
    for (size_t i = 0; i < N_WAYS; i++) {
        unsigned char value = (unsigned char)(i + 1);
        if (!ways[i].copy)
            continue;
        memset(work->host, 0, work->n_bytes);
        take(work, &ways[i], value);
        if (work->host[0] != value || memcmp(work->host, work->host + 1, work->n_bytes - 1)) {
            fprintf(stderr, "%s: wrong contents\n", ways[i].variant);
            exit(1);
        }
    }
}

static void report(const char *name, struct bench_samples *samples) {
    double apart[2]; /* medians of each alone, which come first */
    for (size_t i = 0; i < N_WAYS; i++) {
        char more[128] = "";
        double ns = bench_stats_of(&samples[i]).p50_ns;
        if (i < 2) {
            apart[i] = ns;
        } else {
            double longer = apart[0] > apart[1] ? apart[0] : apart[1];
            double shorter = apart[0] + apart[1] - longer;
            snprintf(more, sizeof more, ", \"exposed_by_shorter\": %.4f", (ns - longer) / shorter);
        }
        companion_print(name, ways[i].variant, &samples[i], more);
    }
}

static void time_all(struct work *work, const char *name,
                     const struct companion_settings *settings) {
    struct bench_samples samples[N_WAYS];
    size_t n_least = settings->is_tiny ? 2 : MIN_TURNS;
    uint64_t until_ns = bench_now_ns() + N_WAYS * settings->time_ms * 1000000ull;
    for (size_t i = 0; i < N_WAYS; i++)
        samples[i] = bench_samples_create(MAX_SAMPLES);
    for (size_t turn = 0; turn < MAX_SAMPLES && (turn < n_least || bench_now_ns() < until_ns);
         turn++) {
        for (size_t i = 0; i < N_WAYS; i++)
            bench_samples_add(&samples[i], (uint64_t)take(work, &ways[i], 0));
    }
    report(name, samples);
    for (size_t i = 0; i < N_WAYS; i++)
        bench_samples_destroy(&samples[i]);
}

static void make(struct work *work) {
    CUmodule module;
    void *host;
    need(cushim_client_get(0, &work->client));
    need(cushim_client_compute(work->client, &work->compute.handle));
    need(cushim_client_copy(work->client, &work->copy.handle));
    need(cushim_stream_handle(work->compute.handle, &work->compute.cu));
    need(cushim_stream_handle(work->copy.handle, &work->copy.cu));
    need(cushim_event_create(NULL, CUSHIM_EVENT_FLAG_NO_TIMING, &work->ready));
    need(cushim_event_handle(work->ready, &work->ready_handle));
    need(cushim_event_create(NULL, 0, &work->start));
    need(cushim_event_create(NULL, 0, &work->end_compute));
    need(cushim_event_create(NULL, 0, &work->end_copy));
    need(cushim_host_alloc(NULL, work->n_bytes, 0, &host));
    work->host = host;
    need(cushim_client_alloc(work->client, work->n_bytes, &work->device));
    bench_must("cuModuleLoadData", (int)raw.cuModuleLoadData(&module, companion_image()));
    bench_must("cuModuleGetFunction", (int)raw.cuModuleGetFunction(&work->spin, module, "spin"));
}

static void end(struct work *work) {
    need(cushim_client_free(work->client, work->device, work->n_bytes));
    need(cushim_host_free(work->host));
    need(cushim_event_destroy(work->ready));
    need(cushim_event_destroy(work->start));
    need(cushim_event_destroy(work->end_compute));
    need(cushim_event_destroy(work->end_copy));
    need(cushim_client_destroy(work->client));
}

/* 256 MiB take about 5 ms if the bus moves 50 GB/s. */
void run_companion_copy(const struct companion_settings *settings) {
    struct work work = {.spin_ns = settings->is_tiny ? 1000000 : 5000000,
                        .n_bytes = settings->is_tiny ? 1 << 20 : 256 << 20};
    make(&work);
    check(&work);
    time_all(&work, settings->is_tiny ? "copy/1M" : "copy/256M", settings);
    end(&work);
}
