/*
 * Staging buffers that are allocated and freed with every batch, by several threads: the next owner
 * may refill a freed source, and a free is a barrier.
 *
 *   pinned [--threads N] [--rounds N] [--size BYTES]
 */
#include <pthread.h>

#include "kernel.h"
#include "program.h"

enum { MOST_THREADS = 64, N_THREADS = 128 };

KERNEL(mix, unsigned char *, data, size_t, n, unsigned, key) {
    if (i < n)
        data[i] = (unsigned char)(data[i] * 5 + key);
}

struct worker {
    unsigned long long seed, checksum;
    size_t most_bytes, n_rounds;
    pthread_t thread;
};

/* One batch: a copy to the device, a kernel, and a copy back into another buffer; only the frees
 * wait. */
static void run_batch(struct worker *worker, cudaStream_t stream) {
    size_t n_bytes = program_random(&worker->seed) % worker->most_bytes + 2;
    unsigned flags = (unsigned)(program_random(&worker->seed) % 3); /* default, portable, mapped */
    unsigned key = (unsigned)(program_random(&worker->seed) % 251) + 1;
    unsigned char *source, *result, *expected = (unsigned char *)program_allocate(n_bytes);
    void *device;
    TRY(cudaHostAlloc((void **)&source, n_bytes, flags));
    TRY(cudaMallocHost((void **)&result, n_bytes));
    TRY(cudaMalloc(&device, n_bytes));
    for (size_t i = 0; i < n_bytes; i++) {
        source[i] = (unsigned char)(i * key);
        expected[i] = (unsigned char)(source[i] * 5 + key);
    }
    TRY(cudaMemcpyAsync(device, source, n_bytes, cudaMemcpyHostToDevice, stream));
    TRY(LAUNCH(mix, BLOCKS(n_bytes, N_THREADS), N_THREADS, stream, (unsigned char *)device, n_bytes,
               key));
    TRY(cudaMemcpyAsync(result, device, n_bytes, cudaMemcpyDeviceToHost, stream));
    TRY(cudaFreeHost(source)); /* the barrier */
    MUST(memcmp(result, expected, n_bytes) == 0);
    worker->checksum = program_checksum(worker->checksum, result, n_bytes);
    TRY(cudaFree(device));
    TRY(cudaFreeHost(result));
    free(expected);
}

static void *work(void *data) {
    struct worker *worker = (struct worker *)data;
    cudaStream_t stream;
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (size_t i = 0; i < worker->n_rounds; i++)
        run_batch(worker, stream);
    TRY(cudaStreamDestroy(stream));
    return NULL;
}

int main(int argc, char **argv) {
    static struct worker workers[MOST_THREADS];
    size_t n_threads = program_option(argc, argv, "--threads", 4);
    unsigned long long checksum = CHECKSUM;
    MUST(n_threads <= MOST_THREADS);
    for (size_t i = 0; i < n_threads; i++) {
        workers[i].seed = i + 1;
        workers[i].checksum = CHECKSUM;
        workers[i].most_bytes = program_option(argc, argv, "--size", 40000);
        workers[i].n_rounds = program_option(argc, argv, "--rounds", 30);
        MUST(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (size_t i = 0; i < n_threads; i++) {
        MUST(pthread_join(workers[i].thread, NULL) == 0);
        checksum = program_checksum(checksum, &workers[i].checksum, sizeof workers[i].checksum);
    }
    printf("pinned: %zu threads, checksum %016llx\n", n_threads, checksum);
    return 0;
}
