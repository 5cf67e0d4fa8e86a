/*
 * Device variables across resets: a module's memory comes back at addresses of blocks of the
 * previous context, and copies and sets there work as before.
 *
 * Before each reset blocks of many sizes are live and end with it, so that the addresses of the
 * variables belonged to cushim, to the driver or to nothing before. Large variables get their own
 * memory from the driver, small ones share it with the code.
 */
#include "answer.h"

enum { N_ROUNDS = 10, N_BLOCKS = 60, N_SMALL = 300, N_LARGE = 3 << 20 };

__device__ int small_words[N_SMALL];
__device__ int large_words[N_LARGE];
__constant__ int constant_words[N_SMALL];

__global__ void add_constants(void) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < N_LARGE; i += step)
        large_words[i] += small_words[i % N_SMALL] + constant_words[i % N_SMALL];
}

/* Sizes from 512 B to some MiB: in slabs, in packed segments and in their own segments. */
static void leave_blocks(size_t round) {
    for (size_t i = 0; i < N_BLOCKS; i++) {
        void *block;
        TRY(cudaMalloc(&block, ((size_t)512 << (i % 15)) + round));
        TRY(cudaMemset(block, 0x5a, 512));
        if (i % 3 == 0)
            TRY(cudaFree(block));
    }
}

/* By name, for which the runtime finds the addresses. */
static void write_by_name(const int *words, int *host) {
    TRY(cudaMemcpyToSymbol(small_words, words, sizeof small_words));
    TRY(cudaMemcpyToSymbolAsync(constant_words, words, sizeof constant_words, 0,
                                cudaMemcpyHostToDevice, 0));
    TRY(cudaMemcpyFromSymbol(host, constant_words, sizeof constant_words));
    MUST(memcmp(host, words, sizeof constant_words) == 0);
}

/* By address, of which only the driver knows the owner. */
static void write_by_address(int *words, int *host) {
    void *large, *small, *constants, *block;
    TRY(cudaGetSymbolAddress(&large, large_words));
    TRY(cudaGetSymbolAddress(&small, small_words));
    TRY(cudaGetSymbolAddress(&constants, constant_words));
    TRY(cudaMemset(large, 0, sizeof large_words));
    TRY(cudaMemsetAsync((char *)large + 4096, 0, 4096, 0));
    TRY(cudaMemcpy(small, words, sizeof small_words, cudaMemcpyHostToDevice));
    TRY(cudaMalloc(&block, sizeof small_words));
    TRY(cudaMemcpy(block, small, sizeof small_words, cudaMemcpyDeviceToDevice));
    TRY(cudaMemcpyAsync(constants, block, sizeof constant_words, cudaMemcpyDeviceToDevice, 0));
    TRY(cudaMemcpy(host, constants, sizeof constant_words, cudaMemcpyDeviceToHost));
    MUST(memcmp(host, words, sizeof constant_words) == 0);
    TRY(cudaFree(block));
    printf("variables are %s, %s, %s\n", answer_type(large), answer_type(small),
           answer_type(constants));
}

int main(void) {
    static int large[N_LARGE];
    int words[N_SMALL], host[N_SMALL];
    for (size_t round = 0; round < N_ROUNDS; round++) {
        for (int i = 0; i < N_SMALL; i++)
            words[i] = i * 7 + (int)round;
        write_by_name(words, host);
        write_by_address(words, host);
        add_constants<<<200, 256>>>();
        TRY(cudaMemcpyFromSymbol(large, large_words, sizeof large));
        for (int i = 0; i < N_LARGE; i++)
            MUST(large[i] == 2 * words[i % N_SMALL]);
        leave_blocks(round);
        answer_is("reset", cudaDeviceReset(), cudaSuccess);
    }
    answer_is("in the end", cudaDeviceSynchronize(), cudaSuccess);
    return 0;
}
