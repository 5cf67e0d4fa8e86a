/*
 * Eight streams with deep queues, filled in turn; buffers are freed while all work is in flight,
 * and their memory is allocated again at once.
 *
 *   deep_queue [--size ELEMENTS] [--rounds N] [--depth KERNELS]
 */
#include "kernel.h"
#include "program.h"

enum { N_STREAMS = 8, N_THREADS = 128 };

KERNEL(start, unsigned *, data, unsigned, value, size_t, n) {
    if (i < n)
        data[i] = value;
}

KERNEL(advance, unsigned *, data, size_t, n) {
    if (i < n)
        data[i] = data[i] * 1664525u + 1013904223u;
}

static unsigned advanced(unsigned value, size_t n_times) {
    while (n_times--)
        value = value * 1664525u + 1013904223u;
    return value;
}

int main(int argc, char **argv) {
    size_t n = program_option(argc, argv, "--size", 1000);
    size_t n_rounds = program_option(argc, argv, "--rounds", 20);
    size_t depth = program_option(argc, argv, "--depth", 32);
    size_t n_bytes = n * sizeof(unsigned);
    unsigned long long checksum = CHECKSUM;
    cudaStream_t streams[N_STREAMS];
    unsigned *device[N_STREAMS], *pinned;
    TRY(cudaMallocHost((void **)&pinned, N_STREAMS * n_bytes));
    for (int s = 0; s < N_STREAMS; s++)
        TRY(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));

    for (size_t round = 0; round < n_rounds; round++) {
        for (int s = 0; s < N_STREAMS; s++) {
            TRY(cudaMalloc((void **)&device[s], n_bytes));
            TRY(LAUNCH(start, BLOCKS(n, N_THREADS), N_THREADS, streams[s], device[s],
                       (unsigned)(round * N_STREAMS) + (unsigned)s, n));
        }
        for (size_t k = 0; k < depth; k++) {
            for (int s = 0; s < N_STREAMS; s++)
                TRY(LAUNCH(advance, BLOCKS(n, N_THREADS), N_THREADS, streams[s], device[s], n));
        }
        for (int s = 0; s < N_STREAMS; s++) {
            TRY(cudaMemcpyAsync(pinned + (size_t)s * n, device[s], n_bytes, cudaMemcpyDeviceToHost,
                                streams[s]));
            TRY(cudaFree(device[s]));
            void *again; /* probably the same memory, which no work may read any more */
            TRY(cudaMalloc(&again, n_bytes));
            TRY(cudaMemsetAsync(again, 0xee, n_bytes, streams[(s + 1) % N_STREAMS]));
            TRY(cudaFree(again));
        }
        TRY(cudaDeviceSynchronize());
        for (int s = 0; s < N_STREAMS; s++) {
            unsigned expected = advanced((unsigned)(round * N_STREAMS) + (unsigned)s, depth);
            for (size_t i = 0; i < n; i++)
                MUST(pinned[(size_t)s * n + i] == expected);
        }
        checksum = program_checksum(checksum, pinned, N_STREAMS * n_bytes);
    }
    TRY(cudaFreeHost(pinned));
    for (int s = 0; s < N_STREAMS; s++)
        TRY(cudaStreamDestroy(streams[s]));
    printf("deep_queue: %zu x %d x %zu, checksum %016llx\n", n_rounds, N_STREAMS, depth, checksum);
    return 0;
}
