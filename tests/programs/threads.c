/*
 * Threads allocate, copy and free at the same time, each on its own stream; the next thread frees
 * every second block.
 *
 *   threads [--threads N] [--rounds N] [--size LARGEST_ELEMENTS]
 */
#include "kernel.h"
#include "program.h"

#include <pthread.h>

enum { MOST_THREADS = 64, N_THREADS = 128 };

KERNEL(stamp, unsigned *, data, unsigned, value, size_t, n) {
    if (i < n)
        data[i] = value + (unsigned)i;
}

struct worker {
    pthread_t thread;
    unsigned number;
    size_t n_rounds;
    size_t largest;
    struct worker *next;
    pthread_mutex_t lock;
    void *gift; /* put here by the previous worker, freed by this one; under the lock */
};

/* Hand a block to the next worker; free the block that it had not taken yet. */
static void give(struct worker *worker, void *block) {
    pthread_mutex_lock(&worker->lock);
    void *untaken = worker->gift;
    worker->gift = block;
    pthread_mutex_unlock(&worker->lock);
    TRY(cudaFree(untaken));
}

static void work_once(struct worker *worker, cudaStream_t stream, unsigned *pinned,
                      unsigned long long *state, size_t round) {
    size_t n = 1 + (size_t)(program_random(state) % worker->largest);
    unsigned value = (unsigned)program_random(state), *device;
    TRY(cudaMalloc((void **)&device, n * sizeof *device));
    TRY(LAUNCH(stamp, BLOCKS(n, N_THREADS), N_THREADS, stream, device, value, n));
    TRY(cudaMemcpyAsync(pinned, device, n * sizeof *device, cudaMemcpyDeviceToHost, stream));
    TRY(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < n; i++)
        MUST(pinned[i] == value + (unsigned)i);
    if (round % 2)
        give(worker->next, device);
    else
        TRY(cudaFree(device));
}

static void *work(void *cookie) {
    struct worker *worker = (struct worker *)cookie;
    unsigned long long state = worker->number;
    cudaStream_t stream;
    unsigned *pinned;
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    TRY(cudaMallocHost((void **)&pinned, worker->largest * sizeof *pinned));
    for (size_t round = 0; round < worker->n_rounds; round++) {
        work_once(worker, stream, pinned, &state, round);
        give(worker, NULL);
    }
    TRY(cudaFreeHost(pinned));
    TRY(cudaStreamDestroy(stream));
    return NULL;
}

int main(int argc, char **argv) {
    size_t n_threads = program_option(argc, argv, "--threads", 4);
    size_t n_rounds = program_option(argc, argv, "--rounds", 200);
    size_t largest = program_option(argc, argv, "--size", 20000);
    static struct worker workers[MOST_THREADS];
    MUST(n_threads >= 1 && n_threads <= MOST_THREADS && largest > 0);

    for (size_t i = 0; i < n_threads; i++) {
        workers[i].number = (unsigned)i;
        workers[i].n_rounds = n_rounds;
        workers[i].largest = largest;
        workers[i].next = &workers[(i + 1) % n_threads];
        MUST(pthread_mutex_init(&workers[i].lock, NULL) == 0);
    }
    for (size_t i = 0; i < n_threads; i++)
        MUST(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    for (size_t i = 0; i < n_threads; i++)
        MUST(pthread_join(workers[i].thread, NULL) == 0);
    for (size_t i = 0; i < n_threads; i++)
        TRY(cudaFree(workers[i].gift));
    printf("threads: %zu x %zu blocks right\n", n_threads, n_rounds);
    return 0;
}
