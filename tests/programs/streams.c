/*
 * Streams of every kind: blocking, non-blocking, with a priority, legacy and per-thread; events
 * between them; asynchronous copies from and to pinned memory; memory that is freed as soon as its
 * work is queued.
 *
 *   streams [--size ELEMENTS] [--rounds N]
 */
#include "kernel.h"
#include "program.h"

enum { N_STREAMS = 5, N_THREADS = 128 };

KERNEL(scale, unsigned *, data, unsigned, factor, size_t, n) {
    if (i < n)
        data[i] *= factor;
}

KERNEL(add, unsigned *, sum, const unsigned *, term, size_t, n) {
    if (i < n)
        sum[i] += term[i];
}

static void make_streams(cudaStream_t *streams) {
    int least, greatest;
    TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TRY(cudaStreamCreate(&streams[0]));
    TRY(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
    TRY(cudaStreamCreateWithPriority(&streams[2], cudaStreamNonBlocking, greatest));
    streams[3] = cudaStreamLegacy;
    streams[4] = cudaStreamPerThread;
}

/* On each stream: copy in, scale, copy out, and free while the work runs. */
static void scale_on_each(cudaStream_t *streams, unsigned *pinned, size_t n, unsigned factor) {
    for (int s = 0; s < N_STREAMS; s++) {
        unsigned *part = pinned + (size_t)s * n, *device;
        for (size_t i = 0; i < n; i++)
            part[i] = (unsigned)(i + (size_t)s);
        TRY(cudaMalloc((void **)&device, n * sizeof *device));
        TRY(cudaMemcpyAsync(device, part, n * sizeof *device, cudaMemcpyHostToDevice, streams[s]));
        TRY(LAUNCH(scale, BLOCKS(n, N_THREADS), N_THREADS, streams[s], device, factor, n));
        TRY(cudaMemcpyAsync(part, device, n * sizeof *device, cudaMemcpyDeviceToHost, streams[s]));
        TRY(cudaFree(device));
    }
    for (int s = 0; s < N_STREAMS; s++)
        TRY(cudaStreamSynchronize(streams[s]));
    for (int s = 0; s < N_STREAMS; s++) {
        for (size_t i = 0; i < n; i++)
            MUST(pinned[(size_t)s * n + i] == (unsigned)(i + (size_t)s) * factor);
    }
}

/* A chain over all streams: each waits for the event of the previous one. */
static unsigned chain(cudaStream_t *streams, size_t n, unsigned factor) {
    unsigned *sum, *term, *answer;
    cudaEvent_t done[N_STREAMS];
    TRY(cudaMalloc((void **)&sum, n * sizeof *sum));
    TRY(cudaMalloc((void **)&term, n * sizeof *term));
    TRY(cudaMallocHost((void **)&answer, n * sizeof *answer));
    TRY(cudaMemset(sum, 0, n * sizeof *sum));
    TRY(cudaMemset(term, 1, n * sizeof *term));
    TRY(cudaDeviceSynchronize()); /* because a non-blocking stream does not wait for the sets */
    for (int s = 0; s < N_STREAMS; s++) {
        TRY(cudaEventCreateWithFlags(&done[s], s % 2 ? cudaEventDisableTiming : cudaEventDefault));
        if (s > 0)
            TRY(cudaStreamWaitEvent(streams[s], done[s - 1], 0));
        TRY(LAUNCH(scale, BLOCKS(n, N_THREADS), N_THREADS, streams[s], sum, factor, n));
        TRY(LAUNCH(add, BLOCKS(n, N_THREADS), N_THREADS, streams[s], sum, term, n));
        TRY(cudaEventRecord(done[s], streams[s]));
    }
    TRY(cudaStreamWaitEvent(streams[1], done[N_STREAMS - 1], 0));
    TRY(cudaMemcpyAsync(answer, sum, n * sizeof *sum, cudaMemcpyDeviceToHost, streams[1]));
    TRY(cudaFree(sum));
    TRY(cudaFree(term));
    TRY(cudaStreamSynchronize(streams[1]));
    TRY(cudaEventSynchronize(done[0]));
    float ms = -1;
    TRY(cudaEventElapsedTime(&ms, done[0], done[2]));
    MUST(ms >= 0);

    unsigned expected = 0;
    for (int s = 0; s < N_STREAMS; s++)
        expected = expected * factor + 0x01010101u;
    for (size_t i = 0; i < n; i++)
        MUST(answer[i] == expected);
    for (int s = 0; s < N_STREAMS; s++)
        TRY(cudaEventDestroy(done[s]));
    TRY(cudaFreeHost(answer));
    return expected;
}

int main(int argc, char **argv) {
    size_t n = program_option(argc, argv, "--size", 4096);
    size_t n_rounds = program_option(argc, argv, "--rounds", 20);
    cudaStream_t streams[N_STREAMS];
    unsigned *pinned;
    unsigned long long checksum = CHECKSUM;
    make_streams(streams);
    TRY(cudaHostAlloc((void **)&pinned, N_STREAMS * n * sizeof *pinned, cudaHostAllocPortable));

    for (size_t round = 0; round < n_rounds; round++) {
        scale_on_each(streams, pinned, n, (unsigned)round + 3);
        checksum = program_checksum(checksum, pinned, 64);
        unsigned last = chain(streams, n, (unsigned)round + 5);
        checksum = program_checksum(checksum, &last, sizeof last);
    }
    TRY(cudaFreeHost(pinned));
    for (int s = 0; s < 3; s++)
        TRY(cudaStreamDestroy(streams[s]));
    printf("streams: %zu x %d x %zu, checksum %016llx\n", n_rounds, N_STREAMS, n, checksum);
    return 0;
}
