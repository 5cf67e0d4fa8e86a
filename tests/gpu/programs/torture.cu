/*
 * Blocks freed while their work is still queued, from many threads: filled, checked and freed at once;
 * whoever gets the memory next does the same.  A word that changes in between, and a result that the
 * host reads after the free and finds old, are counted.
 *
 *   torture [--rounds N]
 */
#include "program.h"

#include <thread>
#include <vector>

enum { LARGEST_BYTES = 33 << 20, SMALLEST_BYTES = 1000, MOST_THREADS = 16 };

__global__ void fill(unsigned *words, size_t n, unsigned tag, unsigned us) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        words[i] = tag + (unsigned)i;
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < us * 1000ull);
}

__global__ void check(const unsigned *words, size_t n, unsigned tag, unsigned long long *n_wrong) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        if (words[i] != tag + (unsigned)i)
            atomicAdd(n_wrong, 1ull);
    }
}

struct totals {
    unsigned long long n_device_wrong, n_host_wrong;
};

static size_t random_bytes(unsigned long long *state) {
    unsigned shift = (unsigned)(program_random(state) % 16); /* small ones as often as large ones */
    size_t most = (size_t)LARGEST_BYTES >> shift;
    return most < SMALLEST_BYTES ? (size_t)SMALLEST_BYTES : SMALLEST_BYTES + program_random(state) % most;
}

static void work(unsigned number, unsigned n_rounds, totals *out) {
    unsigned long long state = 77 + number, *n_wrong, n_seen;
    cudaStream_t streams[4] = {cudaStreamLegacy, cudaStreamPerThread};
    unsigned *pinned;
    TRY(cudaStreamCreate(&streams[2]));
    TRY(cudaStreamCreateWithFlags(&streams[3], cudaStreamNonBlocking));
    TRY(cudaMalloc((void **)&n_wrong, sizeof *n_wrong));
    TRY(cudaMemset(n_wrong, 0, sizeof *n_wrong));
    TRY(cudaMallocHost((void **)&pinned, sizeof *pinned));
    TRY(cudaDeviceSynchronize());
    for (unsigned round = 0; round < n_rounds; round++) {
        cudaStream_t stream = streams[(number + round) % 4];
        size_t n = random_bytes(&state) / 4;
        unsigned tag = (unsigned)program_random(&state), us = (unsigned)(program_random(&state) % 200), *block;
        unsigned n_blocks = n > 65536 ? 64 : 4;
        TRY(cudaMalloc((void **)&block, n * 4));
        fill<<<n_blocks, 256, 0, stream>>>(block, n, tag, us);
        check<<<n_blocks, 256, 0, stream>>>(block, n, tag, n_wrong);
        TRY(cudaMemcpyAsync(pinned, block + n - 1, sizeof *pinned, cudaMemcpyDeviceToHost, stream));
        TRY(cudaGetLastError());
        TRY(cudaFree(block));
        out->n_host_wrong += *(volatile unsigned *)pinned != tag + (unsigned)(n - 1);
    }
    TRY(cudaDeviceSynchronize());
    TRY(cudaMemcpy(&n_seen, n_wrong, sizeof n_seen, cudaMemcpyDeviceToHost));
    out->n_device_wrong += n_seen;
    TRY(cudaFree(n_wrong));
    TRY(cudaFreeHost(pinned));
    TRY(cudaStreamDestroy(streams[2]));
    TRY(cudaStreamDestroy(streams[3]));
}

int main(int argc, char **argv) {
    unsigned n_rounds = (unsigned)program_option(argc, argv, "--rounds", 2000), n_bad = 0;
    for (unsigned n_threads = 1; n_threads <= MOST_THREADS; n_threads *= 4) {
        totals sums[MOST_THREADS] = {};
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < n_threads; i++)
            threads.emplace_back(work, i, n_rounds / n_threads, &sums[i]);
        unsigned long long n_device = 0, n_host = 0;
        for (unsigned i = 0; i < n_threads; i++) {
            threads[i].join();
            n_device += sums[i].n_device_wrong;
            n_host += sums[i].n_host_wrong;
        }
        printf("torture: %u threads, %u blocks each: %llu device words wrong, %llu host reads wrong\n", n_threads,
               n_rounds / n_threads, n_device, n_host);
        fflush(stdout);
        n_bad += n_device || n_host;
    }
    return n_bad != 0;
}
