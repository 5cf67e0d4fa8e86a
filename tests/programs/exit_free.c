/*
 * Frees at the end of the process, in a handler of atexit and in a destructor, as in static objects
 * of C++ programs. The handler is registered after CUDA's initialisation, so it runs before CUDA's
 * handler; the destructor runs last, and its calls may return that the runtime is unloading.
 */
#include "program.h"

static void *freed_by_handler[16];
static void *freed_by_destructor;

static void at_exit(void) {
    for (int i = 0; i < 16; i++)
        TRY(cudaFree(freed_by_handler[i]));
    printf("exit_free: the handler freed 16 blocks\n");
}

__attribute__((destructor)) static void at_unload(void) {
    cudaError_t error = cudaFree(freed_by_destructor);
    MUST(error == cudaSuccess || error == cudaErrorCudartUnloading);
}

int main(void) {
    for (int i = 0; i < 16; i++) {
        TRY(cudaMalloc(&freed_by_handler[i], (size_t)1000 << i));
        TRY(cudaMemset(freed_by_handler[i], i, 1000));
    }
    TRY(cudaMalloc(&freed_by_destructor, 1000));
    MUST(atexit(at_exit) == 0);
    return 0;
}
